/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/checkpoint.h>

#include "base/error.h"
#include "base/names.h"
#include "base/quantity.h"
#include "base/struct_size.h"

#include <stdio.h>
#include <string.h>

static const char *const format_names[] = {
#define ROW(enumerator, name, stored, bits) [enumerator] = (name),
    HR_TENSOR_FORMAT_LIST(ROW)
#undef ROW
};

static const struct {
  const char *name, *words;
} parts[] = {
#define ROW(enumerator, name, words) [enumerator] = {name, words},
    HR_CHECKPOINT_PART_LIST(ROW)
#undef ROW
};

static const char *const match_names[] = {
#define ROW(enumerator, name) [enumerator] = (name),
    HR_CHECKPOINT_MATCH_LIST(ROW)
#undef ROW
};

HR_DEFINE_NAME(hr_tensor_format_name, hr_tensor_format, format_names, HR_TENSOR_FORMAT_COUNT)

const char *hr_checkpoint_part_name(hr_checkpoint_part part)
{
  return (unsigned)part < HR_CHECKPOINT_PART_COUNT ? parts[part].name : "unknown";
}

HR_DEFINE_NAME(hr_checkpoint_match_name, hr_checkpoint_match, match_names, HR_CHECKPOINT_MATCH_COUNT)

/* The elements of all parts but those of the bits. */
static int64_t without(const hr_checkpoint *checkpoint, unsigned left_out)
{
  int64_t elements = 0;
  for (int i = 0; i < HR_CHECKPOINT_PART_COUNT; i++)
    elements += left_out >> i & 1 ? 0 : checkpoint->part_elements[i];
  return elements;
}

static bool may_leave_out(const hr_checkpoint *checkpoint, unsigned left_out)
{
  for (int i = 0; i < HR_CHECKPOINT_PART_COUNT; i++) {
    if (left_out >> i & 1 && (i == HR_CHECKPOINT_WEIGHTS || checkpoint->part_elements[i] == 0))
      return false;
  }
  return true;
}

/* The fewest parts without which the checkpoint has as many elements as the model has parameters. False: none fit. */
static bool find_parts(const hr_checkpoint *checkpoint, int64_t parameters, unsigned *left_out)
{
  bool found = false;
  for (unsigned choice = 0; choice < 1u << HR_CHECKPOINT_PART_COUNT; choice++) {
    if (!may_leave_out(checkpoint, choice) || without(checkpoint, choice) != parameters)
      continue;
    if (!found || __builtin_popcount(choice) < __builtin_popcount(*left_out))
      *left_out = choice;
    found = true;
  }
  return found;
}

/* All parts that a model's parameters do not count; the head where the configuration ties it. */
static unsigned usual_parts(const hr_checkpoint *checkpoint, const hr_parameters *parameters)
{
  unsigned left_out = 0;
  for (int i = 0; i < HR_CHECKPOINT_PART_COUNT; i++) {
    bool counted = i == HR_CHECKPOINT_WEIGHTS || (i == HR_CHECKPOINT_HEAD && parameters->logit > 0);
    left_out |= !counted && checkpoint->part_elements[i] > 0 ? 1u << i : 0;
  }
  return left_out;
}

/* " without 8,192 of buffers and 2,359,296 of quantization scales" */
static void write_left_out(const hr_checkpoint *checkpoint, unsigned left_out, char *text, size_t size)
{
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < HR_CHECKPOINT_PART_COUNT && used < size; i++) {
    char count[HR_NUMBER_SIZE];
    if (!(left_out >> i & 1))
      continue;
    hr_write_count(count, sizeof count, checkpoint->part_elements[i]);
    used +=
        (size_t)snprintf(text + used, size - used, "%s%s of %s", used ? " and " : " without ", count, parts[i].words);
  }
}

static void write_difference(const hr_checkpoint *checkpoint, const hr_parameters *parameters,
                             hr_checkpoint_comparison *comparison, const char *left_out)
{
  char elements[HR_NUMBER_SIZE], counted[HR_NUMBER_SIZE], difference[HR_NUMBER_SIZE];
  int64_t more = comparison->elements - comparison->parameters;
  bool no_head = checkpoint->part_elements[HR_CHECKPOINT_HEAD] == 0 && more == -parameters->logit && more != 0;
  hr_write_count(elements, sizeof elements, comparison->elements);
  hr_write_count(counted, sizeof counted, comparison->parameters);
  hr_write_count(difference, sizeof difference, more < 0 ? -more : more);
  snprintf(comparison->text, sizeof comparison->text, "%s parameters%s, %s %s than the configuration's %s%s", elements,
           left_out, difference, more < 0 ? "fewer" : "more", counted,
           no_head ? ": it has no LM head, as with tied embeddings" : "");
}

hr_status hr_checkpoint_compare(const hr_checkpoint *checkpoint, const hr_model *model,
                                hr_checkpoint_comparison *comparison, hr_error *error)
{
  HR_NEED(error, checkpoint, model, comparison);
  HR_TAKE(hr_model, model, error);
  hr_parameters parameters;
  HR_TRY(hr_model_parameters(model, &parameters, error));
  hr_checkpoint_comparison result = {.parameters = parameters.total};
  unsigned left_out = 0;
  bool packed = checkpoint->part_elements[HR_CHECKPOINT_PACKED] > 0;
  bool fits = !packed && find_parts(checkpoint, parameters.total, &left_out);
  if (!fits)
    left_out = usual_parts(checkpoint, &parameters);
  result.match = packed          ? HR_CHECKPOINT_NOT_COMPARED
                 : !fits         ? HR_CHECKPOINT_DIFFERENT
                 : left_out == 0 ? HR_CHECKPOINT_EQUAL
                                 : HR_CHECKPOINT_EQUAL_WITHOUT;
  result.elements = without(checkpoint, left_out);
  for (int i = 0; i < HR_CHECKPOINT_PART_COUNT; i++)
    result.left_out[i] = left_out >> i & 1;
  char elements[HR_NUMBER_SIZE], words[224];
  hr_write_count(elements, sizeof elements, result.elements);
  write_left_out(checkpoint, left_out, words, sizeof words);
  if (packed)
    snprintf(result.text, sizeof result.text, "packed weights are not compared with the configuration");
  else if (fits)
    snprintf(result.text, sizeof result.text, "%s parameters%s, as the configuration has", elements, words);
  else
    write_difference(checkpoint, &parameters, &result, words);
  *comparison = result;
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/tally.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

typedef enum place { FIRST, ANY, LAST } place;

static const struct {
  hr_checkpoint_part part;
  place place;
  const char *text;
} rules[] = {
#define HR_PART_RULE(part, place, text) {HR_CHECKPOINT_##part, place, text},
#include "model/checkpoint/parts.inc"
};

static const char *last_component(const char *name)
{
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

static bool begins_with(const char *text, const char *start)
{
  return strncmp(text, start, strlen(start)) == 0;
}

/* The first component that begins with `start`; NULL if none does. */
static const char *find_component(const char *name, const char *start)
{
  for (const char *part = name; part; part = strchr(part, '.') ? strchr(part, '.') + 1 : NULL) {
    if (begins_with(part, start))
      return part;
  }
  return NULL;
}

static bool fits(const char *name, place where, const char *text)
{
  if (where == FIRST)
    return begins_with(name, text);
  return where == LAST ? strcmp(last_component(name), text) == 0 : find_component(name, text) != NULL;
}

static bool ends_with(const char *name, const char *ending)
{
  size_t length = strlen(name), end = strlen(ending);
  return length >= end && strcmp(name + length - end, ending) == 0;
}

/* The projection to logits of a whole model: "lm_head.weight", GPT-NeoX's "embed_out.weight", InternLM2's
 * "output.weight". Layers have outputs, too. */
static bool is_head(const char *name)
{
  static const char *const heads[] = {"lm_head.weight", "embed_out.weight", "output.weight", "output_layer.weight"};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    size_t before = ends_with(name, heads[i]) ? strlen(name) - strlen(heads[i]) : 1;
    if ((before == 0 || (before != 1 && name[before - 1] == '.')) && !strpbrk(name, "0123456789"))
      return true;
  }
  return strcmp(name, "head.weight") == 0; /* DeepSeek-V4 */
}

/* ---- parts ---- */

/* Integers that may hold several weights each. int8 holds one; int64 and bool are shapes, counters and masks. */
static bool is_packing(hr_tensor_format format)
{
  return format > HR_TENSOR_INT64 && format != HR_TENSOR_INT8 && format != HR_TENSOR_BOOL;
}

/* Two 4-bit numbers in a byte, so that the number of weights is known: mxfp4's blocks (gpt-oss), the packed fp4 of
 * compressed-tensors and DeepSeek-V4's experts. */
static bool has_two_in_a_byte(const hr_tensor_entry *tensor)
{
  if (tensor->format == HR_TENSOR_INT8 && strstr(tensor->name, ".ffn.experts."))
    return true;
  return tensor->format == HR_TENSOR_UINT8 &&
         (ends_with(tensor->name, "_blocks") || strcmp(last_component(tensor->name), "weight_packed") == 0);
}

hr_checkpoint_part hr_tensor_part(const hr_tensor_entry *tensor)
{
  const char *name = tensor->name;
  bool pairs = has_two_in_a_byte(tensor);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (fits(name, rules[i].place, rules[i].text) && !(pairs && rules[i].part == HR_CHECKPOINT_PACKED))
      return rules[i].part;
  }
  if (is_head(name) && tensor->format < HR_TENSOR_INT64)
    return HR_CHECKPOINT_HEAD;
  if (pairs)
    return HR_CHECKPOINT_WEIGHTS;
  if (tensor->format == HR_TENSOR_FP8_E8M0 ||                            /* DeepSeek-V4's */
      (tensor->format == HR_TENSOR_UINT8 && ends_with(name, "_scales"))) /* of mxfp4's blocks */
    return HR_CHECKPOINT_SCALES;
  if (ends_with(name, ".ffn.gate.bias")) /* DeepSeek-V4's */
    return HR_CHECKPOINT_ROUTER_BIAS;
  if (tensor->rank == 4 && (ends_with(name, "attn.bias") || ends_with(name, "attention.bias"))) /* a causal mask */
    return HR_CHECKPOINT_BUFFERS;
  if (tensor->format == HR_TENSOR_INT64 || tensor->format == HR_TENSOR_BOOL)
    return HR_CHECKPOINT_BUFFERS;
  return is_packing(tensor->format) ? HR_CHECKPOINT_PACKED : HR_CHECKPOINT_WEIGHTS;
}

/* ---- sums ---- */

/* The number of a layer ("model.layers.61.…"), or -1. */
static int64_t layer_of(const char *name)
{
  const char *layers = find_component(name, "layers.");
  char *end;
  long number = layers ? strtol(layers + 7, &end, 10) : -1;
  return layers && end > layers + 7 && *end == '.' && number >= 0 && number < HR_TALLY_LAYERS_MAX ? number : -1;
}

/* Multi-token prediction that is stored as one more layer has these beside the layer's own tensors (DeepSeek-V3,
 * GLM-4.5). */
static bool marks_prediction(const char *name)
{
  return find_component(name, "eh_proj") || find_component(name, "enorm") || find_component(name, "hnorm") ||
         find_component(name, "shared_head");
}

static bool add(int64_t *sum, int64_t value)
{
  return !__builtin_add_overflow(*sum, value, sum);
}

hr_status hr_tally_add(hr_tally *tally, const hr_tensor_entry *tensor, const char *input, hr_error *error)
{
  hr_checkpoint *sums = &tally->sums;
  hr_checkpoint_part part = hr_tensor_part(tensor);
  int64_t elements = tensor->elements, layer = layer_of(tensor->name);
  if (has_two_in_a_byte(tensor) && __builtin_mul_overflow(elements, 2, &elements))
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: %.100s: its elements do not fit into 63 bits", input, tensor->name);
  bool fits = add(&sums->elements, elements) && add(&sums->bytes, tensor->bytes) &&
              add(&sums->format_elements[tensor->format], elements) && add(&sums->part_elements[part], elements);
  if (!fits)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: the elements of all tensors do not fit into 63 bits", input);
  sums->tensors++;
  sums->format_tensors[tensor->format]++;
  sums->format_bytes[tensor->format] += tensor->bytes; /* at most the sum of all bytes */
  if (layer >= 0 && part == HR_CHECKPOINT_WEIGHTS) {
    tally->layer_weights[layer] += elements;
    tally->layer_predicts[layer] = tally->layer_predicts[layer] || marks_prediction(tensor->name);
  }
  return HR_OK;
}

hr_checkpoint hr_tally_sums(const hr_tally *tally)
{
  hr_checkpoint sums = tally->sums;
  for (int i = 0; i < HR_TALLY_LAYERS_MAX; i++) {
    if (tally->layer_predicts[i]) {
      sums.part_elements[HR_CHECKPOINT_WEIGHTS] -= tally->layer_weights[i];
      sums.part_elements[HR_CHECKPOINT_PREDICTION] += tally->layer_weights[i];
    }
  }
  return sums;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "report/cache_growth.h"

#include "base/quantity.h"
#include "report/lines.h"

#include <stdio.h>

#define STEPS_MAX (HR_LAYER_GROUPS_MAX + 1)

/** Bytes that each token adds behind the first `from_tokens` ones, all layers and devices together. */
typedef struct growth_step {
  int64_t from_tokens, bytes_per_token;
} growth_step;

static int64_t added_behind(const hr_model *model, const hr_workload *workload, int64_t tokens)
{
  hr_memory memory = {0};
  hr_workload decode = hr_workload_default(model);
  decode.phase = HR_PHASE_DECODE;
  decode.dtype = workload->dtype;
  decode.kv_cache = workload->kv_cache;
  decode.context = tokens > 0 ? tokens : 1;
  if (hr_memory_estimate(model, &decode, &memory, NULL) != HR_OK)
    return 0;
  return tokens > 0 ? memory.kv_cache_bytes_of_next_token : memory.kv_cache_bytes_per_token;
}

/* The shortest window above `window`; 0: none. */
static int64_t next_window(const hr_model *model, int64_t window)
{
  int64_t next = 0;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *group = &model->groups[i];
    int64_t own = group->compressed.q_heads > 0 ? group->compressed.window : group->attention.window;
    if (own > window && (next == 0 || own < next))
      next = own;
  }
  return next;
}

static size_t list_steps(const hr_model *model, const hr_workload *workload, growth_step steps[STEPS_MAX])
{
  size_t count = 1;
  steps[0] = (growth_step){0, added_behind(model, workload, 0)};
  for (int64_t window = next_window(model, 0); window > 0; window = next_window(model, window)) {
    int64_t bytes = added_behind(model, workload, window);
    if (bytes != steps[count - 1].bytes_per_token)
      steps[count++] = (growth_step){window, bytes};
  }
  return count;
}

void hr_print_cache_growth(const hr_document *document, const hr_model *model, const hr_workload *workload,
                           int64_t tokens)
{
  growth_step steps[STEPS_MAX];
  size_t count = list_steps(model, workload, steps);
  char line[512] = "", bytes[HR_NUMBER_SIZE], length[HR_NUMBER_SIZE], most[HR_NUMBER_SIZE];
  for (size_t i = 0; i < count && count > 1; i++) {
    hr_write_bytes(bytes, sizeof bytes, (double)steps[i].bytes_per_token);
    hr_write_count(length, sizeof length, i + 1 < count ? steps[i + 1].from_tokens : 0);
    if (i + 1 < count)
      hr_append_item(line, sizeof line, "%s up to %s", bytes, length);
    else
      hr_append_item(line, sizeof line, "%s beyond", bytes);
  }
  hr_write_count(length, sizeof length, tokens);
  hr_write_bytes(bytes, sizeof bytes, (double)added_behind(model, workload, tokens));
  hr_write_bytes(most, sizeof most, (double)steps[0].bytes_per_token);
  if (count > 1)
    hr_print_field(document, "KV cache", "%s per token at %s tokens: %s (%s in uniform pages)", bytes, length, line,
                   most);
  else
    hr_print_field(document, "KV cache", "%s per token", bytes);
}

#define FIELD(member) HR_FIELD(growth_step, member)
static const hr_column step_columns[] = {FIELD(from_tokens), FIELD(bytes_per_token)};

void hr_json_put_cache_growth(hr_json json, const hr_model *model, const hr_workload *workload)
{
  growth_step steps[STEPS_MAX];
  size_t count = list_steps(model, workload, steps);
  json_t *rows = json_array();
  hr_json_put(json, "kv_cache_growth", rows);
  for (size_t i = 0; rows && i < count; i++)
    hr_json_put_fields(hr_json_append_object(json, rows), step_columns, HR_COUNT_OF(step_columns), &steps[i]);
}

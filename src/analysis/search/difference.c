/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/difference.h"

#include "base/text.h"
#include "model/layers/layer_kinds.h"
#include "model/reshape/reshape.h"

#include <headroom/experimental/change.h>
#include <headroom/experimental/model.h>
#include <headroom/memory.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void add(hr_search_shape *shape, const char *format, ...) HR_PRINTF(2, 3);

/* Appends a part after ", ". */
static void add(hr_search_shape *shape, const char *format, ...)
{
  size_t length = strlen(shape->differs);
  va_list arguments;
  if (length > 0 && length + 2 < sizeof shape->differs) {
    memcpy(shape->differs + length, ", ", 3);
    length += 2;
  }
  va_start(arguments, format);
  hr_write_text_v(shape->differs + length, sizeof shape->differs - length, format, arguments);
  va_end(arguments);
}

static void add_size(hr_search_shape *shape, const char *name, int64_t before, int64_t after)
{
  if (before != after)
    add(shape, "%s %" PRId64 " → %" PRId64, name, before, after);
}

/* "heads 32×80 → 40×64": numbers and sizes. */
static void add_heads(const hr_model *model, hr_search_shape *shape)
{
  const hr_mixer_attention own = hr_heads_of(hr_model_main_group(model));
  const hr_mixer_attention heads = hr_heads_of(hr_model_main_group(&shape->model));
  bool multi_head = own.k_heads == own.q_heads && own.v_heads == own.q_heads && heads.k_heads == heads.q_heads &&
                    heads.v_heads == heads.q_heads;
  if (own.qk_dim != heads.qk_dim)
    add(shape, "heads %" PRId64 "×%" PRId64 " → %" PRId64 "×%" PRId64, own.q_heads, own.qk_dim, heads.q_heads,
        heads.qk_dim);
  else
    add_size(shape, "heads", own.q_heads, heads.q_heads);
  if (multi_head)
    return;
  if (own.k_heads == own.v_heads && heads.k_heads == heads.v_heads) {
    add_size(shape, "K/V heads", own.k_heads, heads.k_heads);
    return;
  }
  add_size(shape, "K heads", own.k_heads, heads.k_heads);
  add_size(shape, "V heads", own.v_heads, heads.v_heads);
}

/* What a token takes in the caches; with the heads it decides how many sequences fit. */
static double cache_change(const hr_model *model, const hr_workload *workload, const hr_model *changed)
{
  hr_memory before, after;
  if (hr_memory_estimate(model, workload, &before, NULL) != HR_OK ||
      hr_memory_estimate(changed, workload, &after, NULL) != HR_OK || before.kv_cache_bytes_per_token == 0)
    return 0;
  return (double)after.kv_cache_bytes_per_token / (double)before.kv_cache_bytes_per_token - 1;
}

void hr_search_describe_difference(const hr_model *model, const hr_workload *workload, hr_search_shape *shape)
{
  const hr_model *changed = &shape->model;
  bool experts = hr_ffn_width(hr_model_main_group(model), HR_FFN_EXPERTS) > 0;
  shape->differs[0] = '\0';
  add_size(shape, "layers", hr_model_layers(model), hr_model_layers(changed));
  add_size(shape, "hidden", model->hidden, changed->hidden);
  add_heads(model, shape);
  add_size(shape, experts ? "experts" : "MLP", hr_main_mlp_width(model), hr_main_mlp_width(changed));
  if (model->vocabulary != changed->vocabulary)
    add(shape, "vocabulary %+" PRId64, changed->vocabulary - model->vocabulary);
  shape->cache_change = cache_change(model, workload, changed);
  if ((workload->phase == HR_PHASE_PREFILL || workload->phase == HR_PHASE_DECODE) && fabs(shape->cache_change) > 0.005)
    add(shape, "KV cache %+.0f%%", 100 * shape->cache_change);
  uint64_t changes = hr_changes_between(model, workload, changed, workload);
  shape->change_class = hr_change_cost_of(hr_costliest_change(changes))->change_class;
}

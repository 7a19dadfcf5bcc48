/* SPDX-License-Identifier: Apache-2.0 */
/* Command with experts: dense first layers, whose windows follow a pattern of their own. */
#include "model/config/config_experts.h"

enum { FULL, SLIDING };

typedef struct cohere_layers {
  hr_layer_set experts;
  int64_t prefix, prefix_period, period; /* dense first layers; every n-th has no window, of them and of the others */
} cohere_layers;

static size_t type_of(const void *context, int64_t index)
{
  const cohere_layers *layers = context;
  bool first = index < layers->prefix;
  int64_t place = first ? index : index - layers->prefix;
  return (place + 1) % (first ? layers->prefix_period : layers->period) == 0 ? FULL : SLIDING;
}

/* Layers without a window have no positions, unless they are dense and all of those have none. */
static void change(const void *context, int64_t index, hr_layer_group *layer)
{
  const cohere_layers *layers = context;
  bool dense = !hr_layer_set_has(&layers->experts, index);
  if (layer->attention.window == 0 && !(dense && layers->prefix_period == 1))
    layer->attention.rotary_dim = 0;
  hr_change_to_experts(&layers->experts, index, layer);
}

hr_status hr_finish_cohere2_moe(hr_config *config, const hr_family *family, hr_model *model)
{
  cohere_layers layers;
  hr_ffn_dense *dense = &model->groups[0].dense;
  HR_TRY(hr_config_size_derived(config, "prefix_dense_intermediate_size", dense->width, &dense->width));
  if (hr_json_has(&config->json, "rms_norm_eps"))
    model->norm = HR_NORM_RMS;
  HR_TRY(hr_config_window(config, "sliding_window", 4096, model));
  HR_TRY(hr_config_expert_layers(config, &family->experts, model->groups[0].count, &layers.experts));
  HR_TRY(hr_json_integer_or(&config->json, "first_k_dense_replace", 0, INT64_MAX, 0, &layers.prefix));
  HR_TRY(hr_config_size_derived(config, "prefix_dense_sliding_window_pattern", 1, &layers.prefix_period));
  HR_TRY(hr_config_size_derived(config, "sliding_window_pattern", 4, &layers.period));
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.type_of = type_of;
  pattern.change = change;
  pattern.context = pattern.change_context = &layers;
  return hr_config_windows(config, &pattern, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 4: chunked attention with rotary positions, and layers without either; experts in some layers. */
#include "model/config/config_experts.h"

#include <inttypes.h>

enum { CHUNKED, FULL };

typedef struct llama4_layers {
  hr_layer_set experts, rotary;
  int64_t interval; /* every n-th layer has no positions if there is no list */
} llama4_layers;

/* "no_rope_layers" has 1 for each layer with rotary positions, in spite of its name. */
static hr_status read_rotary(hr_config *config, int64_t count, llama4_layers *layers)
{
  const char *field = "no_rope_layers";
  const json_t *list = json_object_get(config->json.object, field);
  hr_config_mark(config, field);
  HR_TRY(hr_config_size_derived(config, "no_rope_layer_interval", 4, &layers->interval));
  bool listed = list && !json_is_null(list) && !(json_is_array(list) && json_array_size(list) == 0);
  if (listed && (!json_is_array(list) || (int64_t)json_array_size(list) != count))
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a list with 0 or 1 for each layer");
  for (int64_t i = 0; i < count; i++) {
    const json_t *flag = listed ? json_array_get(list, (size_t)i) : NULL;
    if (listed && !json_is_boolean(flag) && !json_is_integer(flag))
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a list with 0 or 1 for each layer");
    bool on = listed ? json_is_true(flag) || json_integer_value(flag) != 0 : (i + 1) % layers->interval != 0;
    hr_layer_set_put(&layers->rotary, i, on);
  }
  return HR_OK;
}

static size_t type_of(const void *context, int64_t index)
{
  return hr_layer_set_has(&((const llama4_layers *)context)->rotary, index) ? CHUNKED : FULL;
}

static void change(const void *context, int64_t index, hr_layer_group *layer)
{
  const llama4_layers *layers = context;
  if (!hr_layer_set_has(&layers->rotary, index)) {
    layer->attention.rotary_dim = 0;
    layer->attention.qk_norm = HR_QK_NORM_NONE;
  }
  hr_change_to_experts(&layers->experts, index, layer);
}

/* Llama Guard 4 has no experts, and lists no layers with them. */
static hr_status check_experts(const hr_config *config, const hr_layer_group *layer, const hr_layer_set *with_experts)
{
  for (int64_t i = 0; i < layer->count && layer->experts.experts == 0; i++) {
    if (hr_layer_set_has(with_experts, i))
      return hr_json_fail(&config->json, "num_local_experts", HR_ERROR_INVALID,
                          "is 0, but layer %" PRId64 " has experts; expected moe_layers to be empty", i);
  }
  return HR_OK;
}

hr_status hr_finish_llama4(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_layer_group layer = model->groups[0];
  llama4_layers layers;
  bool normalized;
  HR_TRY(hr_config_flag(config, "use_qk_norm", true, &normalized));
  layer.attention.qk_norm = normalized ? HR_QK_NORM_ROTATED : HR_QK_NORM_NONE;
  HR_TRY(hr_config_window(config, "attention_chunk_size", 8192, model));
  HR_TRY(hr_config_expert_layers(config, &family->experts, layer.count, &layers.experts));
  HR_TRY(check_experts(config, &layer, &layers.experts));
  HR_TRY(read_rotary(config, layer.count, &layers));
  hr_layer_pattern pattern = {.layers = layer.count,
                              .field = "layer_types",
                              .type_count = 2,
                              .types = {[CHUNKED] = {"chunked_attention", layer}, [FULL] = {"full_attention", layer}},
                              .type_of = type_of,
                              .change = change,
                              .context = &layers,
                              .change_context = &layers};
  pattern.types[CHUNKED].layer.attention.window = model->groups[0].attention.window;
  pattern.types[CHUNKED].layer.attention.window_kind = HR_WINDOW_CHUNKED;
  return hr_config_layers(config, &pattern, model);
}

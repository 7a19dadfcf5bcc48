/* SPDX-License-Identifier: Apache-2.0 */
/* Step 3.5 and 3.7 Flash: query heads of their own in layers with a window, a gate for each head. */
#include "model/config/config_experts.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FULL, SLIDING };

static size_t type_of(const void *context, int64_t index)
{
  (void)context;
  (void)index;
  return FULL;
}

/* Lists also have the layers that predict further tokens, behind the others. */
static void trim(const hr_config *config, const char *field, int64_t layers)
{
  json_t *list = json_object_get(config->json.object, field);
  const json_t *further = json_object_get(config->json.object, "num_nextn_predict_layers");
  if (!json_is_array(list) || (int64_t)json_array_size(list) != layers + json_integer_value(further))
    return;
  while ((int64_t)json_array_size(list) > layers)
    json_array_remove(list, (size_t)layers);
}

/* The layers with experts may be a text, as "3,4,5". */
static hr_status read_expert_layers(hr_config *config, const hr_family *family, int64_t layers, hr_layer_set *set)
{
  static const char field[] = "moe_layers_enum";
  const char *text = json_string_value(json_object_get(config->json.object, field));
  if (!text || hr_json_has(&config->json, family->experts.kinds))
    return hr_config_expert_layers(config, &family->experts, layers, set);
  hr_config_mark(config, field);
  memset(set, 0, sizeof *set);
  for (char *end; *text; text = *end == ',' ? end + 1 : end) {
    const long long index = strtoll(text, &end, 10);
    if (end == text || index < 0 || index >= layers || (*end != '\0' && *end != ','))
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID,
                          "expected layers from 0 to %" PRId64 " with commas, found \"%.40s\"", layers - 1, text);
    hr_layer_set_put(set, index, true);
  }
  return HR_OK;
}

/* Layers with a window have a field of their own for it, in published files an object. */
static hr_status read_sliding_heads(hr_config *config, int64_t usual, int64_t *heads)
{
  static const char setting[] = "attention_other_setting";
  hr_json_reader inner = config->json;
  inner.object = json_object_get(config->json.object, setting);
  inner.path = "attention_other_setting.";
  hr_config_mark(config, setting);
  if (json_is_object(inner.object))
    HR_TRY(hr_json_integer_or(&inner, "num_attention_heads", 1, HR_MODEL_SIZE_MAX, usual, &usual));
  return hr_config_size_derived(config, "num_sliding_attention_heads", usual, heads);
}

/* A third name of the routed experts, which counts where the other two are missing. */
static hr_status read_experts(hr_config *config, const hr_expert_fields *fields, hr_ffn_experts *experts)
{
  int64_t given;
  HR_TRY(hr_config_size_derived(config, "num_experts", experts->experts, &given));
  if (!hr_json_has(&config->json, fields->count.field) && !hr_json_has(&config->json, fields->count_alias))
    experts->experts = given;
  return HR_OK;
}

hr_status hr_finish_step(hr_config *config, const hr_family *family, hr_model *model)
{
  static const char *const values[] = {"swiglu_limits", "swiglu_limits_shared", "query_pre_attn_scalar",
                                       "moe_router_scaling_factor", "use_moe_router_bias"};
  hr_mixer_attention *attention = &model->groups[0].attention;
  const int64_t layers = model->groups[0].count;
  hr_layer_set experts;
  int64_t sliding_heads;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    hr_config_mark(config, values[i]);
  HR_TRY(hr_config_size_derived(config, "num_attention_groups", attention->k_heads, &attention->k_heads));
  attention->v_heads = attention->k_heads;
  HR_TRY(read_experts(config, &family->experts, &model->groups[0].experts));
  trim(config, "layer_types", layers);
  trim(config, "mlp_layer_types", layers);
  HR_TRY(read_sliding_heads(config, attention->q_heads, &sliding_heads));
  HR_TRY(hr_config_window(config, "sliding_window", 0, model));
  HR_TRY(read_expert_layers(config, family, layers, &experts));
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.types[SLIDING].layer.attention.q_heads = sliding_heads;
  pattern.type_of = type_of;
  pattern.change = hr_change_to_experts;
  pattern.change_context = &experts;
  return hr_config_windows(config, &pattern, model);
}

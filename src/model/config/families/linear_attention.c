/* SPDX-License-Identifier: Apache-2.0 */
/* Attention beside gated delta nets (Qwen3-Next, Qwen3.5, OLMo Hybrid) and lightning attention (MiniMax-01). */
#include "model/config/config_experts.h"
#include "model/config/config_scan.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

/* Every n-th layer has attention. */
static size_t attention_every(const void *interval, int64_t index)
{
  return (index + 1) % *(const int64_t *)interval == 0 ? HR_TYPE_ATTENTION : HR_TYPE_SCAN;
}

hr_status hr_finish_qwen3_next(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t interval;
  bool gated;
  HR_TRY(hr_config_flag(config, "attn_output_gate", true, &gated));
  if (!gated)
    return hr_json_fail(&config->json, "attn_output_gate", HR_ERROR_UNSUPPORTED, "false is not supported");
  model->groups[0].attention.output_gate = true;
  HR_TRY(hr_config_scan(config, &family->scan, model));
  hr_config_mark(config, "mtp_use_dedicated_embeddings");
  if (!family->experts.dense_layers)
    hr_config_mark(config, "mlp_only_layers"); /* Qwen3.5 has experts in every layer */
  HR_TRY(hr_config_size_derived(config, "full_attention_interval", 4, &interval));
  hr_layer_pattern pattern = hr_scan_pattern(config, model, NULL);
  pattern.type_of = attention_every;
  pattern.context = &interval;
  return hr_config_apply(config, family, &pattern, hr_config_layers, model);
}

/* Layers 0, 2, 4, … have attention unless a list says otherwise; its heads are those of the linear attention. */
static size_t even_attention(const void *context, int64_t index)
{
  (void)context;
  return index % 2 == 0 ? HR_TYPE_ATTENTION : HR_TYPE_SCAN;
}

/* In the numbers of MiniMax's own code 1 is softmax attention and 0 lightning attention. */
static size_t numbered_type(const void *list, int64_t index)
{
  const json_t *item = json_array_get(list, (size_t)index);
  return json_integer_value(item) == 1 ? HR_TYPE_ATTENTION : HR_TYPE_SCAN;
}

static hr_status check_numbers(hr_config *config, int64_t layers, const json_t **list)
{
  static const char field[] = "attn_type_list";
  HR_TRY(hr_config_layer_list(config, field, layers, list));
  if (!*list)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "is missing, which says the kind of each layer");
  for (size_t i = 0; i < json_array_size(*list); i++) {
    const json_t *item = json_array_get(*list, i);
    if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) > 1)
      return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED,
                          "has layer types other than 0 (lightning attention) and 1 (attention)");
  }
  return HR_OK;
}

/* transformers reads layer_types alone, MiniMax's own code attn_type_list: where both can be meant is refused. */
static hr_status read_minimax_layers(hr_config *config, bool numbered, hr_model *model)
{
  const json_t *list;
  hr_layer_pattern pattern = hr_scan_pattern(config, model, NULL);
  pattern.type_of = even_attention;
  hr_config_mark(config, "attn_type_list"); /* the same as layer_types, in the first code's numbers */
  bool has_types = hr_json_has(&config->json, "layer_types");
  if (!numbered && !has_types && hr_json_has(&config->json, "attn_type_list"))
    return hr_json_fail(&config->json, "attn_type_list", HR_ERROR_UNSUPPORTED, "is supported only beside layer_types");
  if (numbered && !has_types) {
    HR_TRY(check_numbers(config, pattern.layers, &list));
    pattern.type_of = numbered_type;
    pattern.context = list;
  }
  return hr_config_layers(config, &pattern, model);
}

static hr_status refuse_shared(hr_config *config)
{
  static const char field[] = "shared_intermediate_size";
  int64_t shared;
  hr_config_mark(config, field);
  HR_TRY(hr_json_integer_or(&config->json, field, 0, HR_MODEL_SIZE_MAX, 0, &shared));
  if (shared == 0)
    return HR_OK;
  return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "shared experts of %" PRId64 " are not supported",
                      shared);
}

hr_status hr_finish_minimax(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_mixer_attention *attention = &model->groups[0].attention;
  hr_mixer_scan *scan = &model->groups[0].scan;
  *scan = (hr_mixer_scan){.recurrence = HR_RECURRENCE_LIGHTNING,
                          .heads = attention->q_heads,
                          .head_dim = attention->v_dim,
                          .groups = attention->q_heads,
                          .state = attention->qk_dim,
                          .norm = true,
                          .norm_weight = true};
  HR_TRY(hr_config_size_derived(config, "block_size", 256, &scan->chunk));
  HR_TRY(hr_config_window(config, "sliding_window", 0, model));
  HR_TRY(hr_config_size_derived(config, "rotary_dim", attention->rotary_dim, &attention->rotary_dim));
  HR_TRY(refuse_shared(config));
  return read_minimax_layers(config, strcmp(family->model_type, "minimax") != 0, model);
}

/* Attention in layers 3, 7, 11, …, at least in the last one. */
static size_t olmo_type(const void *layers, int64_t index)
{
  int64_t count = *(const int64_t *)layers;
  return index % 4 == 3 || (count < 4 && index == count - 1) ? HR_TYPE_ATTENTION : HR_TYPE_SCAN;
}

hr_status hr_finish_olmo_hybrid(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_scan_fields fields = family->scan;
  int64_t heads = model->groups[0].attention.q_heads, keys, key_dim, layers = model->groups[0].count;
  HR_TRY(hr_config_size_derived(config, "linear_num_key_heads", heads, &keys));
  HR_TRY(hr_config_size_derived(config, "linear_key_head_dim", model->hidden * 3 / 4 / keys, &key_dim));
  fields.heads.value = heads;
  fields.groups = (hr_size_field){NULL, keys};
  fields.state = (hr_size_field){NULL, key_dim};
  fields.head_dim.value = 2 * key_dim;
  HR_TRY(hr_config_scan(config, &fields, model));
  hr_layer_pattern pattern = hr_scan_pattern(config, model, NULL);
  pattern.type_of = olmo_type;
  pattern.context = &layers;
  return hr_config_layers(config, &pattern, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Nemotron-H: each layer is a scan, attention, an MLP or experts alone, behind one norm. */
#include "model/config/config_experts.h"
#include "model/config/config_scan.h"
#include "model/layers/layer_kinds.h"

#include <stdio.h>
#include <string.h>

enum { SCAN, ATTENTION, NETWORK, EXPERTS, KINDS };

static hr_status read_attention(hr_config *config, hr_layer_group *layer)
{
  hr_mixer_attention *a = &layer->attention;
  int64_t head_dim = 128;
  HR_TRY(hr_config_size_or(config, "num_attention_heads", 32, &a->q_heads));
  HR_TRY(hr_config_size_derived(config, "num_key_value_heads", 8, &a->k_heads));
  HR_TRY(hr_config_size_derived(config, "attention_head_dim", head_dim, &head_dim));
  HR_TRY(hr_config_size_derived(config, "head_dim", head_dim, &head_dim));
  a->v_heads = a->k_heads;
  a->qk_dim = a->v_dim = head_dim;
  hr_config_mark(config, "attention_bias"); /* transformers does not look at these four */
  hr_config_mark(config, "num_query_groups");
  hr_config_mark(config, "sliding_window");
  hr_config_mark(config, "partial_rotary_factor");
  return HR_OK;
}

static hr_status read_network(hr_config *config, hr_layer_group *layer)
{
  HR_TRY(hr_config_size_or(config, "intermediate_size", 21504, &layer->dense.width));
  return hr_config_flag(config, "mlp_bias", false, &layer->dense.bias);
}

static hr_status read_experts(hr_config *config, bool bias, hr_layer_group *layer)
{
  static const hr_expert_fields fields = {.count = {"n_routed_experts", 8},
                                          .count_alias = "num_local_experts",
                                          .active.value = 2,
                                          .width.value = 7688,
                                          .shared_width = {"moe_shared_expert_intermediate_size", 7688},
                                          .grouped = true,
                                          .plain = true};
  hr_model read = hr_model_default();
  hr_config_mark(config, "n_shared_experts"); /* one of that width, whatever it says */
  HR_TRY(hr_config_experts(config, &fields, &read));
  layer->experts = read.groups[0].experts;
  layer->experts.shared_bias = layer->experts.latent_bias = bias;
  HR_TRY(hr_config_size_derived(config, "moe_latent_size", 0, &layer->experts.latent));
  return HR_OK;
}

/* Without layers of experts their fields say nothing. */
static void mark_experts(hr_config *config)
{
  static const char *const fields[] = {"moe_intermediate_size",
                                       "moe_latent_size",
                                       "moe_shared_expert_intermediate_size",
                                       "n_group",
                                       "n_routed_experts",
                                       "n_shared_experts",
                                       "num_experts_per_tok",
                                       "num_local_experts",
                                       "topk_group"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    hr_config_mark(config, fields[i]);
}

/* The kind of a layer: a letter of the pattern, or a name of the list. KINDS if there is no such kind. */
static size_t kind_of(const char *name)
{
  static const char *const names[KINDS][4] = {[SCAN] = {"M", "mamba", "linear_attention"},
                                              [ATTENTION] = {"*", "attention", "full_attention"},
                                              [NETWORK] = {"-", "mlp"},
                                              [EXPERTS] = {"E", "moe"}};
  for (size_t kind = 0; kind < KINDS; kind++) {
    for (size_t i = 0; i < 4 && names[kind][i]; i++) {
      if (strcmp(names[kind][i], name) == 0)
        return kind;
    }
  }
  return KINDS;
}

static hr_status read_kind(hr_config *config, const hr_layer_group *kinds, const char *field, const char *name,
                           hr_model *model)
{
  size_t kind = kind_of(name);
  if (kind == KINDS)
    return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "has a layer of type \"%.20s\"", name);
  hr_layer_group layer = kinds[kind];
  if (kind == EXPERTS && layer.experts.experts == 0) {
    HR_TRY(read_experts(config, kinds[NETWORK].dense.bias, &layer));
  }
  hr_add_layers(model, &layer); /* four kinds, so there is room */
  return HR_OK;
}

static hr_status read_layers(hr_config *config, const hr_layer_group *kinds, hr_model *model)
{
  const char *field = hr_json_has(&config->json, "layers_block_type") ? "layers_block_type" : "layer_types";
  const json_t *list = json_object_get(config->json.object, field);
  const char *pattern;
  HR_TRY(hr_config_text(config, "hybrid_override_pattern", "", &pattern));
  hr_config_mark(config, "layers_block_type");
  hr_config_mark(config, "layer_types");
  hr_config_mark(config, "num_hidden_layers"); /* the list has as many as there are */
  model->group_count = 0;
  if (json_is_array(list)) {
    for (size_t i = 0; i < json_array_size(list) && i < HR_DIFFERING_LAYERS_MAX; i++) {
      const char *name = json_string_value(json_array_get(list, i));
      HR_TRY(read_kind(config, kinds, field, name ? name : "", model));
    }
  } else {
    for (size_t i = 0; pattern[i] && i < HR_DIFFERING_LAYERS_MAX; i++)
      HR_TRY(read_kind(config, kinds, "hybrid_override_pattern", (const char[]){pattern[i], '\0'}, model));
  }
  if (model->group_count > 0)
    return HR_OK;
  return hr_json_fail(&config->json, "hybrid_override_pattern", HR_ERROR_INVALID,
                      "is missing, and so is layers_block_type");
}

/* Former names of the scan's fields take precedence. */
static hr_scan_fields fields_of(const hr_config *config, const hr_family *family)
{
  hr_scan_fields fields = family->scan;
  if (hr_json_has(&config->json, "mamba_n_groups"))
    fields.groups.field = "mamba_n_groups";
  if (hr_json_has(&config->json, "mamba_d_conv"))
    fields.kernel.field = "mamba_d_conv";
  if (hr_json_has(&config->json, "mamba_conv_bias"))
    fields.conv_bias.field = "mamba_conv_bias";
  if (hr_json_has(&config->json, "mamba_chunk_size"))
    fields.chunk.field = "mamba_chunk_size";
  return fields;
}

hr_status hr_read_nemotron_h(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_scan_fields fields = fields_of(config, family);
  hr_layer_group kinds[KINDS];
  for (size_t i = 0; i < KINDS; i++)
    kinds[i] = (hr_layer_group){.count = 1, .norms = 1};
  HR_TRY(hr_config_size(config, "hidden_size", NULL, &model->hidden));
  HR_TRY(hr_config_size(config, "vocab_size", NULL, &model->vocabulary));
  HR_TRY(hr_config_size_or(config, "max_position_embeddings", 4096, &model->max_positions));
  HR_TRY(hr_config_scan(config, &fields, model));
  kinds[SCAN].scan = model->groups[0].scan;
  HR_TRY(read_attention(config, &kinds[ATTENTION]));
  HR_TRY(read_network(config, &kinds[NETWORK]));
  HR_TRY(hr_config_activation(config, "mlp_hidden_act", "relu2", model));
  hr_config_mark(config, "mtp_layers_block_type");
  hr_config_mark(config, "mtp_hybrid_override_pattern");
  mark_experts(config);
  hr_config_mark(config, "tie_word_embeddings"); /* transformers never ties them */
  hr_config_mark(config, "expand");
  hr_config_mark(config, "mamba_expand");
  hr_config_mark(config, "mamba_proj_bias");
  hr_config_mark(config, "time_step_rank");
  hr_config_rms_norm(model);
  return read_layers(config, kinds, model);
}

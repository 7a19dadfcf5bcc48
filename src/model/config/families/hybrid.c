/* SPDX-License-Identifier: Apache-2.0 */
/* Attention beside Mamba: Bamba, Falcon-H1, Granite 4 and Jamba. */
#include "model/config/config_experts.h"
#include "model/config/config_scan.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

/* Both mixers in every layer. */
hr_status hr_finish_falcon_h1(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_config_mark(config, "attn_layer_indices");
  return hr_config_scan(config, &family->scan, model);
}

/* Attention in the listed layers, a scan in the others. */
hr_status hr_finish_bamba(hr_config *config, const hr_family *family, hr_model *model)
{
  static const hr_expert_fields listed = {.expert_layers = "attn_layer_indices"};
  hr_layer_set attention;
  HR_TRY(hr_config_scan(config, &family->scan, model));
  memset(&attention, 0, sizeof attention);
  if (hr_json_has(&config->json, listed.expert_layers))
    HR_TRY(hr_config_expert_layers(config, &listed, model->groups[0].count, &attention));
  hr_config_mark(config, listed.expert_layers);
  hr_config_mark(config, "attn_rotary_emb"); /* half of each head, as `rotary_default` says */
  hr_layer_pattern pattern = hr_scan_pattern(config, model, NULL);
  pattern.type_of = hr_scan_unless_in_set;
  pattern.context = &attention;
  return hr_config_layers(config, &pattern, model);
}

/* ---- Granite 4 ---- */

static size_t always_scan(const void *context, int64_t index)
{
  (void)context;
  (void)index;
  return HR_TYPE_SCAN;
}

/* Without experts the shared network is the only one. */
static hr_status read_granite_networks(hr_config *config, hr_model *model)
{
  static const hr_expert_fields fields = {.count = {"num_local_experts", 8},
                                          .active.value = 2,
                                          .width = {"intermediate_size", 11008},
                                          .shared_width = {"shared_intermediate_size", 1024}};
  hr_layer_group *layer = &model->groups[0];
  int64_t experts;
  hr_config_mark(config, "num_local_experts");
  HR_TRY(hr_json_integer_or(&config->json, "num_local_experts", 0, HR_MODEL_SIZE_MAX, 8, &experts));
  if (experts == 0) {
    hr_config_mark(config, "num_experts_per_tok");
    return hr_config_size_or(config, "shared_intermediate_size", 1024, &layer->dense.width);
  }
  layer->dense = (hr_ffn_dense){.width = 0};
  return hr_config_experts(config, &fields, model);
}

hr_status hr_finish_granite_hybrid(hr_config *config, const hr_family *family, hr_model *model)
{
  const char *positions;
  HR_TRY(hr_config_text(config, "position_embedding_type", "nope", &positions));
  if (strcmp(positions, "rope") != 0) {
    model->positions = HR_POSITIONS_NONE;
    model->groups[0].attention.rotary_dim = 0;
  }
  HR_TRY(hr_config_scan(config, &family->scan, model));
  HR_TRY(read_granite_networks(config, model));
  hr_layer_pattern pattern = hr_scan_pattern(config, model, NULL);
  pattern.type_of = always_scan;
  return hr_config_layers(config, &pattern, model);
}

/* ---- Jamba ---- */

/* Layers whose number is `offset` beyond a multiple of `period`. */
typedef struct layer_period {
  int64_t period, offset;
} layer_period;

static hr_status read_period(hr_config *config, const char *field, int64_t period, const char *offset_field,
                             int64_t offset, layer_period *to)
{
  HR_TRY(hr_config_size_derived(config, field, period, &to->period));
  hr_config_mark(config, offset_field);
  return hr_json_integer_or(&config->json, offset_field, 0, to->period - 1, offset, &to->offset);
}

static bool is_in(const layer_period *p, int64_t index)
{
  return index % p->period == p->offset;
}

static size_t jamba_type(const void *attention, int64_t index)
{
  return is_in(attention, index) ? HR_TYPE_ATTENTION : HR_TYPE_SCAN;
}

static void change_network(const void *experts, int64_t index, hr_layer_group *layer)
{
  if (layer->experts.experts > 1 && is_in(experts, index))
    layer->dense = (hr_ffn_dense){.width = 0};
  else
    layer->experts = (hr_ffn_experts){.experts = 0};
}

hr_status hr_finish_jamba(hr_config *config, const hr_family *family, hr_model *model)
{
  static const hr_expert_fields fields = {.count = {"num_experts", 16},
                                          .count_alias = "num_local_experts",
                                          .active.value = 2,
                                          .width = {"intermediate_size", 14336}};
  layer_period attention, experts;
  model->positions = HR_POSITIONS_NONE;
  model->groups[0].attention.rotary_dim = 0;
  HR_TRY(hr_config_scan(config, &family->scan, model));
  HR_TRY(hr_config_experts(config, &fields, model));
  HR_TRY(read_period(config, "attn_layer_period", 8, "attn_layer_offset", 4, &attention));
  HR_TRY(read_period(config, "expert_layer_period", 2, "expert_layer_offset", 1, &experts));
  hr_layer_pattern pattern = hr_scan_pattern(config, model, NULL);
  pattern.type_of = jamba_type;
  pattern.context = &attention;
  pattern.change = change_network;
  pattern.change_context = &experts;
  return hr_config_layers(config, &pattern, model);
}

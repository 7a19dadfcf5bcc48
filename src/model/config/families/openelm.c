/* SPDX-License-Identifier: Apache-2.0 */
/* OpenELM (arXiv 2404.14619): heads and widths grow from the first layer to the last one. Rounding is that of its own
 * code. Published configurations also list the heads that follow from the multipliers. */
#include "base/names.h"
#include "model/config/config_layers.h"
#include "model/config/families.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The nearest multiple that is not below nine tenths of the value. */
static int64_t make_divisible(double value, int64_t divisor)
{
  int64_t nearest = (int64_t)(value + (double)divisor / 2) / divisor * divisor;
  if (nearest < divisor)
    nearest = divisor;
  return (double)nearest < 0.9 * value ? nearest + divisor : nearest;
}

static hr_status number_at(const hr_config *config, const char *field, const json_t *list, size_t index, double *value)
{
  const json_t *item = json_is_array(list) ? json_array_get(list, index) : list;
  *value = json_number_value(item);
  if (json_is_number(item) && *value > 0 && *value <= 1000)
    return HR_OK;
  char found[64];
  hr_json_found(item, found, sizeof found);
  return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected numbers from 0 to 1000, found %s", found);
}

/* The multiplier of a layer: one number for all, one for each, or the first and the last one, between which the others
 * are spread evenly and rounded to hundredths. */
static hr_status multiplier_of(hr_config *config, const char *field, int64_t layers, int64_t index, double *value)
{
  const json_t *list = json_object_get(config->json.object, field);
  size_t size = json_array_size(list);
  double first, last;
  if (!json_is_array(list))
    return number_at(config, field, list, 0, value);
  if ((int64_t)size == layers)
    return number_at(config, field, list, (size_t)index, value);
  if (size != 2)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID,
                        "expected one number, two, or one for each of %" PRId64 " layers", layers);
  HR_TRY(number_at(config, field, list, 0, &first));
  HR_TRY(number_at(config, field, list, 1, &last));
  double step = layers > 1 ? (last - first) / (double)(layers - 1) : 0;
  double at = index > 0 && index == layers - 1 ? last : (double)index * step + first;
  *value = rint(at * 100) / 100;
  return HR_OK;
}

typedef struct layer_fields {
  const json_t *q_heads, *kv_heads;
  int64_t sharing; /* query heads of one K and V head */
  int64_t divisor; /* of the widths */
} layer_fields;

static hr_status read_heads(hr_config *config, const hr_model *model, const layer_fields *fields, int64_t layers,
                            int64_t index, hr_mixer_attention *m)
{
  double multiplier = 0;
  if (fields->q_heads) {
    HR_TRY(hr_config_layer_size(config, "num_query_heads", fields->q_heads, index, &m->q_heads));
  } else {
    HR_TRY(multiplier_of(config, "qkv_multipliers", layers, index, &multiplier));
    int64_t multiple_of = fields->sharing > 1 ? fields->sharing : 2;
    m->q_heads = make_divisible((double)model->hidden * multiplier, m->qk_dim * multiple_of) / m->qk_dim;
  }
  m->k_heads = m->q_heads / fields->sharing;
  if (fields->kv_heads)
    HR_TRY(hr_config_layer_size(config, "num_kv_heads", fields->kv_heads, index, &m->k_heads));
  m->v_heads = m->k_heads;
  return HR_OK;
}

static hr_status read_layers(hr_config *config, const layer_fields *fields, hr_model *model)
{
  const hr_layer_group usual = model->groups[0];
  if (usual.count > HR_DIFFERING_LAYERS_MAX)
    return hr_json_fail(&config->json, "num_transformer_layers", HR_ERROR_INVALID, "expected at most %d",
                        HR_DIFFERING_LAYERS_MAX);
  model->group_count = 0;
  for (int64_t i = 0; i < usual.count; i++) {
    hr_layer_group layer = usual;
    double multiplier = 0;
    HR_TRY(read_heads(config, model, fields, usual.count, i, &layer.attention));
    HR_TRY(multiplier_of(config, "ffn_multipliers", usual.count, i, &multiplier));
    layer.dense.width = make_divisible((double)model->hidden * multiplier, fields->divisor);
    HR_TRY(hr_config_add_layer(config, model, &layer));
  }
  return HR_OK;
}

static hr_status read_shared(hr_config *config, hr_model *model)
{
  hr_layer_group *layer = &model->groups[0];
  hr_mixer_attention *m = &layer->attention;
  bool qk_norm;
  HR_TRY(hr_config_size(config, "num_transformer_layers", "num_hidden_layers", &layer->count));
  HR_TRY(hr_config_size(config, "model_dim", "hidden_size", &model->hidden));
  HR_TRY(hr_config_size(config, "vocab_size", NULL, &model->vocabulary));
  HR_TRY(hr_config_size_or(config, "max_context_length", 2048, &model->max_positions));
  HR_TRY(hr_config_size_or(config, "head_dim", 128, &m->qk_dim));
  m->v_dim = m->rotary_dim = m->qk_dim;
  model->positions = HR_POSITIONS_ROTARY;
  HR_TRY(hr_config_flag(config, "normalize_qk_projections", false, &qk_norm));
  m->qk_norm = qk_norm ? HR_QK_NORM_SHARED : HR_QK_NORM_NONE;
  HR_TRY(hr_config_flag(config, "ffn_with_glu", true, &layer->dense.gated));
  hr_config_rms_norm(model);
  return hr_config_flag(config, "share_input_output_layers", true, &model->tied_embeddings);
}

hr_status hr_read_openelm(hr_config *config, const hr_family *family, hr_model *model)
{
  layer_fields fields;
  const char *norm, *activation;
  (void)family;
  HR_TRY(read_shared(config, model));
  HR_TRY(hr_config_text(config, "normalization_layer_name", "rms_norm", &norm));
  if (strcmp(norm, "rms_norm") != 0)
    return hr_json_fail(&config->json, "normalization_layer_name", HR_ERROR_UNSUPPORTED, "only rms_norm is supported");
  HR_TRY(hr_config_text(config, "activation_fn_name", "swish", &activation));
  hr_copy_text(model->activation, sizeof model->activation, activation);
  hr_config_mark(config, "num_gqa_groups");
  HR_TRY(hr_json_integer_or(&config->json, "num_gqa_groups", 1, 1 << 20, 1, &fields.sharing));
  hr_config_mark(config, "ffn_dim_divisor");
  HR_TRY(hr_json_integer_or(&config->json, "ffn_dim_divisor", 1, 1 << 20, 256, &fields.divisor));
  hr_config_mark(config, "qkv_multipliers");
  hr_config_mark(config, "ffn_multipliers");
  HR_TRY(hr_config_layer_list(config, "num_query_heads", model->groups[0].count, &fields.q_heads));
  HR_TRY(hr_config_layer_list(config, "num_kv_heads", model->groups[0].count, &fields.kv_heads));
  return read_layers(config, &fields, model);
}

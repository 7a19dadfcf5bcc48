/* SPDX-License-Identifier: Apache-2.0 */
/* Deci's and NVIDIA's searched architectures: llama with heads and widths of each layer's own. A layer without
 * attention or without a network has no norm before it either. */
#include "model/config/config_layers.h"
#include "model/config/families.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct block {
  hr_json_reader part; /* of "attention" or "ffn" */
  char path[64];
} block;

static void open_part(const hr_config *config, const json_t *item, int64_t index, const char *name, block *to)
{
  to->part = config->json;
  to->part.object = json_object_get(item, name);
  snprintf(to->path, sizeof to->path, "block_configs[%" PRId64 "].%s.", index, name);
  to->part.path = to->path;
}

static hr_status refuse_if_set(const hr_json_reader *part, const char *field, const char *what)
{
  const json_t *value = json_object_get(part->object, field);
  if (!value || json_is_null(value) || json_is_false(value) ||
      (json_is_integer(value) && json_integer_value(value) == 0))
    return HR_OK;
  return hr_json_fail(part, field, HR_ERROR_UNSUPPORTED, "means %s", what);
}

static hr_status read_attention(const hr_json_reader *part, hr_layer_group *layer)
{
  hr_mixer_attention *m = &layer->attention;
  int64_t sharing;
  bool absent;
  HR_TRY(hr_json_boolean_or(part, "no_op", false, &absent));
  HR_TRY(refuse_if_set(part, "replace_with_linear", "a linear layer in place of attention"));
  HR_TRY(refuse_if_set(part, "num_sink_tokens", "tokens that stay in the cache beside the window"));
  HR_TRY(refuse_if_set(part, "sparsify", "sparse weights"));
  if (absent) {
    *m = (hr_mixer_attention){0};
    layer->norms--;
    return HR_OK;
  }
  HR_TRY(hr_json_integer(part, "n_heads_in_group", 1, m->q_heads, &sharing));
  if (m->q_heads % sharing != 0)
    return hr_json_fail(part, "n_heads_in_group", HR_ERROR_INVALID,
                        "%" PRId64 " does not divide num_attention_heads, %" PRId64, sharing, m->q_heads);
  m->k_heads = m->v_heads = m->q_heads / sharing;
  return hr_json_integer_or(part, "window_length", 1, INT64_C(1) << 40, 0, &m->window);
}

/* 2/3 of the factor, rounded up to 256. */
static int64_t width_of(double factor, int64_t hidden)
{
  int64_t width = (int64_t)(2.0 * factor * (double)hidden / 3.0);
  return (width + 255) / 256 * 256;
}

static hr_status read_network(const hr_json_reader *part, int64_t hidden, hr_layer_group *layer)
{
  double factor;
  bool absent;
  HR_TRY(hr_json_boolean_or(part, "no_op", false, &absent));
  HR_TRY(refuse_if_set(part, "replace_with_linear", "a linear layer in place of the network"));
  HR_TRY(refuse_if_set(part, "sparsify", "sparse weights"));
  if (absent) {
    layer->dense = (hr_ffn_dense){0};
    layer->norms--;
    return HR_OK;
  }
  if (hr_json_has(part, "intermediate_size"))
    return hr_json_integer(part, "intermediate_size", 1, INT64_C(1) << 40, &layer->dense.width);
  HR_TRY(hr_json_number(part, "ffn_mult", 1e-6, 1000.0, &factor));
  layer->dense.width = width_of(factor, hidden);
  return HR_OK;
}

static hr_status read_blocks(hr_config *config, const json_t *list, const hr_layer_group *usual, hr_model *model)
{
  int64_t empty = 0;
  for (int64_t i = 0; i < usual->count; i++) {
    hr_layer_group layer = *usual;
    block attention, network;
    open_part(config, json_array_get(list, (size_t)i), i, "attention", &attention);
    HR_TRY(read_attention(&attention.part, &layer));
    open_part(config, json_array_get(list, (size_t)i), i, "ffn", &network);
    HR_TRY(read_network(&network.part, model->hidden, &layer));
    if (layer.norms == 0)
      empty++;
    else
      HR_TRY(hr_config_add_layer(config, model, &layer));
  }
  if (empty > 0)
    hr_config_note(config, "block_configs: %" PRId64 " layers are empty and not counted", empty);
  return HR_OK;
}

/* DeciLM 6B and 7B: only the K and V heads differ. */
static hr_status read_kv_heads(hr_config *config, const char *field, const json_t *list, const hr_layer_group *usual,
                               hr_model *model)
{
  for (int64_t i = 0; i < usual->count; i++) {
    hr_layer_group layer = *usual;
    int64_t heads;
    HR_TRY(hr_config_layer_size(config, field, list, i, &heads));
    if (layer.attention.q_heads % heads != 0)
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID,
                          "%" PRId64 " of layer %" PRId64 " does not divide num_attention_heads, %" PRId64, heads, i,
                          layer.attention.q_heads);
    layer.attention.k_heads = layer.attention.v_heads = heads;
    HR_TRY(hr_config_add_layer(config, model, &layer));
  }
  return HR_OK;
}

hr_status hr_finish_deci(hr_config *config, const hr_family *family, hr_model *model)
{
  static const char heads_field[] = "num_key_value_heads_per_layer";
  const hr_layer_group usual = model->groups[0];
  const json_t *blocks, *heads;
  (void)family;
  HR_TRY(hr_config_layer_list(config, "block_configs", usual.count, &blocks));
  HR_TRY(hr_config_layer_list(config, heads_field, usual.count, &heads));
  if (!blocks && !hr_json_has(&config->json, "intermediate_size"))
    return hr_json_fail(&config->json, "block_configs", HR_ERROR_INVALID, "is missing");
  if (!blocks && !heads)
    return HR_OK;
  model->group_count = 0;
  return blocks ? read_blocks(config, blocks, &usual, model) : read_kv_heads(config, heads_field, heads, &usual, model);
}

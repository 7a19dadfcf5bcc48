/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSeek-V4 has attention over the last tokens and compressed entries, and several residual streams. Fields have the
 * names of DeepSeek's files or of transformers', which reads both. */
#include "model/config/config_experts.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

enum { SLIDING, SPARSE, HEAVY, TYPES };

static const char ratios[] = "compress_ratios";

/* A list of ratios gives the layers' types, else two heavy layers come first and then both types alternate. */
typedef struct v4_layers {
  const json_t *ratios; /* NULL: none */
  int64_t sparse_ratio;
} v4_layers;

static size_t type_of(const void *context, int64_t index)
{
  const v4_layers *layers = context;
  if (!layers->ratios)
    return index >= 2 && index % 2 != 0 ? SPARSE : HEAVY;
  const int64_t ratio = json_integer_value(json_array_get(layers->ratios, (size_t)index));
  return ratio == 0 ? SLIDING : ratio == layers->sparse_ratio ? SPARSE : HEAVY;
}

/* ---- sizes ---- */

static hr_status read_rate(hr_config *config, const char *name, const char *older, int64_t usual, int64_t *rate)
{
  static const char rates[] = "compress_rates";
  hr_json_reader inner = config->json;
  inner.object = json_object_get(config->json.object, rates);
  inner.path = "compress_rates.";
  hr_config_mark(config, rates);
  if (inner.object && !json_is_null(inner.object) && !json_is_object(inner.object))
    return hr_json_fail(&config->json, rates, HR_ERROR_INVALID, "expected an object");
  if (json_is_object(inner.object))
    HR_TRY(hr_json_integer_or(&inner, name, 1, HR_MODEL_SIZE_MAX, usual, &usual));
  return hr_config_size_derived(config, older, usual, rate);
}

static hr_status read_mixer(hr_config *config, const hr_mixer_attention *heads, hr_mixer_compressed *m)
{
  *m = (hr_mixer_compressed){.q_heads = heads->q_heads, .head_dim = heads->qk_dim, .rope_dim = heads->rotary_dim};
  HR_TRY(hr_config_size_or(config, "q_lora_rank", 1024, &m->q_rank));
  HR_TRY(hr_config_size_or(config, "sliding_window", 128, &m->window));
  HR_TRY(hr_config_size_or(config, "o_groups", 8, &m->o_groups));
  HR_TRY(hr_config_size_or(config, "o_lora_rank", 1024, &m->o_rank));
  HR_TRY(hr_config_size_derived(config, "qk_rope_head_dim", m->rope_dim, &m->rope_dim));
  if (heads->k_heads != 1)
    return hr_json_fail(&config->json, "num_key_value_heads", HR_ERROR_UNSUPPORTED,
                        "%" PRId64 " is not supported, only 1", heads->k_heads);
  if (m->rope_dim > m->head_dim)
    return hr_json_fail(&config->json, "qk_rope_head_dim", HR_ERROR_INVALID,
                        "%" PRId64 " is more than head_dim, %" PRId64, m->rope_dim, m->head_dim);
  if (m->q_heads % m->o_groups == 0)
    return HR_OK;
  return hr_json_fail(&config->json, "o_groups", HR_ERROR_INVALID,
                      "%" PRId64 " does not divide num_attention_heads, %" PRId64, m->o_groups, m->q_heads);
}

static hr_status read_indexer(hr_config *config, hr_mixer_compressed *m)
{
  HR_TRY(hr_config_size_or(config, "index_topk", 512, &m->index_topk));
  HR_TRY(hr_config_size_or(config, "index_n_heads", 64, &m->index_heads));
  return hr_config_size_or(config, "index_head_dim", 128, &m->index_dim);
}

/* ---- layers ---- */

/* The list may also have the layers that predict further tokens, behind the others. */
static hr_status read_ratios(hr_config *config, int64_t layers, const hr_layer_type *types, v4_layers *to)
{
  const json_t *list = json_object_get(config->json.object, ratios);
  const int64_t sparse = types[SPARSE].layer.compressed.ratio, heavy = types[HEAVY].layer.compressed.ratio;
  *to = (v4_layers){.sparse_ratio = sparse};
  hr_config_mark(config, ratios);
  if (!hr_json_has(&config->json, ratios))
    return HR_OK;
  if (!json_is_array(list) || (int64_t)json_array_size(list) < layers)
    return hr_json_fail(&config->json, ratios, HR_ERROR_INVALID,
                        "expected a list with one for each of %" PRId64 " layers", layers);
  for (int64_t i = 0; i < layers; i++) {
    const json_t *item = json_array_get(list, (size_t)i);
    const int64_t ratio = json_integer_value(item);
    if (json_is_integer(item) && (ratio == 0 || ratio == sparse || ratio == heavy))
      continue;
    char found[64];
    hr_json_found(item, found, sizeof found);
    return hr_json_fail(&config->json, ratios, HR_ERROR_UNSUPPORTED,
                        "has %s; only 0, %" PRId64 " and %" PRId64 " are supported", found, sparse, heavy);
  }
  to->ratios = list;
  return HR_OK;
}

/* Both kinds have the same shape: they differ in how experts are chosen. */
static hr_status check_routing(hr_config *config, int64_t layers)
{
  static const char field[] = "mlp_layer_types";
  const json_t *list;
  HR_TRY(hr_config_layer_list(config, field, layers, &list));
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    if (name && (strcmp(name, "moe") == 0 || strcmp(name, "hash_moe") == 0))
      continue;
    char found[64];
    hr_json_found(json_array_get(list, i), found, sizeof found);
    return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED,
                        "has a layer of type %s; only moe and hash_moe are supported", found);
  }
  return HR_OK;
}

static hr_status check_fields(hr_config *config, const hr_model *model)
{
  static const char *const values[] = {"num_hash_layers", "hc_sinkhorn_iters", "hc_eps",
                                       "swiglu_limit",    "expert_dtype",      "compress_rope_theta"};
  const int64_t width = model->groups[0].experts.width;
  int64_t shared, given;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    hr_config_mark(config, values[i]);
  HR_TRY(hr_config_expect(config, "attention_bias", false));
  HR_TRY(hr_config_size_derived(config, "n_shared_experts", 1, &shared));
  HR_TRY(hr_config_size_derived(config, "intermediate_size", width, &given));
  if (shared != 1)
    return hr_json_fail(&config->json, "n_shared_experts", HR_ERROR_UNSUPPORTED, "%" PRId64 " is not supported, only 1",
                        shared);
  if (given != width)
    return hr_json_fail(&config->json, "intermediate_size", HR_ERROR_UNSUPPORTED,
                        "%" PRId64 " is not moe_intermediate_size, %" PRId64, given, width);
  return check_routing(config, model->groups[0].count);
}

hr_status hr_finish_deepseek_v4(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_layer_group layer = model->groups[0];
  v4_layers layers;
  (void)family;
  HR_TRY(check_fields(config, model));
  HR_TRY(hr_config_size_or(config, "hc_mult", 4, &model->residual_streams));
  HR_TRY(read_mixer(config, &model->groups[0].attention, &layer.compressed));
  layer.attention = (hr_mixer_attention){.q_heads = 0};
  hr_layer_pattern pattern = {.layers = layer.count,
                              .field = "layer_types",
                              .type_count = TYPES,
                              .types = {[SLIDING] = {"sliding_attention", layer},
                                        [SPARSE] = {"compressed_sparse_attention", layer},
                                        [HEAVY] = {"heavily_compressed_attention", layer}},
                              .type_of = type_of,
                              .context = &layers};
  hr_mixer_compressed *sparse = &pattern.types[SPARSE].layer.compressed,
                      *heavy = &pattern.types[HEAVY].layer.compressed;
  HR_TRY(read_rate(config, "compressed_sparse_attention", "compress_rate_csa", 4, &sparse->ratio));
  HR_TRY(read_rate(config, "heavily_compressed_attention", "compress_rate_hca", 128, &heavy->ratio));
  sparse->overlaps = true;
  HR_TRY(read_indexer(config, sparse));
  HR_TRY(read_ratios(config, layer.count, pattern.types, &layers));
  return hr_config_layers(config, &pattern, model);
}

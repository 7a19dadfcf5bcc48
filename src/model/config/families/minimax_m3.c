/* SPDX-License-Identifier: Apache-2.0 */
/* MiniMax-M3 has layers whose indexer chooses blocks of keys for each K head. Fields have the names of MiniMax's files,
 * most of them in an object, or of transformers'; the object counts. */
#include "model/config/config_experts.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

enum { FULL, SPARSE };

static const char object[] = "sparse_attention_config";

typedef struct m3_layers {
  hr_layer_set sparse, experts;
} m3_layers;

static size_t type_of(const void *layers, int64_t index)
{
  return hr_layer_set_has(&((const m3_layers *)layers)->sparse, index) ? SPARSE : FULL;
}

static void change(const void *layers, int64_t index, hr_layer_group *layer)
{
  hr_change_to_experts(&((const m3_layers *)layers)->experts, index, layer);
}

/* ---- the indexer ---- */

static hr_status read_size(hr_config *config, const hr_json_reader *inner, const char *name, const char *flat,
                           int64_t usual, int64_t *value)
{
  HR_TRY(hr_config_size_derived(config, flat, usual, value));
  return hr_json_integer_or(inner, name, 1, HR_MODEL_SIZE_MAX, *value, value);
}

static hr_status expect_text(const hr_json_reader *reader, const char *field, const char *covered)
{
  const json_t *value = json_object_get(reader->object, field);
  const char *text = json_string_value(value);
  if (!hr_json_has(reader, field) || (text && strcmp(text, covered) == 0))
    return HR_OK;
  char found[64];
  hr_json_found(value, found, sizeof found);
  return hr_json_fail(reader, field, HR_ERROR_UNSUPPORTED, "%s is not supported, only \"%s\" is", found, covered);
}

/* What the published code could do otherwise. Blocks that are always chosen, the first and those before the token, are
 * among the best ones. */
static hr_status check_choices(const hr_json_reader *inner)
{
  bool used;
  HR_TRY(hr_json_boolean_or(inner, "use_sparse_attention", true, &used));
  if (!used)
    return hr_json_fail(inner, "use_sparse_attention", HR_ERROR_UNSUPPORTED, "only true is supported");
  return expect_text(inner, "sparse_score_type", "max");
}

static hr_status read_indexer(hr_config *config, const hr_json_reader *inner, hr_mixer_attention *attention)
{
  int64_t heads, blocks;
  HR_TRY(read_size(config, inner, "sparse_num_index_heads", "index_n_heads", 4, &heads));
  HR_TRY(read_size(config, inner, "sparse_index_dim", "index_head_dim", 128, &attention->index_dim));
  HR_TRY(read_size(config, inner, "sparse_block_size", "index_block_size", 128, &attention->index_block));
  HR_TRY(read_size(config, inner, "sparse_topk_blocks", "index_topk_blocks", 16, &blocks));
  hr_config_mark(config, "index_local_blocks"); /* they are among the chosen ones */
  if (blocks > HR_MODEL_SIZE_MAX / attention->index_block)
    return hr_json_fail(&config->json, object, HR_ERROR_INVALID, "%" PRId64 " blocks of %" PRId64 " keys are too many",
                        blocks, attention->index_block);
  attention->index_topk = blocks * attention->index_block;
  if (heads == attention->k_heads)
    return HR_OK;
  const bool nested = hr_json_has(inner, "sparse_num_index_heads");
  return hr_json_fail(nested ? inner : &config->json, nested ? "sparse_num_index_heads" : "index_n_heads",
                      HR_ERROR_UNSUPPORTED, "%" PRId64 " is not num_key_value_heads, %" PRId64, heads,
                      attention->k_heads);
}

/* Layers whose indexer has values, too, which no published model uses. */
static hr_status check_index_values(const hr_json_reader *inner, int64_t layers, const hr_layer_set *sparse)
{
  static const char field[] = "sparse_disable_index_value";
  hr_layer_set without = *sparse;
  HR_TRY(hr_read_layer_flags(inner, field, layers, &without));
  for (int64_t i = 0; i < layers; i++) {
    if (hr_layer_set_has(sparse, i) && !hr_layer_set_has(&without, i))
      return hr_json_fail(inner, field, HR_ERROR_UNSUPPORTED, "0 means an indexer with values, which is not supported");
  }
  return HR_OK;
}

/* ---- the model ---- */

/* A field that repeats a size which another one gives. */
static hr_status expect_size(hr_config *config, const char *field, int64_t size)
{
  int64_t given;
  HR_TRY(hr_config_size_derived(config, field, size, &given));
  if (given == size)
    return HR_OK;
  return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "%" PRId64 " instead of %" PRId64 " is not supported",
                      given, size);
}

static hr_status check_fields(hr_config *config, const hr_model *model)
{
  static const char *const values[] = {"swiglu_alpha", "swiglu_limit", "use_gemma_norm", "use_routing_bias",
                                       "qk_norm_type"};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    hr_config_mark(config, values[i]);
  HR_TRY(hr_config_expect(config, "attention_output_gate", false));
  HR_TRY(hr_config_expect(config, "use_qk_norm", true));
  HR_TRY(expect_text(&config->json, "qk_norm_type", "per_head"));
  HR_TRY(expect_size(config, "n_shared_experts", 1));
  return expect_size(config, "moe_intermediate_size", model->groups[0].experts.width);
}

static hr_status read_experts(hr_config *config, const hr_family *family, int64_t layers, hr_layer_set *experts)
{
  static const char field[] = "moe_layer_freq";
  HR_TRY(hr_config_expert_layers(config, &family->experts, layers, experts));
  hr_config_mark(config, field);
  return hr_json_has(&config->json, family->experts.kinds) ? HR_OK
                                                           : hr_read_layer_flags(&config->json, field, layers, experts);
}

hr_status hr_finish_minimax_m3(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_layer_group *layer = &model->groups[0];
  const int64_t count = layer->count;
  hr_json_reader inner = config->json;
  m3_layers layers;
  memset(&layers, 0, sizeof layers);
  inner.object = json_object_get(config->json.object, object);
  inner.path = "sparse_attention_config.";
  hr_config_mark(config, object);
  if (hr_json_has(&config->json, object) && !json_is_object(inner.object))
    return hr_json_fail(&config->json, object, HR_ERROR_INVALID, "expected an object");
  HR_TRY(hr_config_size_derived(config, "rotary_dim", layer->attention.rotary_dim, &layer->attention.rotary_dim));
  HR_TRY(check_fields(config, model));
  HR_TRY(read_experts(config, family, count, &layers.experts));
  HR_TRY(check_choices(&inner));
  HR_TRY(hr_read_layer_flags(&inner, "sparse_attention_freq", count, &layers.sparse));
  HR_TRY(check_index_values(&inner, count, &layers.sparse));
  hr_layer_pattern pattern = {.layers = count,
                              .field = "layer_types",
                              .type_count = 2,
                              .types = {[FULL] = {"full_attention", *layer}, [SPARSE] = {"minimax_m3_sparse", *layer}},
                              .type_of = type_of,
                              .change = change,
                              .context = &layers,
                              .change_context = &layers};
  HR_TRY(read_indexer(config, &inner, &pattern.types[SPARSE].layer.attention));
  return hr_config_layers(config, &pattern, model);
}

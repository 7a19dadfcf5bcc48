/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSeek-V3.2 and GLM-5: latent attention over the keys that an indexer chooses. */
#include "base/checked.h"
#include "model/config/config_experts.h"
#include "model/config/families.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

enum { FULL, SHARED };

/* The rule says which layers have an indexer; the others attend to the choice of the last one before them. */
typedef struct index_rule {
  const char *pattern; /* a letter for each layer; NULL: by frequency */
  int64_t frequency, offset;
} index_rule;

static size_t type_by_rule(const void *context, int64_t index)
{
  const index_rule *rule = context;
  if (rule->pattern)
    return rule->pattern[index] == 'F' ? FULL : SHARED;
  return hr_max64(index - rule->offset + 1, 0) % rule->frequency == 0 ? FULL : SHARED;
}

/* transformers 5.11 writes num_experts beside n_routed_experts. */
static hr_status check_experts(hr_config *config, int64_t experts)
{
  int64_t given;
  HR_TRY(hr_config_size_derived(config, "num_experts", experts, &given));
  if (given == experts)
    return HR_OK;
  return hr_json_fail(&config->json, "num_experts", HR_ERROR_INVALID, "%" PRId64 " is not n_routed_experts, %" PRId64,
                      given, experts);
}

/* What transformers calls all layers of these families. */
static hr_status check_layer_types(hr_config *config, int64_t layers)
{
  static const char field[] = "layer_types";
  const json_t *list;
  HR_TRY(hr_config_layer_list(config, field, layers, &list));
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    const char *name = json_is_string(item) ? json_string_value(item) : "";
    if (strcmp(name, "deepseek_sparse_attention") == 0)
      continue;
    char found[64];
    hr_json_found(item, found, sizeof found);
    return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED,
                        "has a layer of type %s; only deepseek_sparse_attention is supported for this family", found);
  }
  return HR_OK;
}

static hr_status read_indexer(hr_config *config, int64_t heads, hr_model *model)
{
  hr_mixer_latent *latent = &model->groups[0].latent;
  HR_TRY(hr_config_size_or(config, "index_topk", 2048, &latent->index_topk));
  HR_TRY(hr_config_size_or(config, "index_n_heads", heads, &latent->index_heads));
  HR_TRY(hr_config_size_or(config, "index_head_dim", 128, &latent->index_dim));
  hr_config_mark(config, "indexer_rope_interleave"); /* the order of elements alone */
  if (latent->q_rank == 0)
    return hr_json_fail(&config->json, "q_lora_rank", HR_ERROR_INVALID,
                        "null: the indexer's queries are made of Q's rank");
  if (latent->index_dim < latent->rope_dim)
    return hr_json_fail(&config->json, "index_head_dim", HR_ERROR_INVALID,
                        "%" PRId64 " is less than qk_rope_head_dim, %" PRId64, latent->index_dim, latent->rope_dim);
  HR_TRY(check_experts(config, model->groups[0].experts.experts));
  return check_layer_types(config, model->groups[0].count);
}

hr_status hr_finish_deepseek_v32(hr_config *config, const hr_family *family, hr_model *model)
{
  HR_TRY(read_indexer(config, 64, model));
  return hr_finish_deepseek(config, family, model);
}

static hr_status read_pattern(hr_config *config, int64_t layers, index_rule *rule)
{
  static const char field[] = "index_topk_pattern";
  hr_config_mark(config, field);
  if (!hr_json_has(&config->json, field))
    return HR_OK;
  HR_TRY(hr_config_text(config, field, NULL, &rule->pattern));
  if (strspn(rule->pattern, "FS") != (size_t)layers || strlen(rule->pattern) != (size_t)layers)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID,
                        "expected F (an indexer) or S (the choice of a layer before) for each of %" PRId64 " layers",
                        layers);
  return HR_OK;
}

static hr_status read_rule(hr_config *config, int64_t layers, index_rule *rule)
{
  *rule = (index_rule){.frequency = 1, .offset = 2};
  HR_TRY(read_pattern(config, layers, rule));
  hr_config_mark(config, "index_topk_freq");
  hr_config_mark(config, "index_skip_topk_offset");
  HR_TRY(hr_json_integer_or(&config->json, "index_topk_freq", 0, HR_MODEL_SIZE_MAX, 1, &rule->frequency));
  HR_TRY(hr_json_integer_or(&config->json, "index_skip_topk_offset", 0, HR_MODEL_SIZE_MAX, 2, &rule->offset));
  rule->frequency = hr_max64(rule->frequency, 1);
  return HR_OK;
}

/* The list in indexer_types counts, else a pattern, else the frequency. */
hr_status hr_finish_glm_dsa(hr_config *config, const hr_family *family, hr_model *model)
{
  static const char list[] = "indexer_types";
  index_rule rule;
  HR_TRY(read_indexer(config, 32, model));
  HR_TRY(hr_finish_deepseek(config, family, model));
  HR_TRY(read_rule(config, model->groups[0].count, &rule));
  const json_t *types = json_object_get(config->json.object, list);
  const char *first = json_string_value(json_array_get(types, 0));
  bool none = first ? strcmp(first, "shared") == 0 : type_by_rule(&rule, 0) == SHARED;
  if (none)
    return hr_json_fail(&config->json, list, HR_ERROR_INVALID,
                        "the first layer has no indexer, and none before it to share the keys of");
  hr_layer_pattern pattern = {.layers = model->groups[0].count,
                              .field = list,
                              .type_count = 2,
                              .types = {[FULL] = {"full", model->groups[0]}, [SHARED] = {"shared", model->groups[0]}},
                              .type_of = type_by_rule,
                              .context = &rule};
  pattern.types[SHARED].layer.latent.index_heads = pattern.types[SHARED].layer.latent.index_dim = 0;
  return hr_config_apply(config, family, &pattern, hr_config_layers, model);
}

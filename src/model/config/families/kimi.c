/* SPDX-License-Identifier: Apache-2.0 */
/* Kimi Linear: Kimi delta attention beside latent attention without positions (arXiv 2510.26692). */
#include "model/config/config_experts.h"
#include "model/config/config_scan.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

#define CHUNK 64 /* of flash-linear-attention's chunk_kda, and of transformers */

static const char linear[] = "linear_attn_config";

/* The layers of attention by the lists of linear_attn_config; `listed` is false without them. */
typedef struct kimi_layers {
  hr_layer_set attention;
  bool listed;
} kimi_layers;

static size_t type_of(const void *context, int64_t index)
{
  const kimi_layers *layers = context;
  if (layers->listed)
    return hr_scan_unless_in_set(&layers->attention, index);
  return index > 0 && index % 4 == 0 ? HR_TYPE_ATTENTION : HR_TYPE_SCAN;
}

/* ---- sizes ---- */

/* A size of the inner object, which counts, or of the outer one, as transformers writes it. */
static hr_status read_size(hr_config *config, const hr_json_reader *inner, const char *name, const char *outer,
                           int64_t usual, int64_t *value)
{
  HR_TRY(hr_config_size_derived(config, outer, usual, value));
  return hr_json_integer_or(inner, name, 1, HR_MODEL_SIZE_MAX, *value, value);
}

static hr_status read_delta(hr_config *config, const hr_json_reader *inner, hr_mixer_scan *scan)
{
  int64_t heads, head_dim, kernel;
  bool full;
  HR_TRY(read_size(config, inner, "num_heads", "linear_num_heads", 32, &heads));
  HR_TRY(read_size(config, inner, "head_dim", "linear_head_dim", 128, &head_dim));
  HR_TRY(read_size(config, inner, "short_conv_kernel_size", "linear_conv_kernel_dim", 4, &kernel));
  HR_TRY(hr_json_boolean_or(inner, "use_full_rank_gate", false, &full));
  if (full)
    return hr_json_fail(inner, "use_full_rank_gate", HR_ERROR_UNSUPPORTED,
                        "true means gates of full rank (Kimi K3), which are not supported");
  *scan = (hr_mixer_scan){.recurrence = HR_RECURRENCE_KIMI_DELTA,
                          .heads = heads,
                          .head_dim = head_dim,
                          .groups = heads,
                          .state = head_dim,
                          .kernel = kernel,
                          .rank = head_dim,
                          .chunk = CHUNK,
                          .norm = true,
                          .norm_weight = true};
  return HR_OK;
}

/* ---- layers ---- */

/* Puts the layers of a list, which counts them from 1, into two sets; each layer may be named once. */
static hr_status read_list(const hr_json_reader *inner, const char *field, int64_t layers, hr_layer_set *set,
                           hr_layer_set *named)
{
  const json_t *list = json_object_get(inner->object, field);
  if (!json_is_array(list))
    return hr_json_fail(inner, field, HR_ERROR_INVALID, "expected a list of layers");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    int64_t number = json_integer_value(item);
    if (!json_is_integer(item) || number < 1 || number > layers || hr_layer_set_has(named, number - 1)) {
      char found[64];
      hr_json_found(item, found, sizeof found);
      return hr_json_fail(inner, field, HR_ERROR_INVALID, "expected layers from 1 to %" PRId64 ", each once, found %s",
                          layers, found);
    }
    hr_layer_set_put(named, number - 1, true);
    if (set)
      hr_layer_set_put(set, number - 1, true);
  }
  return HR_OK;
}

static hr_status read_lists(const hr_json_reader *inner, int64_t layers, kimi_layers *kinds)
{
  static const char attention[] = "full_attn_layers", delta[] = "kda_layers";
  hr_layer_set named;
  memset(&kinds->attention, 0, sizeof kinds->attention);
  memset(&named, 0, sizeof named);
  kinds->listed = hr_json_has(inner, attention) && hr_json_has(inner, delta);
  if (!kinds->listed || layers > HR_DIFFERING_LAYERS_MAX)
    return HR_OK; /* hr_config_layers() refuses so many */
  HR_TRY(read_list(inner, attention, layers, &kinds->attention, &named));
  HR_TRY(read_list(inner, delta, layers, NULL, &named));
  for (int64_t i = 0; i < layers; i++) {
    if (!hr_layer_set_has(&named, i))
      return hr_json_fail(inner, delta, HR_ERROR_INVALID, "neither it nor %s has layer %" PRId64, attention, i + 1);
  }
  return HR_OK;
}

/* ---- the model ---- */

/* Names of fields in Moonshot's own code and in transformers. */
static hr_status read_other_names(hr_config *config, hr_model *model)
{
  hr_ffn_experts *experts = &model->groups[0].experts;
  if (!hr_json_has(&config->json, "model_max_length"))
    HR_TRY(hr_config_size_derived(config, "max_position_embeddings", model->max_positions, &model->max_positions));
  hr_config_mark(config, "max_position_embeddings");
  hr_config_mark(config, "num_expert_group");
  if (hr_json_has(&config->json, "num_expert_group"))
    HR_TRY(hr_json_integer(&config->json, "num_expert_group", 1, HR_MODEL_SIZE_MAX, &experts->groups));
  if (experts->groups <= 1)
    experts->groups = experts->active_groups = 0;
  else if (experts->active_groups == 0)
    HR_TRY(hr_config_size_derived(config, "topk_group", 1, &experts->active_groups));
  hr_config_mark(config, "use_grouped_topk");                     /* of one group it says nothing */
  HR_TRY(hr_config_expect(config, "tie_word_embeddings", false)); /* Moonshot's code ties them, transformers does not */
  return hr_config_expect(config, "mla_use_nope", true);
}

hr_status hr_finish_kimi_linear(hr_config *config, const hr_family *family, hr_model *model)
{
  kimi_layers kinds;
  hr_json_reader inner = config->json;
  hr_config_mark(config, linear);
  inner.object = json_object_get(config->json.object, linear);
  inner.path = "linear_attn_config.";
  if (hr_json_has(&config->json, linear) && !json_is_object(inner.object))
    return hr_json_fail(&config->json, linear, HR_ERROR_INVALID, "expected an object");
  HR_TRY(hr_finish_deepseek(config, family, model));
  HR_TRY(read_other_names(config, model));
  HR_TRY(read_delta(config, &inner, &model->groups[0].scan));
  HR_TRY(read_lists(&inner, model->groups[0].count, &kinds));
  model->positions = HR_POSITIONS_NONE;
  hr_layer_pattern pattern = hr_scan_pattern(config, model, NULL);
  pattern.types[HR_TYPE_SCAN].layer.latent = (hr_mixer_latent){.q_heads = 0};
  pattern.type_count = 2; /* full_attention and linear_attention */
  pattern.type_of = type_of;
  pattern.context = &kinds;
  return hr_config_apply(config, family, &pattern, hr_config_layers, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma: the activation has two names, of which the newer one counts. Gemma 4: layers that see all tokens have heads of
 * another size; experts may stand beside the MLP. */
#include "model/config/config_experts.h"
#include "model/config/config_layers.h"
#include "model/config/families.h"

#include "base/names.h"

#include <inttypes.h>
#include <string.h>

hr_status hr_finish_gemma(hr_config *config, const hr_family *family, hr_model *model)
{
  const char *activation;
  if (!hr_json_has(&config->json, "hidden_activation"))
    return HR_OK;
  HR_TRY(hr_config_text(config, "hidden_activation", family->activation_default, &activation));
  hr_copy_text(model->activation, sizeof model->activation, activation);
  return HR_OK;
}

/* ---- Gemma 4 ---- */

enum { FULL, SLIDING };

typedef struct gemma4_layers {
  int64_t count, first_shared; /* layers from first_shared on use the K and V of earlier ones */
  bool double_wide;            /* those have an MLP of twice the width */
  hr_mixer_attention full;     /* of the last layer, whatever the list says */
} gemma4_layers;

static size_t gemma4_type(const void *context, int64_t index)
{
  (void)context;
  return (index + 1) % 6 == 0 ? FULL : SLIDING;
}

static void change_gemma4(const void *context, int64_t index, hr_layer_group *layer)
{
  const gemma4_layers *layers = context;
  if (index == layers->count - 1)
    layer->attention = layers->full;
  if (index < layers->first_shared)
    return;
  layer->attention.shared_kv = true;
  if (layers->double_wide)
    layer->dense.width *= 2;
}

/* Per-layer embeddings are another mechanism; text is attended to causally unless the field says "all". */
static hr_status refuse_gemma4(hr_config *config, const hr_family *family)
{
  static const char embeddings[] = "hidden_size_per_layer_input", seen[] = "use_bidirectional_attention";
  const json_t *value = json_object_get(config->json.object, seen);
  if (strcmp(family->model_type, "gemma4_text") == 0 && !hr_config_present(config, embeddings))
    return hr_json_fail(&config->json, embeddings, HR_ERROR_UNSUPPORTED,
                        "is missing, which means per-layer embeddings of 256");
  hr_config_mark(config, "vocab_size_per_layer_input"); /* of those embeddings */
  if (!value || json_is_null(value) || (json_is_string(value) && strcmp(json_string_value(value), "vision") == 0))
    hr_config_mark(config, seen);
  return HR_OK;
}

#define NORMS_WITH_EXPERTS 8 /* before and behind the experts, behind the MLP, and the scale of the router's input */

/* Experts that read the same stream as the MLP; both outputs are added. The router has a scale for each expert. */
static hr_status read_experts_beside(hr_config *config, hr_model *model)
{
  static const hr_expert_fields fields = {.count = {"num_experts", 0},
                                          .active = {"top_k_experts", 0},
                                          .width = {"moe_intermediate_size", 0},
                                          .router_bias = true};
  bool beside;
  HR_TRY(hr_config_flag(config, "enable_moe_block", false, &beside));
  if (!beside)
    return HR_OK;
  model->groups[0].norms = NORMS_WITH_EXPERTS;
  return hr_config_experts(config, &fields, model);
}

/* The fraction of a head that layers without a window rotate. */
static hr_status read_full_rotary(const hr_config *config, double *fraction)
{
  hr_json_reader inner = config->json;
  const json_t *parameters = json_object_get(config->json.object, "rope_parameters");
  inner.object = json_object_get(parameters, "full_attention");
  inner.path = "rope_parameters.full_attention.";
  return hr_json_number_or(&inner, "partial_rotary_factor", 0.0, 1.0, json_is_object(parameters) ? 1.0 : 0.25,
                           fraction);
}

static hr_status read_full_heads(hr_config *config, hr_mixer_attention *full)
{
  double fraction;
  int64_t heads;
  hr_config_mark(config, "rope_parameters");
  HR_TRY(hr_config_flag(config, "attention_k_eq_v", false, &full->v_is_k));
  HR_TRY(hr_config_size_derived(config, "global_head_dim", 512, &full->qk_dim));
  HR_TRY(hr_config_size_derived(config, "num_global_key_value_heads", full->k_heads, &heads));
  HR_TRY(read_full_rotary(config, &fraction));
  if (full->v_is_k)
    full->k_heads = full->v_heads = heads;
  full->v_dim = full->qk_dim;
  full->rotary_dim = (int64_t)((double)full->qk_dim * fraction);
  full->window = 0;
  return HR_OK;
}

hr_status hr_finish_gemma4(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t shared;
  hr_layer_group *layer = &model->groups[0];
  gemma4_layers layers = {.count = layer->count};
  HR_TRY(refuse_gemma4(config, family));
  HR_TRY(hr_finish_gemma(config, family, model));
  HR_TRY(read_experts_beside(config, model));
  hr_config_mark(config, "num_kv_shared_layers");
  HR_TRY(hr_json_integer_or(&config->json, "num_kv_shared_layers", 0, layers.count - 1, 0, &shared));
  HR_TRY(hr_config_flag(config, "use_double_wide_mlp", false, &layers.double_wide));
  HR_TRY(
      hr_config_window(config, "sliding_window", strcmp(family->model_type, "gemma4_text") == 0 ? 512 : 1024, model));
  layers.first_shared = layers.count - shared;
  hr_layer_pattern pattern = hr_window_pattern(model);
  HR_TRY(read_full_heads(config, &pattern.types[FULL].layer.attention));
  layers.full = pattern.types[FULL].layer.attention;
  pattern.type_of = gemma4_type;
  pattern.change = change_gemma4;
  pattern.change_context = &layers;
  return hr_config_windows(config, &pattern, model);
}

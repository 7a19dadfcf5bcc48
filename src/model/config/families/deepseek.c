/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSeek-V2 and V3, Kimi K2, Moonlight, GLM-4.7 Flash, Mistral 4, A.X K1: what rows cannot say of their experts. */
#include "model/config/families.h"

#include <inttypes.h>
#include <string.h>

/* The published code has experts in every n-th layer, transformers in all: they agree on 1. */
static hr_status read_frequency(hr_config *config)
{
  int64_t every;
  HR_TRY(hr_config_size_derived(config, "moe_layer_freq", 1, &every));
  if (every == 1)
    return HR_OK;
  return hr_json_fail(&config->json, "moe_layer_freq", HR_ERROR_UNSUPPORTED,
                      "%" PRId64 " means dense layers between those with experts; only 1 is supported", every);
}

/* A null number of experts: none of this kind. */
static bool is_null(const hr_config *config, const char *field)
{
  return hr_config_present(config, field) && !hr_json_has(&config->json, field);
}

static hr_status finish_experts(hr_config *config, hr_model *model)
{
  hr_ffn_experts *experts = &model->groups[0].experts;
  if (is_null(config, "n_routed_experts"))
    return hr_json_fail(&config->json, "n_routed_experts", HR_ERROR_UNSUPPORTED,
                        "null, a model without experts, is not "
                        "supported in this family");
  if (is_null(config, "n_shared_experts"))
    experts->shared_width = 0;
  experts->shared_bias = model->groups[0].dense.bias; /* one class of network for both */
  return HR_OK;
}

hr_status hr_finish_deepseek(hr_config *config, const hr_family *family, hr_model *model)
{
  HR_TRY(finish_experts(config, model));
  return family->experts.step.field ? HR_OK : read_frequency(config); /* in A.X K1 both codes agree */
}

/* Groups limit the choice only by this method. */
hr_status hr_finish_deepseek_v2(hr_config *config, const hr_family *family, hr_model *model)
{
  const char *method;
  HR_TRY(hr_config_text(config, "topk_method", "greedy", &method));
  if (strcmp(method, "group_limited_greedy") != 0)
    model->groups[0].experts.groups = model->groups[0].experts.active_groups = 0;
  return hr_finish_deepseek(config, family, model);
}

/* The first layer is dense unless mlp_layer_types says otherwise. transformers does not read first_k_dense_replace,
 * which is 1 in the published configuration: the same. */
hr_status hr_finish_glm_lite(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t dense = 1;
  hr_config_mark(config, "first_k_dense_replace");
  HR_TRY(hr_json_integer_or(&config->json, "first_k_dense_replace", 0, INT64_MAX, 1, &dense));
  if (dense != 1 && !hr_json_has(&config->json, "mlp_layer_types"))
    hr_config_note_left_out(config,
                            "first_k_dense_replace: %" PRId64
                            " is ignored, as in transformers: only the first layer is "
                            "dense; mlp_layer_types would say which are",
                            dense);
  return hr_finish_deepseek(config, family, model);
}

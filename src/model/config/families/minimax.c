/* SPDX-License-Identifier: Apache-2.0 */
/* MiniMax-M2: fields of the published configuration that its class in transformers does not read. */
#include "model/config/families.h"
#include "model/layers/sizes.h"

#include <inttypes.h>

/* 1 is softmax attention, the only kind that the published code has. */
static hr_status check_attention(hr_config *config)
{
  const char *field = "attn_type_list";
  const json_t *list = json_object_get(config->json.object, field);
  hr_config_mark(config, field);
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (json_integer_value(json_array_get(list, i)) != 1)
      return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "has layer types other than 1 (attention)");
  }
  return HR_OK;
}

hr_status hr_finish_minimax_m2(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_mixer_attention *attention = &model->groups[0].attention;
  int64_t shared;
  bool normalized;
  (void)family;
  HR_TRY(hr_config_size_derived(config, "rotary_dim", attention->rotary_dim, &attention->rotary_dim));
  HR_TRY(hr_config_flag(config, "use_qk_norm", true, &normalized));
  if (!normalized)
    attention->qk_norm = HR_QK_NORM_NONE;
  hr_config_mark(config, "shared_intermediate_size");
  HR_TRY(hr_json_integer_or(&config->json, "shared_intermediate_size", 0, HR_MODEL_SIZE_MAX, 0, &shared));
  if (shared > 0)
    return hr_json_fail(&config->json, "shared_intermediate_size", HR_ERROR_UNSUPPORTED,
                        "shared experts of %" PRId64 " are not supported", shared);
  return check_attention(config);
}

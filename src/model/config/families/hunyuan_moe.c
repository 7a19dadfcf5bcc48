/* SPDX-License-Identifier: Apache-2.0 */
/* Hunyuan-A13B: fields that say the same of every layer, or that it is as usual. */
#include "model/config/config_experts.h"

#include <inttypes.h>

hr_status hr_finish_hunyuan_moe(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t width = model->groups[0].experts.width, given = width, skipped = 0;
  bool shared_layers;
  (void)family;
  HR_TRY(hr_config_size_of_layers(config, "moe_intermediate_size", width, &given));
  if (given != width)
    return hr_json_fail(&config->json, "moe_intermediate_size", HR_ERROR_UNSUPPORTED,
                        "%" PRId64 " is not intermediate_size, %" PRId64, given, width);
  hr_config_mark(config, "moe_layer_num_skipped");
  HR_TRY(hr_json_integer_or(&config->json, "moe_layer_num_skipped", 0, INT64_MAX, 0, &skipped));
  if (skipped > 0)
    return hr_json_fail(&config->json, "moe_layer_num_skipped", HR_ERROR_UNSUPPORTED,
                        "%" PRId64 " layers without experts are not supported", skipped);
  HR_TRY(hr_config_flag(config, "use_cla", false, &shared_layers));
  if (shared_layers)
    return hr_json_fail(&config->json, "use_cla", HR_ERROR_UNSUPPORTED, "cross-layer attention is not supported");
  hr_config_mark(config, "cla_share_factor"); /* of cross-layer attention, which is off */
  return HR_OK;
}

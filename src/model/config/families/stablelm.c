/* SPDX-License-Identifier: Apache-2.0 */
/* StableLM 3B and StableLM 2: the rotated fraction has two names. */
#include "model/config/families.h"

hr_status hr_finish_stablelm(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)family;
  return hr_config_rotary(config, hr_json_has(&config->json, "rope_pct") ? "rope_pct" : "partial_rotary_factor", 0.25,
                          model);
}

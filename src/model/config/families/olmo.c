/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo 1: norms without parameters. */
#include "model/config/families.h"

hr_status hr_finish_olmo(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)config;
  (void)family;
  model->norm_weight = model->norm_bias = false;
  return HR_OK;
}

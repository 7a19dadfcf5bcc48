/* SPDX-License-Identifier: Apache-2.0 */
/* ERNIE 4.5 with experts: a bias on every linear layer or on none, the logits' included. */
#include "model/config/families.h"

hr_status hr_finish_ernie_moe(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)family;
  return hr_config_flag(config, "use_bias", false, &model->logit_bias);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Phi-1, 1.5 and 2 (phi) and Phi-3 (phi3): two different shapes under one name. */
#include "model/config/families.h"

hr_status hr_finish_phi(hr_config *config, const hr_family *family, hr_model *model)
{
  if (family->layer_norm) /* the norms of Q and K are LayerNorms, too */
    model->groups[0].attention.qk_norm_bias = model->groups[0].attention.qk_norm != HR_QK_NORM_NONE;
  else
    hr_config_mark(config, "attention_bias"); /* published as false and never used: there are no biases */
  HR_TRY(family->layer_norm ? HR_OK : hr_config_expect(config, "lm_head_bias", false));
  return family->layer_norm ? HR_OK : hr_config_expect(config, "mlp_bias", false);
}

hr_status hr_finish_phimoe(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)family;
  return hr_config_flag(config, "lm_head_bias", false, &model->logit_bias);
}

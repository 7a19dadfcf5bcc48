/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma: the activation has two names, of which the newer one counts. */
#include "analysis/model/families.h"

#include "base/names.h"

hr_status hr_finish_gemma(hr_config *config, const hr_family *family, hr_model *model)
{
  const char *activation;
  if (!hr_json_has(&config->json, "hidden_activation"))
    return HR_OK;
  HR_TRY(hr_config_text(config, "hidden_activation", family->activation_default, &activation));
  hr_copy_text(model->activation, sizeof model->activation, activation);
  return HR_OK;
}

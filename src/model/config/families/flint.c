/* SPDX-License-Identifier: Apache-2.0 */
/* Flint: which layers have windows, and the dense first ones, where no list says it. */
#include "model/config/config_experts.h"

static size_t type_of(const void *last, int64_t index)
{
  return !(index < 2 || index % 4 == 1 || index == *(const int64_t *)last);
}

hr_status hr_finish_flint(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t last = model->groups[0].count - 1;
  hr_expert_fields experts = family->experts;
  hr_family own = *family;
  if (!hr_json_has(&config->json, experts.dense_layers))
    own.experts.first = (hr_size_field){NULL, 2};
  HR_TRY(hr_config_window(config, "sliding_window", 513, model));
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.type_of = type_of;
  pattern.context = &last;
  return hr_config_apply(config, &own, &pattern, hr_config_windows, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo 1 (norms without parameters) and OLMo 2 (norms after attention and MLP, and over all of Q and of K). */
#include "analysis/model/families.h"

static hr_status read_common(hr_config *config, hr_model *model)
{
  const hr_config_names *names = &hr_config_standard_names;
  bool bias;
  HR_TRY(hr_config_sizes(config, names, 2048, model));
  HR_TRY(hr_config_kv_heads(config, names, "num_key_value_heads", 0, model));
  HR_TRY(hr_config_head_dim(config, names, "head_dim", 0, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, "hidden_act", "silu", model));
  HR_TRY(hr_config_rotary(config, NULL, 1.0, model));
  HR_TRY(hr_config_flag(config, "attention_bias", false, &bias));
  hr_config_attention_bias(model, bias, bias);
  model->mlp_gated = true;
  return hr_config_tied(config, false, model);
}

hr_status hr_read_olmo(hr_config *config, hr_model *model)
{
  model->norm_weight = model->norm_bias = false;
  return read_common(config, model);
}

hr_status hr_read_olmo2(hr_config *config, hr_model *model)
{
  hr_config_rms_norm(model);
  model->qk_norm = HR_QK_NORM_FULL;
  return read_common(config, model);
}

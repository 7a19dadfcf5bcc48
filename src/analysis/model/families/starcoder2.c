/* SPDX-License-Identifier: Apache-2.0 */
/* StarCoder 2. */
#include "analysis/model/families.h"

hr_status hr_read_starcoder2(hr_config *config, hr_model *model)
{
  const hr_config_names *names = &hr_config_standard_names;
  bool bias, listed;
  HR_TRY(hr_config_sizes(config, names, 4096, model));
  HR_TRY(hr_config_kv_heads(config, names, "num_key_value_heads", 2, model));
  HR_TRY(hr_config_head_dim(config, names, "head_dim", 0, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, "hidden_act", "gelu_pytorch_tanh", model));
  HR_TRY(hr_config_rotary(config, NULL, 1.0, model));
  HR_TRY(hr_config_window(config, "sliding_window", 0, model));
  HR_TRY(hr_config_layer_types(config, model, &listed));
  HR_TRY(hr_config_flag(config, "use_bias", true, &bias));
  hr_config_attention_bias(model, bias, bias);
  model->mlp_bias = bias;
  return hr_config_tied(config, true, model);
}

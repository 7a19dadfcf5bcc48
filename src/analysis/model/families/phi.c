/* SPDX-License-Identifier: Apache-2.0 */
/* Phi-1, 1.5 and 2 (phi) and Phi-3 (phi3): two different shapes under one name. */
#include "analysis/model/families.h"

hr_status hr_read_phi(hr_config *config, hr_model *model)
{
  const hr_config_names *names = &hr_config_standard_names;
  bool qk_norm;
  HR_TRY(hr_config_sizes(config, names, 2048, model));
  HR_TRY(hr_config_kv_heads(config, names, "num_key_value_heads", 0, model));
  HR_TRY(hr_config_head_dim(config, names, "head_dim", 0, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, "hidden_act", "gelu_new", model));
  HR_TRY(hr_config_rotary(config, "partial_rotary_factor", 0.5, model));
  HR_TRY(hr_config_flag(config, "qk_layernorm", false, &qk_norm));
  model->qk_norm = qk_norm ? HR_QK_NORM_SHARED : HR_QK_NORM_NONE;
  model->qk_norm_bias = qk_norm;
  model->parallel_block = true;
  model->layer_norms = 1;
  hr_config_attention_bias(model, true, true);
  model->mlp_bias = true;
  model->logit_bias = true;
  return hr_config_tied(config, false, model);
}

hr_status hr_read_phi3(hr_config *config, hr_model *model)
{
  const hr_config_names *names = &hr_config_standard_names;
  bool listed;
  HR_TRY(hr_config_sizes(config, names, 4096, model));
  HR_TRY(hr_config_kv_heads(config, names, "num_key_value_heads", 0, model));
  HR_TRY(hr_config_head_dim(config, names, "head_dim", 0, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, "hidden_act", "silu", model));
  HR_TRY(hr_config_rotary(config, "partial_rotary_factor", 1.0, model));
  HR_TRY(hr_config_window(config, "sliding_window", 0, model));
  HR_TRY(hr_config_layer_types(config, model, &listed));
  hr_config_mark(config, "attention_bias"); /* published as false and never used: there are no biases */
  hr_config_rms_norm(model);
  model->mlp_gated = true;
  return hr_config_tied(config, false, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* StableLM 3B and StableLM 2. */
#include "analysis/model/families.h"

hr_status hr_read_stablelm(hr_config *config, hr_model *model)
{
  const hr_config_names *names = &hr_config_standard_names;
  bool qkv_bias, qk_norm;
  HR_TRY(hr_config_sizes(config, names, 4096, model));
  HR_TRY(hr_config_kv_heads(config, names, "num_key_value_heads", 32, model));
  HR_TRY(hr_config_head_dim(config, names, NULL, 0, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, "hidden_act", "silu", model));
  const char *fraction = hr_json_has(&config->json, "rope_pct") ? "rope_pct" : "partial_rotary_factor";
  HR_TRY(hr_config_rotary(config, fraction, 0.25, model));
  HR_TRY(hr_config_flag(config, "use_qkv_bias", false, &qkv_bias));
  HR_TRY(hr_config_flag(config, "qk_layernorm", false, &qk_norm));
  HR_TRY(hr_config_flag(config, "use_parallel_residual", false, &model->parallel_block));
  hr_config_attention_bias(model, qkv_bias, false);
  model->qk_norm = qk_norm ? HR_QK_NORM_PER_HEAD : HR_QK_NORM_NONE;
  model->layer_norms = model->parallel_block ? 1 : 2;
  model->mlp_gated = true;
  return hr_config_tied(config, false, model);
}

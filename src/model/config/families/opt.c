/* SPDX-License-Identifier: Apache-2.0 */
/* OPT. */
#include "model/config/families.h"

hr_status hr_read_opt(hr_config *config, const hr_family *family, hr_model *model)
{
  bool bias, norm_first, no_final_norm;
  int64_t embedding_dim;
  (void)family;
  HR_TRY(hr_config_sizes(config, &hr_config_standard_names, 2048, model));
  HR_TRY(hr_config_kv_heads(config, &hr_config_standard_names, NULL, 0, model));
  HR_TRY(hr_config_head_dim(config, &hr_config_standard_names, NULL, 0, model));
  HR_TRY(hr_config_mlp(config, "ffn_dim", 0, "activation_function", "relu", model));
  HR_TRY(hr_config_size_derived(config, "word_embed_proj_dim", model->hidden, &embedding_dim));
  HR_TRY(hr_config_flag(config, "do_layer_norm_before", true, &norm_first));
  HR_TRY(hr_config_flag(config, "_remove_final_layer_norm", false, &no_final_norm));
  HR_TRY(hr_config_flag(config, "enable_bias", true, &bias));
  HR_TRY(hr_config_flag(config, "layer_norm_elementwise_affine", true, &model->norm_weight));
  model->norm_bias = model->norm_weight;
  model->final_norm = norm_first && !no_final_norm;
  model->embedding_dim = embedding_dim == model->hidden ? 0 : embedding_dim;
  hr_config_learned(model, 2); /* positions are counted from 2 */
  hr_config_attention_bias(model, bias, bias);
  model->groups[0].dense.bias = bias;
  return hr_config_tied(config, true, model);
}

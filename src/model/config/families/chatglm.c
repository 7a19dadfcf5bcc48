/* SPDX-License-Identifier: Apache-2.0 */
/* ChatGLM2, ChatGLM3 and the first GLM-4, in the names of their own code. */
#include "model/config/families.h"

static hr_status read_sizes(hr_config *config, hr_model *model)
{
  hr_mixer_attention *attention = &model->groups[0].attention;
  HR_TRY(hr_config_size(config, "num_layers", "num_hidden_layers", &model->groups[0].count));
  HR_TRY(hr_config_size(config, "hidden_size", NULL, &model->hidden));
  HR_TRY(hr_config_size(config, "num_attention_heads", NULL, &attention->q_heads));
  hr_config_mark(config, "vocab_size"); /* without the padding */
  HR_TRY(hr_config_size(config, "padded_vocab_size", NULL, &model->vocabulary));
  return hr_config_size_or(config, "seq_length", 2048, &model->max_positions);
}

static hr_status read_attention(hr_config *config, bool linear_bias, hr_model *model)
{
  static const hr_config_names names = {"num_layers", "hidden_size", "num_attention_heads", "seq_length"};
  bool grouped, qkv_bias;
  HR_TRY(hr_config_flag(config, "multi_query_attention", false, &grouped));
  hr_config_mark(config, "multi_query_group_num");
  HR_TRY(hr_config_kv_heads(config, &names, grouped ? "multi_query_group_num" : NULL, 1, model));
  HR_TRY(hr_config_head_dim(config, &names, "kv_channels", 128, model));
  HR_TRY(hr_config_flag(config, "add_qkv_bias", false, &qkv_bias));
  hr_config_attention_bias(model, qkv_bias || linear_bias, linear_bias);
  model->positions = HR_POSITIONS_ROTARY;
  model->groups[0].attention.rotary_dim = model->groups[0].attention.qk_dim / 2;
  return HR_OK;
}

/* The first ChatGLM has other layers under the same name; prefixes are parameters of fine-tuning. */
static hr_status refuse(hr_config *config)
{
  if (hr_json_has(&config->json, "inner_hidden_size"))
    return hr_json_fail(&config->json, "inner_hidden_size", HR_ERROR_UNSUPPORTED,
                        "is a field of the first ChatGLM, which is not supported");
  hr_config_mark(config, "pre_seq_len");
  if (hr_json_has(&config->json, "pre_seq_len"))
    return hr_json_fail(&config->json, "pre_seq_len", HR_ERROR_UNSUPPORTED,
                        "selects a trained prefix (P-tuning), which is not supported");
  return HR_OK;
}

hr_status hr_read_chatglm(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_ffn_dense *dense = &model->groups[0].dense;
  bool linear_bias, rms;
  (void)family;
  HR_TRY(refuse(config));
  HR_TRY(read_sizes(config, model));
  HR_TRY(hr_config_flag(config, "add_bias_linear", true, &linear_bias));
  HR_TRY(read_attention(config, linear_bias, model));
  HR_TRY(hr_config_mlp(config, "ffn_hidden_size", 0, "hidden_act", "silu", model));
  dense->gated = true;
  dense->bias = linear_bias;
  HR_TRY(hr_config_flag(config, "rmsnorm", true, &rms));
  if (rms)
    hr_config_rms_norm(model);
  HR_TRY(hr_config_flag(config, "post_layer_norm", true, &model->final_norm));
  return hr_config_tied(config, false, model);
}

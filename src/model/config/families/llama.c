/* SPDX-License-Identifier: Apache-2.0 */
/* Relatives of Llama: what they have of their own. */
#include "model/config/families.h"

#include <inttypes.h>
#include <string.h>

/* xIELU (arXiv 2411.13010) learns the slopes of its two sides. */
hr_status hr_finish_apertus(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)family;
  HR_TRY(hr_config_expect(config, "mlp_bias", false));
  HR_TRY(hr_config_expect(config, "post_norm", false));
  HR_TRY(hr_config_expect(config, "qk_norm", true));
  if (strcmp(model->activation, "xielu") == 0)
    model->groups[0].dense.activation_parameters = 2;
  return HR_OK;
}

/* 7B is rotated and gives max_position_embeddings; 13B has ALiBi and gives model_max_length only. */
hr_status hr_finish_baichuan(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)family;
  hr_config_mark(config, "max_position_embeddings");
  if (hr_json_has(&config->json, "max_position_embeddings"))
    return HR_OK;
  model->positions = HR_POSITIONS_ALIBI;
  model->groups[0].attention.rotary_dim = 0;
  return HR_OK;
}

/* The output projection's bias is that of Q, K, V in transformers, and that of the MLP in the model's own code. */
hr_status hr_finish_internlm3(hr_config *config, const hr_family *family, hr_model *model)
{
  const hr_mixer_attention *attention = &model->groups[0].attention;
  (void)family;
  if (attention->q_bias != attention->output_bias)
    return hr_json_fail(&config->json, "bias", HR_ERROR_UNSUPPORTED, "differs from qkv_bias");
  return HR_OK;
}

/* MiniCPM 4 attends to chosen blocks of a long context where this field is set. */
hr_status hr_finish_minicpm(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)family;
  (void)model;
  hr_config_mark(config, "sparse_config");
  if (hr_json_has(&config->json, "sparse_config"))
    return hr_json_fail(&config->json, "sparse_config", HR_ERROR_UNSUPPORTED,
                        "selects sparse attention, which is not supported");
  return HR_OK;
}

/* Command R's configurations name what all of them have in common. */
hr_status hr_finish_cohere(hr_config *config, const hr_family *family, hr_model *model)
{
  static const char *const others[] = {"layer_switch", "order_of_interleaved_layers", "position_embedding_type",
                                       "rotary_pct",   "use_embedding_sharing",       "use_parallel_embedding"};
  (void)family;
  (void)model;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    hr_config_mark(config, others[i]);
  HR_TRY(hr_config_expect(config, "use_gated_activation", true));
  return hr_config_expect(config, "use_parallel_block", true);
}

/* Norms without weights, one of them after the embedding. */
hr_status hr_finish_nanochat(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)config;
  (void)family;
  model->norm_weight = false;
  model->embedding_norm = true;
  return HR_OK;
}

/* Qwen 1: the MLP's width is that of gate and up together. */
hr_status hr_finish_qwen1(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_mixer_attention *attention = &model->groups[0].attention;
  hr_ffn_dense *dense = &model->groups[0].dense;
  bool no_bias;
  (void)family;
  hr_config_mark(config, "seq_length"); /* of training */
  if (attention->q_heads != model->hidden / attention->v_dim || model->hidden % attention->v_dim != 0)
    return hr_json_fail(&config->json, "kv_channels", HR_ERROR_INVALID,
                        "%" PRId64 " heads of %" PRId64 " are not hidden_size, %" PRId64 ", wide", attention->q_heads,
                        attention->v_dim, model->hidden);
  if (dense->width % 2 != 0)
    return hr_json_fail(&config->json, "intermediate_size", HR_ERROR_INVALID, "expected an even number");
  dense->width /= 2;
  HR_TRY(hr_config_flag(config, "no_bias", true, &no_bias));
  attention->output_bias = dense->bias = !no_bias;
  return HR_OK;
}

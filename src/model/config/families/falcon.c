/* SPDX-License-Identifier: Apache-2.0 */
/* Falcon: three shapes of one class. 7B: one K and V head, a parallel block with one norm. 40B ("new decoder
 * architecture"): grouped heads, a parallel block with two norms. falcon-rw: ALiBi, sequential, biases. */
#include "model/config/families.h"

/* Old and new configurations name the sizes differently. */
static const hr_config_names *names_of(const hr_config *config)
{
  static const hr_config_names old = {"n_layer", "hidden_size", "n_head", "max_position_embeddings"};
  return hr_json_has(&config->json, "n_layer") ? &old : &hr_config_standard_names;
}

/* Reads K and V heads. The old decoder has one of each ("multi_query") or as many as query heads, whatever
 * "num_kv_heads" says. */
static hr_status read_heads(hr_config *config, const hr_config_names *names, bool new_decoder, hr_model *model)
{
  bool multi_query;
  const char *kv_field = hr_json_has(&config->json, "n_head_kv") ? "n_head_kv" : "num_kv_heads";
  HR_TRY(hr_config_flag(config, "multi_query", true, &multi_query));
  hr_config_mark(config, "num_kv_heads");
  hr_config_mark(config, "n_head_kv");
  HR_TRY(hr_config_kv_heads(config, names, new_decoder ? kv_field : NULL, 0, model));
  HR_TRY(hr_config_head_dim(config, names, NULL, 0, model));
  if (!new_decoder && multi_query)
    model->groups[0].attention.k_heads = model->groups[0].attention.v_heads = 1;
  return HR_OK;
}

/* A parallel block has one norm, or with the new decoder two unless the configuration says otherwise. */
static hr_status read_norms(hr_config *config, bool new_decoder, hr_model *model)
{
  HR_TRY(hr_config_flag(config, "parallel_attn", true, &model->groups[0].parallel_block));
  hr_config_mark(config, "num_ln_in_parallel_attn");
  int64_t parallel_norms;
  HR_TRY(hr_json_integer_or(&config->json, "num_ln_in_parallel_attn", 1, 2, new_decoder ? 2 : 1, &parallel_norms));
  model->groups[0].norms = model->groups[0].parallel_block ? parallel_norms : 2;
  return HR_OK;
}

static hr_status read_falcon(hr_config *config, bool new_decoder, hr_model *model)
{
  const hr_config_names *names = names_of(config);
  bool alibi, bias;
  HR_TRY(hr_config_sizes(config, names, 2048, model));
  HR_TRY(read_heads(config, names, new_decoder, model));
  HR_TRY(read_norms(config, new_decoder, model));
  HR_TRY(hr_config_mlp(config, "ffn_hidden_size", 4 * model->hidden, "activation", "gelu", model));
  HR_TRY(hr_config_flag(config, "alibi", false, &alibi));
  HR_TRY(hr_config_flag(config, "bias", false, &bias));
  if (alibi)
    model->positions = HR_POSITIONS_ALIBI;
  else
    HR_TRY(hr_config_rotary(config, NULL, 1.0, model));
  hr_config_attention_bias(model, bias, bias);
  model->groups[0].dense.bias = bias;
  return hr_config_tied(config, true, model);
}

hr_status hr_read_falcon(hr_config *config, const hr_family *family, hr_model *model)
{
  bool new_decoder;
  (void)family;
  HR_TRY(hr_config_flag(config, "new_decoder_architecture", false, &new_decoder));
  return read_falcon(config, new_decoder, model);
}

hr_status hr_read_refined_web(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)family;
  return read_falcon(config, true, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma 1 and 2: a head size independent of hidden, GeGLU, tied embeddings. */
#include "analysis/model/families.h"

static hr_status read_common(hr_config *config, int64_t kv_default, hr_model *model)
{
  const hr_config_names *names = &hr_config_standard_names;
  bool bias;
  const char *activation_field = hr_json_has(&config->json, "hidden_activation") ? "hidden_activation" : "hidden_act";
  hr_config_mark(config, "hidden_act");
  hr_config_mark(config, "hidden_activation");
  HR_TRY(hr_config_sizes(config, names, 8192, model));
  HR_TRY(hr_config_kv_heads(config, names, "num_key_value_heads", kv_default, model));
  HR_TRY(hr_config_head_dim(config, names, "head_dim", 256, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, activation_field, "gelu_pytorch_tanh", model));
  HR_TRY(hr_config_rotary(config, NULL, 1.0, model));
  HR_TRY(hr_config_flag(config, "attention_bias", false, &bias));
  hr_config_attention_bias(model, bias, bias);
  hr_config_rms_norm(model);
  model->mlp_gated = true;
  return hr_config_tied(config, true, model);
}

hr_status hr_read_gemma(hr_config *config, hr_model *model)
{
  return read_common(config, 16, model);
}

hr_status hr_read_gemma2(hr_config *config, hr_model *model)
{
  bool listed;
  HR_TRY(read_common(config, 4, model));
  model->layer_norms = 4; /* before and after attention, before and after the MLP */
  HR_TRY(hr_config_window(config, "sliding_window", 4096, model));
  HR_TRY(hr_config_layer_types(config, model, &listed));
  if (!listed && model->window > 0)
    model->window_layers = model->layers - model->layers / 2; /* layers 0, 2, 4, … */
  return HR_OK;
}

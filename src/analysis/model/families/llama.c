/* SPDX-License-Identifier: Apache-2.0 */
/* The Llama line: llama, mistral, qwen2, qwen3. RMS norms before attention and MLP, rotary positions, a
 * gated MLP without biases; they differ in biases, q/k norms and windows. */
#include "analysis/model/families.h"

#include "base/checked.h"

/* The fields of all four. Defaults are those of the documented configuration class. */
static hr_status read_common(hr_config *config, int64_t default_positions, int64_t kv_default, int64_t head_dim_default,
                             hr_model *model)
{
  const hr_config_names *names = &hr_config_standard_names;
  HR_TRY(hr_config_sizes(config, names, default_positions, model));
  HR_TRY(hr_config_kv_heads(config, names, "num_key_value_heads", kv_default, model));
  HR_TRY(hr_config_head_dim(config, names, "head_dim", head_dim_default, model));
  HR_TRY(hr_config_mlp(config, "intermediate_size", 0, "hidden_act", "silu", model));
  HR_TRY(hr_config_rotary(config, NULL, 1.0, model));
  model->mlp_gated = true;
  hr_config_rms_norm(model);
  return hr_config_tied(config, false, model);
}

hr_status hr_read_llama(hr_config *config, hr_model *model)
{
  bool bias;
  HR_TRY(read_common(config, 2048, 0, 0, model));
  HR_TRY(hr_config_flag(config, "attention_bias", false, &bias));
  HR_TRY(hr_config_flag(config, "mlp_bias", false, &model->mlp_bias));
  hr_config_attention_bias(model, bias, bias);
  return HR_OK;
}

hr_status hr_read_mistral(hr_config *config, hr_model *model)
{
  HR_TRY(read_common(config, 131072, 8, 0, model));
  HR_TRY(hr_config_window(config, "sliding_window", 4096, model));
  bool listed;
  return hr_config_layer_types(config, model, &listed);
}

/* Qwen's window is off by default; if on, the first max_window_layers layers have none. */
static hr_status read_qwen_window(hr_config *config, hr_model *model)
{
  bool is_used, listed;
  hr_config_mark(config, "sliding_window");
  hr_config_mark(config, "max_window_layers");
  HR_TRY(hr_config_flag(config, "use_sliding_window", false, &is_used));
  if (is_used)
    HR_TRY(hr_config_window(config, "sliding_window", 4096, model));
  HR_TRY(hr_config_layer_types(config, model, &listed));
  if (listed || model->window == 0)
    return HR_OK;
  int64_t full_layers;
  HR_TRY(hr_json_integer_or(&config->json, "max_window_layers", 0, INT64_MAX, 28, &full_layers));
  model->window_layers = hr_max64(0, model->layers - full_layers);
  if (model->window_layers == 0)
    model->window = 0;
  return HR_OK;
}

hr_status hr_read_qwen2(hr_config *config, hr_model *model)
{
  HR_TRY(read_common(config, 32768, 32, 0, model));
  hr_config_attention_bias(model, true, false);
  return read_qwen_window(config, model);
}

hr_status hr_read_qwen3(hr_config *config, hr_model *model)
{
  bool bias;
  HR_TRY(read_common(config, 32768, 32, 128, model));
  HR_TRY(hr_config_flag(config, "attention_bias", false, &bias));
  hr_config_attention_bias(model, bias, bias);
  model->qk_norm = HR_QK_NORM_SHARED;
  return read_qwen_window(config, model);
}

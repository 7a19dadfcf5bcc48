/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen 2 and 3: the windows. */
#include "model/config/config_experts.h"
#include "model/config/families.h"

/* Layers from max_window_layers on have the window. */
static size_t qwen_type(const void *full_layers, int64_t index)
{
  return index >= *(const int64_t *)full_layers;
}

/* MiMo 7B is Qwen 2, whose Q, K and V always have biases, with layers for multi-token prediction (vLLM's mimo.py). */
hr_status hr_finish_mimo_7b(hr_config *config, const hr_family *family, hr_model *model)
{
  HR_TRY(hr_config_expect(config, "attention_bias", true));
  HR_TRY(hr_config_expect(config, "use_mrope", false));
  return hr_finish_qwen(config, family, model);
}

/* Qwen's window is off by default; if on, the first max_window_layers layers have none. */
hr_status hr_finish_qwen(hr_config *config, const hr_family *family, hr_model *model)
{
  bool is_used;
  int64_t full_layers;
  hr_config_mark(config, "sliding_window");
  hr_config_mark(config, "max_window_layers");
  HR_TRY(hr_config_flag(config, "use_sliding_window", false, &is_used));
  if (is_used)
    HR_TRY(hr_config_window(config, "sliding_window", 4096, model));
  HR_TRY(hr_json_integer_or(&config->json, "max_window_layers", 0, INT64_MAX, 28, &full_layers));
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.type_of = qwen_type;
  pattern.context = &full_layers;
  return hr_config_apply(config, family, &pattern, hr_config_windows, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen 2 and 3 with experts: their windows, which are off unless use_sliding_window is on. */
#include "model/config/config_experts.h"

static hr_status read_window(hr_config *config, hr_model *model)
{
  bool is_used;
  hr_config_mark(config, "sliding_window");
  HR_TRY(hr_config_flag(config, "use_sliding_window", false, &is_used));
  return is_used ? hr_config_window(config, "sliding_window", 4096, model) : HR_OK;
}

/* Every second of the first layers, from the first on, has the window. */
static size_t qwen2_type(const void *window_layers, int64_t index)
{
  return index < *(const int64_t *)window_layers && index % 2 == 0;
}

hr_status hr_finish_qwen2_moe(hr_config *config, const hr_family *family, hr_model *model)
{
  int64_t window_layers;
  HR_TRY(read_window(config, model));
  hr_config_mark(config, "max_window_layers");
  HR_TRY(hr_json_integer_or(&config->json, "max_window_layers", 0, INT64_MAX, 28, &window_layers));
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.type_of = qwen2_type;
  pattern.context = &window_layers;
  return hr_config_apply(config, family, &pattern, hr_config_windows, model);
}

/* All layers have the window. */
hr_status hr_finish_qwen3_moe(hr_config *config, const hr_family *family, hr_model *model)
{
  (void)family;
  hr_config_mark(config, "max_window_layers");
  return read_window(config, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The window of the layers, or a list of windows. */
#include "model/config/config_layers.h"

/* Layer i has the window of item i modulo the length, as vLLM reads Mistral's lists (layer_idx % len() in its llama.py;
 * from 01da88c5 on it repeats the list, vllm/transformers_utils/configs/mistral.py). */
static hr_status take_windows(hr_config *config, const char *field, const json_t *list, hr_model *model)
{
  int64_t largest = 0;
  hr_config_mark(config, field);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    int64_t window = 0;
    if (!json_is_null(item))
      HR_TRY(hr_config_layer_size(config, field, list, (int64_t)i, &window));
    largest = window > largest ? window : largest;
  }
  if (json_array_size(list) == 0)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a window, found an empty list");
  config->windows = list;
  config->windows_field = field;
  model->groups[0].attention.window = largest;
  return HR_OK;
}

hr_status hr_config_window(hr_config *config, const char *field, int64_t missing_default, hr_model *model)
{
  const json_t *found = json_object_get(config->json.object, field);
  if (json_is_array(found))
    return take_windows(config, field, found, model);
  if (missing_default > 0 && !hr_config_present(config, field))
    HR_TRY(hr_config_size_or(config, field, missing_default, &model->groups[0].attention.window));
  else
    HR_TRY(hr_config_size_derived(config, field, 0, &model->groups[0].attention.window));
  return HR_OK;
}

hr_status hr_config_spread_windows(hr_config *config, hr_model *model)
{
  const json_t *list = config->windows;
  const hr_layer_group whole = model->groups[0];
  if (!list)
    return HR_OK;
  if (model->group_count > 1 || whole.count > HR_DIFFERING_LAYERS_MAX)
    return hr_json_fail(&config->json, config->windows_field, HR_ERROR_UNSUPPORTED,
                        "Headroom takes a list only for at most %d layers that are equal otherwise",
                        HR_DIFFERING_LAYERS_MAX);
  model->group_count = 0;
  for (int64_t i = 0; i < whole.count; i++) {
    hr_layer_group layer = whole;
    layer.attention.window = json_integer_value(json_array_get(list, (size_t)i % json_array_size(list)));
    HR_TRY(hr_config_add_layer(config, model, &layer));
  }
  return HR_OK;
}

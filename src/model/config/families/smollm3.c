/* SPDX-License-Identifier: Apache-2.0 */
/* SmolLM3: layers without positions, listed or every n-th; those may have a window. */
#include "model/config/config_layers.h"
#include "model/config/families.h"

#include <inttypes.h>

typedef struct unrotated_layers {
  const json_t *list; /* 1: rotated, 0: not; NULL: by the interval */
  int64_t interval;
} unrotated_layers;

static bool is_unrotated(const void *context, int64_t index)
{
  const unrotated_layers *layers = context;
  if (layers->list)
    return json_integer_value(json_array_get(layers->list, (size_t)index)) == 0;
  return (index + 1) % layers->interval == 0;
}

static size_t type_of(const void *context, int64_t index)
{
  return is_unrotated(context, index);
}

static void change(const void *context, int64_t index, hr_layer_group *layer)
{
  if (is_unrotated(context, index))
    layer->attention.rotary_dim = 0;
}

static hr_status read_unrotated(hr_config *config, int64_t count, unrotated_layers *layers)
{
  static const char field[] = "no_rope_layers";
  hr_config_mark(config, field);
  HR_TRY(hr_config_size_derived(config, "no_rope_layer_interval", 4, &layers->interval));
  layers->list = NULL;
  if (!hr_json_has(&config->json, field))
    return HR_OK;
  layers->list = json_object_get(config->json.object, field);
  if ((int64_t)json_array_size(layers->list) != count)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a list of %" PRId64 " numbers 0 or 1", count);
  for (int64_t i = 0; i < count; i++) {
    const json_t *value = json_array_get(layers->list, (size_t)i);
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 1)
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a list of %" PRId64 " numbers 0 or 1",
                          count);
  }
  return HR_OK;
}

hr_status hr_finish_smollm3(hr_config *config, const hr_family *family, hr_model *model)
{
  unrotated_layers layers;
  bool is_used;
  (void)family;
  HR_TRY(read_unrotated(config, model->groups[0].count, &layers));
  hr_config_mark(config, "sliding_window");
  hr_config_mark(config, "max_window_layers"); /* published, but never used */
  HR_TRY(hr_config_flag(config, "use_sliding_window", false, &is_used));
  if (is_used)
    HR_TRY(hr_config_window(config, "sliding_window", 0, model));
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.type_of = type_of;
  pattern.change = change;
  pattern.context = pattern.change_context = &layers;
  return hr_config_windows(config, &pattern, model);
}

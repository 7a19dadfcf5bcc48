/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/config_layers.h"

#include "model/layers/layer_kinds.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "full_attention, sliding_attention" */
static void list_types(const hr_layer_pattern *pattern, char *text, size_t size)
{
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < pattern->type_count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? " and " : "", pattern->types[i].name);
}

static hr_status find_type(const hr_config *config, const hr_layer_pattern *pattern, const json_t *value, size_t *type)
{
  const char *name = json_string_value(value);
  for (*type = 0; *type < pattern->type_count; ++*type) {
    if (name && strcmp(pattern->types[*type].name, name) == 0)
      return HR_OK;
  }
  char found[64], known[160];
  hr_json_found(value, found, sizeof found);
  list_types(pattern, known, sizeof known);
  return hr_json_fail(&config->json, pattern->field, HR_ERROR_UNSUPPORTED,
                      "has a layer of type %s; only %s are supported", found, known);
}

static hr_status find_list(hr_config *config, const hr_layer_pattern *pattern, const json_t **list)
{
  *list = NULL;
  if (!pattern->field)
    return HR_OK;
  hr_config_mark(config, pattern->field);
  if (!hr_json_has(&config->json, pattern->field))
    return HR_OK;
  *list = json_object_get(config->json.object, pattern->field);
  if (!json_is_array(*list))
    return hr_json_fail(&config->json, pattern->field, HR_ERROR_INVALID, "expected a list with one kind per layer");
  if ((int64_t)json_array_size(*list) != pattern->layers)
    return hr_json_fail(&config->json, pattern->field, HR_ERROR_INVALID, "has %zu kinds for %" PRId64 " layers",
                        json_array_size(*list), pattern->layers);
  return HR_OK;
}

hr_status hr_config_layer_list(hr_config *config, const char *field, int64_t layers, const json_t **list)
{
  *list = NULL;
  hr_config_mark(config, field);
  if (!hr_json_has(&config->json, field))
    return HR_OK;
  *list = json_object_get(config->json.object, field);
  if (!json_is_array(*list) || (int64_t)json_array_size(*list) != layers)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID,
                        "expected a list with one value for each of %" PRId64 " layers", layers);
  return HR_OK;
}

hr_status hr_config_layer_size(const hr_config *config, const char *field, const json_t *list, int64_t index,
                               int64_t *value)
{
  const json_t *item = json_array_get(list, (size_t)index);
  char name[80], found[64];
  *value = json_integer_value(item);
  if (json_is_integer(item) && *value >= 1 && *value <= HR_MODEL_SIZE_MAX)
    return HR_OK;
  snprintf(name, sizeof name, "%s[%" PRId64 "]", field, index);
  hr_json_found(item, found, sizeof found);
  return hr_json_fail(&config->json, name, HR_ERROR_INVALID, "expected a positive integer, found %s", found);
}

static hr_status add(const hr_config *config, hr_model *model, hr_layer_group *layer, int64_t count)
{
  layer->count = count;
  if (hr_add_layers(model, layer))
    return HR_OK;
  return hr_fail(config->json.error, HR_ERROR_UNSUPPORTED, "%s: its layers differ in more than %d ways",
                 config->json.input, HR_LAYER_GROUPS_MAX);
}

hr_status hr_config_add_layer(const hr_config *config, hr_model *model, const hr_layer_group *layer)
{
  hr_layer_group one = *layer;
  return add(config, model, &one, 1);
}

hr_status hr_config_layers(hr_config *config, const hr_layer_pattern *pattern, hr_model *model)
{
  const json_t *list;
  HR_TRY(find_list(config, pattern, &list));
  model->group_count = 0;
  if (!list && !pattern->type_of && !pattern->change) {
    hr_layer_group layer = pattern->types[0].layer;
    return add(config, model, &layer, pattern->layers);
  }
  if (pattern->layers > HR_DIFFERING_LAYERS_MAX)
    return hr_fail(config->json.error, HR_ERROR_INVALID, "%s: %" PRId64 " layers of several kinds are more than %d",
                   config->json.input, pattern->layers, HR_DIFFERING_LAYERS_MAX);
  for (int64_t i = 0; i < pattern->layers; i++) {
    size_t type = 0;
    if (list)
      HR_TRY(find_type(config, pattern, json_array_get(list, (size_t)i), &type));
    else if (pattern->type_of)
      type = pattern->type_of(pattern->context, i);
    hr_layer_group layer = pattern->types[type].layer;
    if (pattern->change)
      pattern->change(pattern->change_context, i, &layer);
    HR_TRY(add(config, model, &layer, 1));
  }
  return HR_OK;
}

/* ---- windows ---- */

enum { FULL, SLIDING };

hr_layer_pattern hr_window_pattern(const hr_model *model)
{
  hr_layer_pattern pattern = {
      .layers = model->groups[0].count,
      .field = "layer_types",
      .type_count = 2,
      .types = {[FULL] = {"full_attention", model->groups[0]}, [SLIDING] = {"sliding_attention", model->groups[0]}}};
  pattern.types[FULL].layer.attention.window = 0;
  return pattern;
}

hr_status hr_config_windows(hr_config *config, const hr_layer_pattern *pattern, hr_model *model)
{
  hr_layer_pattern windows = *pattern;
  bool has_window = windows.types[SLIDING].layer.attention.window > 0;
  const json_t *list;
  HR_TRY(find_list(config, pattern, &list));
  if (!has_window) {
    for (size_t i = 0; i < json_array_size(list); i++) {
      size_t type;
      HR_TRY(find_type(config, pattern, json_array_get(list, i), &type));
      if (type == SLIDING)
        return hr_json_fail(&config->json, pattern->field, HR_ERROR_INVALID,
                            "has sliding_attention but no sliding_window is given");
    }
    windows.type_of = NULL;
  } else if (!list && !windows.type_of) {
    windows.types[FULL] = windows.types[SLIDING]; /* all layers are equal */
  }
  return hr_config_layers(config, &windows, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which linear layers have which of the formats of a quantized checkpoint. */
#include "analysis/model/config_quantization.h"

#include "analysis/model/layer_kinds.h"
#include "analysis/model/layer_weights.h"
#include "analysis/model/module_patterns.h"

#include <inttypes.h>
#include <string.h>

/* Patterns times layers that are compared. */
#define COMPARISONS_MAX 400000

/* "Linear" is a class: all linear layers. */
static bool is_class(const char *pattern)
{
  size_t length = strlen(pattern);
  return !strpbrk(pattern, ".:*") && length >= 6 && strcmp(pattern + length - 6, "Linear") == 0;
}

static hr_status check_patterns(const hr_json_reader *q, const char *field, const json_t *list, int64_t layers)
{
  if (!list)
    return HR_OK;
  if (!json_is_array(list))
    return hr_json_fail(q, field, HR_ERROR_INVALID, "expected a list of modules");
  if ((int64_t)json_array_size(list) > COMPARISONS_MAX / layers)
    return hr_json_fail(q, field, HR_ERROR_UNSUPPORTED, "has too many modules, %zu", json_array_size(list));
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *pattern = json_string_value(json_array_get(list, i));
    hr_error problem;
    if (!pattern)
      return hr_json_fail(q, field, HR_ERROR_INVALID, "expected names of modules");
    if (hr_check_module_pattern(pattern, &problem) != HR_OK)
      return hr_json_fail(q, field, HR_ERROR_UNSUPPORTED, "%s", problem.message);
  }
  return HR_OK;
}

static bool list_matches(const json_t *list, int64_t layer, hr_linear_id id)
{
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *pattern = json_string_value(json_array_get(list, i));
    if (is_class(pattern) || hr_module_matches(pattern, layer, id))
      return true;
  }
  return false;
}

static bool names_logit(const json_t *list, bool classes)
{
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *pattern = json_string_value(json_array_get(list, i));
    if ((classes && is_class(pattern)) || hr_module_is_logit(pattern))
      return true;
  }
  return false;
}

static bool is_expert(hr_linear_id id)
{
  return id == HR_LINEAR_EXPERT_GATE || id == HR_LINEAR_EXPERT_UP || id == HR_LINEAR_EXPERT_DOWN;
}

static uint8_t format_of(const hr_stored_formats *stored, int64_t layer, hr_linear_id id)
{
  if ((stored->experts_only && !is_expert(id)) || list_matches(stored->excluded, layer, id))
    return 0;
  for (size_t i = 0; i < stored->quantization.format_count; i++) {
    if (!stored->targets[i] || list_matches(stored->targets[i], layer, id))
      return (uint8_t)(i + 1);
  }
  return 0;
}

static uint8_t format_of_logit(const hr_stored_formats *stored)
{
  if (!stored->logit || names_logit(stored->excluded, false))
    return 0;
  for (size_t i = 0; i < stored->quantization.format_count; i++) {
    if (!stored->targets[i] || names_logit(stored->targets[i], true))
      return (uint8_t)(i + 1);
  }
  return 0;
}

/* ---- groups ---- */

/* Of one linear layer, the layers that have each format. */
typedef struct format_counts {
  int64_t layers[HR_WEIGHT_FORMATS_MAX + 1];
} format_counts;

static int64_t layers_with(const hr_model *model, hr_linear_id id)
{
  int64_t layers = 0;
  for (size_t i = 0; i < model->group_count; i++) {
    hr_linears list;
    bool has = false;
    hr_list_linears(model, &model->groups[i], &list);
    for (size_t k = 0; k < list.count; k++)
      has = has || list.items[k].id == id;
    layers += has ? model->groups[i].count : 0;
  }
  return layers;
}

/* The format of a linear layer in all groups. Where only some layers have it, the lists may name those alone. */
static bool common_format(const format_counts *counts, int64_t layers, int64_t having, uint8_t *format)
{
  for (uint8_t i = 0; i <= HR_WEIGHT_FORMATS_MAX; i++) {
    if (counts->layers[i] == layers || counts->layers[i] == having) {
      *format = i;
      return true;
    }
  }
  return false;
}

/* Groups tell how many layers are equal, not which: a list that names some layers of several groups has no place. */
static hr_status set_formats(const hr_json_reader *q, const format_counts *counts, hr_model *model)
{
  int64_t layers = hr_model_layers(model);
  for (int id = 0; id < HR_LINEAR_COUNT; id++) {
    int64_t having = layers_with(model, (hr_linear_id)id);
    uint8_t format = 0;
    if (having > 0 && !common_format(&counts[id], layers, having, &format))
      return hr_json_fail(q, "quant_method", HR_ERROR_UNSUPPORTED,
                          "%s has another format in some of the layers, which differ in other ways too",
                          hr_linear_name((hr_linear_id)id));
    for (size_t i = 0; i < model->group_count; i++)
      model->groups[i].formats[id] = format;
  }
  return HR_OK;
}

/* Whether the formats may differ between layers. */
static bool has_patterns(const hr_stored_formats *stored)
{
  bool found = json_array_size(stored->excluded) > 0;
  for (size_t i = 0; i < stored->quantization.format_count; i++)
    found = found || stored->targets[i];
  return found;
}

/* One layer after another; of a single group each is added to the group of those with equal formats. */
static hr_status choose_formats(const hr_json_reader *q, const hr_stored_formats *stored, hr_model *model)
{
  format_counts counts[HR_LINEAR_COUNT] = {{{0}}};
  int64_t layers = hr_model_layers(model), step = has_patterns(stored) ? 1 : layers;
  bool single = model->group_count == 1;
  hr_model split = *model;
  split.group_count = 0;
  for (int64_t i = 0; i < layers; i += step) {
    hr_layer_group layer = model->groups[0];
    for (int id = 0; id < HR_LINEAR_COUNT; id++) {
      layer.formats[id] = format_of(stored, i, (hr_linear_id)id);
      counts[id].layers[layer.formats[id]] += step;
    }
    layer.count = step;
    if (single && !hr_add_layers(&split, &layer))
      return hr_json_fail(q, "quant_method", HR_ERROR_UNSUPPORTED, "its layers differ in more than %d ways",
                          HR_LAYER_GROUPS_MAX);
  }
  if (!single)
    return set_formats(q, counts, model);
  model->group_count = split.group_count;
  memcpy(model->groups, split.groups, sizeof split.groups);
  return HR_OK;
}

/* Kinds of layers whose linear layers are not listed have no formats. */
static hr_status check_kinds(const hr_json_reader *q, const hr_model *model)
{
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    const hr_layer_kind *kind = hr_layer_kind_at(i);
    for (size_t k = 0; !kind->linears && k < model->group_count; k++) {
      if (kind->present(&model->groups[k]))
        return hr_json_fail(q, "quant_method", HR_ERROR_UNSUPPORTED,
                            "quantized weights are supported in attention, MLP and experts only");
    }
  }
  return HR_OK;
}

static hr_status apply(const hr_json_reader *q, hr_stored_formats *stored, hr_model *model)
{
  int64_t layers = hr_model_layers(model);
  HR_TRY(check_kinds(q, model));
  HR_TRY(check_patterns(q, "(modules that are not quantized)", stored->excluded, layers));
  for (size_t i = 0; i < stored->quantization.format_count; i++)
    HR_TRY(check_patterns(q, "targets", stored->targets[i], layers));
  HR_TRY(choose_formats(q, stored, model));
  model->quantization = stored->quantization;
  model->quantization.logit = format_of_logit(stored);
  return HR_OK;
}

/* ---- the object ---- */

static const json_t *find_object(hr_config *config, const char **field)
{
  static const char *const fields[] = {"quantization_config", "compression_config"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    *field = fields[i];
    const json_t *object = json_object_get(config->json.object, fields[i]);
    if (config->outer && (!object || json_is_null(object))) /* of a wrapper, beside its text_config */
      object = json_object_get(config->outer, fields[i]);
    if (json_object_size(object) > 0 || (object && !json_is_object(object) && !json_is_null(object))) {
      hr_config_mark(config, fields[i]);
      return object;
    }
  }
  return NULL;
}

/* Checkpoints of the first versions of bitsandbytes name no method. */
static const char *assumed_method(const json_t *object)
{
  bool bitsandbytes =
      json_is_true(json_object_get(object, "load_in_4bit")) || json_is_true(json_object_get(object, "load_in_8bit"));
  return bitsandbytes ? "bitsandbytes" : NULL;
}

hr_status hr_config_quantization(hr_config *config, hr_model *model)
{
  const char *field, *method;
  const json_t *object = find_object(config, &field);
  if (!object)
    return HR_OK;
  if (!json_is_object(object))
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected an object");
  hr_json_reader q = {
      .object = object, .input = config->json.input, .path = "quantization_config.", .error = config->json.error};
  hr_stored_formats stored = {.logit = false};
  HR_TRY(hr_json_string_or(&q, "quant_method", assumed_method(object), &method));
  HR_TRY(hr_read_stored_formats(&q, method, &stored));
  return apply(&q, &stored, model);
}

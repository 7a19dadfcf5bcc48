/* SPDX-License-Identifier: Apache-2.0 */
/* Which linear layers have which of the formats of a quantized checkpoint. */
#include "model/config/quantization/config_quantization.h"

#include "model/config/quantization/module_patterns.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/layer_weights.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/quantization.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Patterns times layers that are compared. */
#define COMPARISONS_MAX 400000

/* "Linear" is a class: all linear layers. */
static bool is_class(const char *pattern)
{
  size_t length = strlen(pattern);
  return !strpbrk(pattern, ".:*") && length >= 6 && strcmp(pattern + length - 6, "Linear") == 0;
}

static hr_status check_size(const hr_json_reader *q, const char *field, const json_t *list, int64_t layers)
{
  size_t count = json_array_size(list);
  if (!json_is_array(list))
    return hr_json_fail(q, field, HR_ERROR_INVALID, "expected a list of modules");
  if (layers > COMPARISONS_MAX || (int64_t)count > COMPARISONS_MAX / layers)
    return hr_json_fail(q, field, HR_ERROR_UNSUPPORTED, "has too many modules, %zu in each of %" PRId64 " layers",
                        count, layers);
  return HR_OK;
}

static void name_all(hr_named_modules *named)
{
  for (int64_t i = 0; i < named->layers; i++)
    named->linears[i] = ~(hr_linear_set)0;
}

/* The linear layers that a list names. Classes among the targets of a format name the logits, too. */
static hr_status name_modules(const hr_json_reader *q, const char *field, const json_t *list, bool targets,
                              hr_named_modules *named)
{
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *pattern = json_string_value(json_array_get(list, i));
    hr_error problem;
    if (!pattern)
      return hr_json_fail(q, field, HR_ERROR_INVALID, "expected names of modules");
    if (hr_name_modules(pattern, named, &problem) != HR_OK)
      return hr_json_fail(q, field, HR_ERROR_UNSUPPORTED, "%s", problem.message);
    if (is_class(pattern)) {
      name_all(named);
      named->logit = named->logit || targets;
    }
  }
  return HR_OK;
}

/* The lists of modules of a checkpoint: that of modules without a format, then the targets of each format. */
typedef struct module_lists {
  const hr_stored_formats *stored;
  hr_named_modules named[HR_MODULE_LISTS_MAX]; /* linears is NULL without a list */
} module_lists;

static const json_t *list_at(const hr_stored_formats *stored, size_t i)
{
  return i == 0 ? stored->excluded : stored->targets[i - 1];
}

/* The modules that an object lists with the format `index`. */
static hr_status name_listed(const hr_json_reader *q, const hr_stored_formats *stored, size_t index,
                             hr_named_modules *named)
{
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)stored->modules, name, value)
  {
    hr_json_reader module = {.object = value, .input = q->input, .path = q->path, .error = q->error};
    hr_weight_format format;
    hr_error problem;
    HR_TRY(hr_read_modelopt_format(&module, &format));
    if (!hr_same_modelopt_format(&format, &stored->quantization.formats[index - 1]))
      continue;
    if (hr_name_modules(name, named, &problem) != HR_OK)
      return hr_json_fail(q, "quantized_layers", HR_ERROR_UNSUPPORTED, "%s", problem.message);
  }
  return HR_OK;
}

static hr_status read_listed(const hr_json_reader *q, size_t index, int64_t layers, module_lists *lists)
{
  hr_named_modules *named = &lists->named[index];
  named->layers = layers;
  named->linears = calloc((size_t)layers, sizeof *named->linears);
  if (!named->linears)
    return hr_json_fail(q, "quantized_layers", HR_ERROR_OUT_OF_MEMORY, "not enough memory for the list");
  return name_listed(q, lists->stored, index, named);
}

/* Experts and the parts of one matrix have one format each: modules of it with several would be taken for the first. */
static hr_status check_single(const hr_json_reader *q, int64_t layers, const module_lists *lists)
{
  for (size_t i = 1; i <= lists->stored->quantization.format_count; i++) {
    for (size_t k = i + 1; lists->stored->modules && k <= lists->stored->quantization.format_count; k++) {
      for (int64_t layer = 0; layer < layers; layer++) {
        if (lists->named[i].linears[layer] & lists->named[k].linears[layer])
          return hr_json_fail(q, "quantized_layers", HR_ERROR_UNSUPPORTED,
                              "has parts of one linear layer in several formats, in layer %" PRId64, layer);
      }
    }
  }
  return HR_OK;
}

static hr_status read_list(const hr_json_reader *q, size_t index, int64_t layers, module_lists *lists)
{
  const char *field = index == 0 ? "(modules that are not quantized)" : "targets";
  const json_t *list = list_at(lists->stored, index);
  hr_named_modules *named = &lists->named[index];
  if (index > 0 && lists->stored->modules)
    return read_listed(q, index, layers, lists);
  if (!list)
    return HR_OK;
  HR_TRY(check_size(q, field, list, layers));
  named->layers = layers;
  named->linears = calloc((size_t)layers, sizeof *named->linears);
  if (!named->linears)
    return hr_json_fail(q, field, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the list");
  return name_modules(q, field, list, index > 0, named);
}

static hr_status read_lists(const hr_json_reader *q, int64_t layers, module_lists *lists)
{
  for (size_t i = 0; i <= lists->stored->quantization.format_count; i++)
    HR_TRY(read_list(q, i, layers, lists));
  return check_single(q, layers, lists);
}

static void free_lists(module_lists *lists)
{
  for (size_t i = 0; i < HR_MODULE_LISTS_MAX; i++)
    free(lists->named[i].linears);
}

static bool is_named(const hr_named_modules *named, int64_t layer, hr_linear_id id)
{
  return named->linears && (named->linears[layer] >> id & 1);
}

static bool is_expert(hr_linear_id id)
{
  return id == HR_LINEAR_EXPERT_GATE || id == HR_LINEAR_EXPERT_UP || id == HR_LINEAR_EXPERT_DOWN;
}

static uint8_t format_of(const module_lists *lists, int64_t layer, hr_linear_id id)
{
  const hr_stored_formats *stored = lists->stored;
  if ((stored->experts_only && !is_expert(id)) || is_named(&lists->named[0], layer, id))
    return 0;
  if (stored->experts > 0 && is_expert(id))
    return stored->experts;
  for (size_t i = 1; i <= stored->quantization.format_count; i++) {
    if (!lists->named[i].linears || is_named(&lists->named[i], layer, id))
      return (uint8_t)i;
  }
  return 0;
}

static uint8_t format_of_logit(const module_lists *lists)
{
  const hr_stored_formats *stored = lists->stored;
  if (!stored->logit || lists->named[0].logit)
    return 0;
  for (size_t i = 1; i <= stored->quantization.format_count; i++) {
    if (!lists->named[i].linears || lists->named[i].logit)
      return (uint8_t)i;
  }
  return 0;
}

/* ---- groups ---- */

/* Counts the layers that have one linear layer in each format. */
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
  bool found = json_array_size(stored->excluded) > 0 || stored->modules;
  for (size_t i = 0; i < stored->quantization.format_count; i++)
    found = found || stored->targets[i];
  return found;
}

/* One layer after another; of a single group each is added to the group of those with equal formats. */
static hr_status choose_formats(const hr_json_reader *q, const module_lists *lists, hr_model *model)
{
  format_counts counts[HR_LINEAR_COUNT] = {{{0}}};
  int64_t layers = hr_model_layers(model), step = has_patterns(lists->stored) ? 1 : layers;
  bool single = model->group_count == 1;
  hr_model split = *model;
  split.group_count = 0;
  for (int64_t i = 0; i < layers; i += step) {
    hr_layer_group layer = model->groups[0];
    for (int id = 0; id < HR_LINEAR_COUNT; id++) {
      layer.formats[id] = format_of(lists, i, (hr_linear_id)id);
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

static hr_status apply_lists(const hr_json_reader *q, module_lists *lists, hr_model *model)
{
  HR_TRY(read_lists(q, hr_model_layers(model), lists));
  HR_TRY(choose_formats(q, lists, model));
  model->quantization = lists->stored->quantization;
  model->quantization.logit = format_of_logit(lists);
  return HR_OK;
}

static hr_status apply(const hr_json_reader *q, const hr_stored_formats *stored, hr_model *model)
{
  module_lists lists = {.stored = stored};
  HR_TRY(check_kinds(q, model));
  hr_status status = apply_lists(q, &lists, model);
  free_lists(&lists);
  return status;
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

/* Checkpoints of the first versions of bitsandbytes name no method, and ModelOpt's hf_quant_config.json neither. */
static const char *assumed_method(const json_t *object)
{
  bool bitsandbytes =
      json_is_true(json_object_get(object, "load_in_4bit")) || json_is_true(json_object_get(object, "load_in_8bit"));
  const json_t *inner = json_object_get(object, "quantization");
  bool modelopt = json_object_get(object, "quant_algo") || json_object_get(inner, "quant_algo");
  return bitsandbytes ? "bitsandbytes" : modelopt ? "modelopt" : NULL;
}

/* Routed experts of DeepSeek-V4 beside other linear layers in fp8: pairs of E2M1 with an E8M0 scale of 32 inputs
 * (transformers 5.17, FP8Experts). A format that the quantization itself names counts. */
static hr_status read_expert_dtype(hr_config *config, const char *method, hr_stored_formats *stored)
{
  static const char field[] = "expert_dtype";
  const char *dtype;
  if (!hr_json_has(&config->json, field) || strcmp(method, "fp8") != 0 || stored->experts > 0)
    return HR_OK;
  HR_TRY(hr_config_text(config, field, NULL, &dtype));
  if (strcmp(dtype, "fp8") == 0)
    return HR_OK;
  if (strcmp(dtype, "fp4") != 0)
    return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "\"%.40s\" is not supported, only fp4 and fp8",
                        dtype);
  stored->quantization.formats[stored->quantization.format_count++] =
      (hr_weight_format){.name = "mxfp4",
                         .bits = 4,
                         .block_inputs = 32,
                         .block_outputs = 1,
                         .block_bits = 8,
                         .activations = HR_ACTIVATIONS_FP8};
  stored->experts = (uint8_t)stored->quantization.format_count;
  return HR_OK;
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
  HR_TRY(read_expert_dtype(config, method, &stored));
  return apply(&q, &stored, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/config_experts.h"

#include "base/checked.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

/* ---- sizes ---- */

/* A list that says the same of every layer is that size. */
static hr_status read_list(hr_config *config, const char *field, int64_t least, const json_t *list, int64_t *value)
{
  const json_t *first = json_array_get(list, 0);
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (!json_is_integer(first) || !json_equal(json_array_get(list, i), first))
      return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "has layers that differ, which is not supported");
  }
  *value = json_integer_value(first);
  if (!first || *value < least || *value > HR_MODEL_SIZE_MAX)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected sizes of at least %" PRId64, least);
  return HR_OK;
}

/* `fallback` replaces a missing field; 0 if there is none and `least` is not 0 either: then the field is required. */
static hr_status read_size(hr_config *config, const char *field, const char *other, int64_t least, int64_t fallback,
                           int64_t *value)
{
  const char *used = other && !hr_json_has(&config->json, field) && hr_json_has(&config->json, other) ? other : field;
  hr_config_mark(config, field);
  if (other)
    hr_config_mark(config, other);
  const json_t *list = json_object_get(config->json.object, used);
  if (json_is_array(list))
    return read_list(config, used, least, list, value);
  if (fallback < least)
    return hr_json_integer(&config->json, used, least, HR_MODEL_SIZE_MAX, value);
  if (!hr_config_present(config, used) && fallback > 0)
    hr_config_note(config, "%s: is missing, its documented default %" PRId64 " is assumed", field, fallback);
  return hr_json_integer_or(&config->json, used, least, HR_MODEL_SIZE_MAX, fallback, value);
}

hr_status hr_config_size_of_layers(hr_config *config, const char *field, int64_t fallback, int64_t *value)
{
  *value = fallback;
  hr_config_mark(config, field);
  return hr_json_has(&config->json, field) ? read_size(config, field, NULL, 1, 0, value) : HR_OK;
}

static hr_status read_shared(hr_config *config, const hr_expert_fields *fields, hr_ffn_experts *m)
{
  int64_t count = 1, width = m->width;
  if (!fields->shared.field && !fields->shared_width.field)
    return HR_OK;
  if (fields->shared.field)
    HR_TRY(read_size(config, fields->shared.field, fields->shared_alias, 0, fields->shared.value, &count));
  if (fields->shared_width.field)
    HR_TRY(read_size(config, fields->shared_width.field, NULL, 0, fields->shared_width.value, &width));
  if (width > 0 && count > HR_MODEL_SIZE_MAX / width)
    return hr_json_fail(&config->json, fields->shared.field, HR_ERROR_INVALID, "%" PRId64 " is too large", count);
  m->shared_width = count * width;
  m->shared_gate = fields->shared_gate && m->shared_width > 0;
  m->shared_bias = fields->shared_bias.value;
  if (fields->shared_bias.field)
    HR_TRY(hr_config_flag(config, fields->shared_bias.field, fields->shared_bias.value, &m->shared_bias));
  m->shared_bias = m->shared_bias && m->shared_width > 0;
  return HR_OK;
}

/* Groups of experts of which each token uses some; one group is no limit. */
static hr_status read_groups(hr_config *config, hr_ffn_experts *m)
{
  HR_TRY(read_size(config, "n_group", NULL, 0, 0, &m->groups));
  HR_TRY(read_size(config, "topk_group", NULL, 0, 0, &m->active_groups));
  if (m->groups <= 1)
    m->groups = m->active_groups = 0;
  else if (m->active_groups == 0)
    m->active_groups = 1;
  return HR_OK;
}

static void mark_if_named(hr_config *config, const char *field)
{
  if (field)
    hr_config_mark(config, field);
}

/* What a configuration says of experts that it does not have. */
static void mark_unused(hr_config *config, const hr_expert_fields *fields, const char *active, const char *width)
{
  const char *const names[] = {active,
                               fields->active_alias,
                               width,
                               fields->shared.field,
                               fields->shared_alias,
                               fields->shared_width.field,
                               fields->shared_bias.field,
                               fields->step.field,
                               fields->dense_layers};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    mark_if_named(config, names[i]);
}

hr_status hr_config_experts(hr_config *config, const hr_expert_fields *fields, hr_model *model)
{
  hr_ffn_experts *m = &model->groups[0].experts;
  const char *active = fields->active.field ? fields->active.field : "num_experts_per_tok";
  const char *width = fields->width.field ? fields->width.field : "moe_intermediate_size";
  HR_TRY(read_size(config, fields->count.field, fields->count_alias, fields->may_be_none ? 0 : 1, fields->count.value,
                   &m->experts));
  if (m->experts == 0) {
    mark_unused(config, fields, active, width);
    return HR_OK;
  }
  HR_TRY(read_size(config, active, fields->active_alias, 1, fields->active.value, &m->active));
  if (m->active > m->experts)
    return hr_json_fail(&config->json, active, HR_ERROR_INVALID, "%" PRId64 " is more than %s, %" PRId64, m->active,
                        fields->count.field, m->experts);
  HR_TRY(read_size(config, width, NULL, 1, fields->width.value, &m->width));
  HR_TRY(read_shared(config, fields, m));
  if (fields->grouped)
    HR_TRY(read_groups(config, m));
  m->gated = !fields->plain;
  m->bias = fields->bias;
  m->router_bias = fields->router_bias;
  m->output_norm = fields->output_norm;
  return HR_OK;
}

/* ---- layers ---- */

bool hr_layer_set_has(const hr_layer_set *set, int64_t index)
{
  return set->bits[index / 64] >> (index % 64) & 1;
}

void hr_layer_set_put(hr_layer_set *set, int64_t index, bool is_in)
{
  uint64_t bit = (uint64_t)1 << (index % 64);
  if (is_in)
    set->bits[index / 64] |= bit;
  else
    set->bits[index / 64] &= ~bit;
}

hr_status hr_read_layer_flags(const hr_json_reader *reader, const char *field, int64_t layers, hr_layer_set *set)
{
  const json_t *list = json_object_get(reader->object, field);
  if (!hr_json_has(reader, field))
    return HR_OK;
  if (!json_is_array(list) || (int64_t)json_array_size(list) != layers)
    return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected a list with 0 or 1 for each layer");
  for (int64_t i = 0; i < layers; i++) {
    const json_t *flag = json_array_get(list, (size_t)i);
    int64_t value = json_integer_value(flag);
    if (!json_is_integer(flag) || value < 0 || value > 1)
      return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected a list with 0 or 1 for each layer");
    hr_layer_set_put(set, i, value == 1);
  }
  return HR_OK;
}

bool hr_experts_everywhere(const hr_expert_fields *fields)
{
  return !fields->first.field && fields->first.value == 0 && !fields->step.field && !fields->kinds &&
         !fields->dense_layers && !fields->expert_layers;
}

/* Puts the layers of a list of numbers into the set, or takes them out. */
static hr_status read_numbers(hr_config *config, const char *field, int64_t layers, bool is_in, hr_layer_set *set)
{
  const json_t *list = json_object_get(config->json.object, field);
  if (!json_is_array(list))
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a list of layers");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *number = json_array_get(list, i);
    int64_t index = json_integer_value(number);
    if (!json_is_integer(number) || index < 0 || index >= layers) {
      char found[64];
      hr_json_found(number, found, sizeof found);
      return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected layers from 0 to %" PRId64 ", found %s",
                          layers - 1, found);
    }
    hr_layer_set_put(set, index, is_in);
  }
  return HR_OK;
}

static hr_status read_kinds(hr_config *config, const char *field, int64_t layers, hr_layer_set *set)
{
  const json_t *list = json_object_get(config->json.object, field);
  if (!json_is_array(list) || (int64_t)json_array_size(list) != layers)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "expected a list of %" PRId64 " kinds, one per layer",
                        layers);
  for (int64_t i = 0; i < layers; i++) {
    const json_t *kind = json_array_get(list, (size_t)i);
    const char *name = json_is_string(kind) ? json_string_value(kind) : "";
    bool sparse = strcmp(name, "sparse") == 0;
    if (!sparse && strcmp(name, "dense") != 0) {
      char found[64];
      hr_json_found(kind, found, sizeof found);
      return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED,
                          "has a layer of type %s; only dense and sparse are supported", found);
    }
    hr_layer_set_put(set, i, sparse);
  }
  return HR_OK;
}

static bool given(hr_config *config, const char *field)
{
  mark_if_named(config, field);
  return field && hr_json_has(&config->json, field);
}

hr_status hr_config_expert_layers(hr_config *config, const hr_expert_fields *fields, int64_t layers, hr_layer_set *set)
{
  int64_t first = fields->first.value, last = -1, step = 1;
  bool by_kinds = given(config, fields->kinds), by_numbers = given(config, fields->expert_layers);
  if (layers > HR_DIFFERING_LAYERS_MAX)
    return hr_fail(config->json.error, HR_ERROR_INVALID, "%s: %" PRId64 " layers of several kinds are more than %d",
                   config->json.input, layers, HR_DIFFERING_LAYERS_MAX);
  if (fields->first.field)
    HR_TRY(read_size(config, fields->first.field, NULL, 0, fields->first.value, &first));
  if (fields->last) {
    hr_config_mark(config, fields->last);
    HR_TRY(hr_json_integer_or(&config->json, fields->last, -1, INT64_MAX, -1, &last));
  }
  memset(set, 0, sizeof *set);
  mark_if_named(config, fields->step.field); /* beside a list it says nothing */
  if (by_kinds)
    return read_kinds(config, fields->kinds, layers, set);
  if (by_numbers)
    return read_numbers(config, fields->expert_layers, layers, true, set);
  if (fields->step.field)
    HR_TRY(read_size(config, fields->step.field, NULL, 1, hr_max64(fields->step.value, 1), &step));
  for (int64_t i = 0; i < layers; i++)
    hr_layer_set_put(set, i,
                     i >= first && (last < 0 || i <= last) && (fields->step_from_first ? i : i + 1) % step == 0);
  return given(config, fields->dense_layers) ? read_numbers(config, fields->dense_layers, layers, false, set) : HR_OK;
}

void hr_change_to_experts(const void *experts, int64_t index, hr_layer_group *layer)
{
  if (hr_layer_set_has(experts, index))
    layer->dense = (hr_ffn_dense){.width = 0};
  else
    layer->experts = (hr_ffn_experts){.experts = 0};
}

hr_status hr_config_apply(hr_config *config, const hr_family *family, const hr_layer_pattern *pattern,
                          hr_status (*apply)(hr_config *, const hr_layer_pattern *, hr_model *), hr_model *model)
{
  hr_layer_pattern layers = *pattern;
  hr_layer_set experts;
  if (model->groups[0].experts.experts > 0 && !hr_experts_everywhere(&family->experts)) {
    HR_TRY(hr_config_expert_layers(config, &family->experts, pattern->layers, &experts));
    layers.change = hr_change_to_experts;
    layers.change_context = &experts;
  }
  return apply(config, &layers, model);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/config_scan.h"

#include "base/checked.h"
#include "model/config/config_experts.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

/* "auto" counts as missing. */
static bool is_given(hr_config *config, const char *field)
{
  const json_t *value = json_object_get(config->json.object, field);
  const char *text = json_string_value(value);
  hr_config_mark(config, field);
  return value && !json_is_null(value) && !(text && strcmp(text, "auto") == 0);
}

/* A missing field is `fallback`; a constant without a field is its value. */
static hr_status read_size(hr_config *config, const hr_size_field *field, int64_t fallback, int64_t *value)
{
  *value = field->value > 0 ? field->value : fallback;
  if (!field->field)
    return HR_OK;
  if (is_given(config, field->field))
    return hr_config_size(config, field->field, NULL, value);
  return field->value > 0 ? hr_config_size_or(config, field->field, field->value, value) : HR_OK;
}

static hr_status read_choice(hr_config *config, const hr_choice_field *choice, bool *value)
{
  *value = choice->value;
  return choice->field ? hr_config_flag(config, choice->field, choice->value, value) : HR_OK;
}

static bool config_is_null(hr_config *config, const char *field)
{
  hr_config_mark(config, field);
  return json_is_null(json_object_get(config->json.object, field));
}

/* Channels of all heads: a field of their own, or a multiple of the hidden size; 0 if there is neither. */
static hr_status read_inner(hr_config *config, const hr_scan_fields *fields, const hr_model *model, int64_t *inner)
{
  int64_t factor = 0;
  *inner = 0;
  HR_TRY(read_size(config, &fields->expand, 0, &factor));
  if (factor > HR_MODEL_SIZE_MAX / model->hidden)
    return hr_json_fail(&config->json, fields->expand.field, HR_ERROR_INVALID, "%" PRId64 " is too large", factor);
  if (fields->inner.field && config_is_null(config, fields->inner.field)) {
    *inner = factor * model->hidden;
    return HR_OK;
  }
  return read_size(config, &fields->inner, factor * model->hidden, inner);
}

static hr_status read_heads(hr_config *config, const hr_scan_fields *fields, int64_t inner, hr_mixer_scan *m)
{
  if (!fields->heads.field) { /* a head for each channel */
    m->heads = inner;
    m->head_dim = m->groups = 1;
    return HR_OK;
  }
  HR_TRY(read_size(config, &fields->heads, 1, &m->heads));
  HR_TRY(read_size(config, &fields->groups, 1, &m->groups));
  HR_TRY(read_size(config, &fields->head_dim, hr_max64(inner / m->heads, 1), &m->head_dim));
  if (inner > 0 && (m->head_dim > inner / m->heads || m->heads * m->head_dim != inner))
    return hr_json_fail(&config->json, fields->heads.field, HR_ERROR_INVALID,
                        "%" PRId64 " heads of %" PRId64 " channels are not the mixer's %" PRId64 " channels", m->heads,
                        m->head_dim, inner);
  return HR_OK;
}

hr_status hr_config_scan(hr_config *config, const hr_scan_fields *fields, hr_model *model)
{
  hr_mixer_scan *m = &model->groups[0].scan;
  int64_t inner;
  m->recurrence = fields->recurrence;
  HR_TRY(read_inner(config, fields, model, &inner));
  HR_TRY(read_heads(config, fields, inner, m));
  HR_TRY(read_size(config, &fields->state, 0, &m->state));
  HR_TRY(read_size(config, &fields->kernel, 0, &m->kernel));
  HR_TRY(read_size(config, &fields->chunk, 0, &m->chunk));
  if (fields->recurrence == HR_RECURRENCE_SELECTIVE)
    HR_TRY(read_size(config, &fields->rank, hr_ceil_div(model->hidden, 16), &m->rank));
  HR_TRY(read_choice(config, &fields->bias, &m->in_bias));
  m->out_bias = m->in_bias;
  if (fields->out_bias.field)
    HR_TRY(read_choice(config, &fields->out_bias, &m->out_bias));
  HR_TRY(read_choice(config, &fields->conv_bias, &m->conv_bias));
  HR_TRY(read_choice(config, &fields->norm, &m->norm));
  m->norm_weight = m->norm && !fields->norm_without_weight;
  return HR_OK;
}

/* ---- layers ---- */

hr_layer_group hr_without_scan(const hr_layer_group *layer)
{
  hr_layer_group other = *layer;
  other.scan = (hr_mixer_scan){.heads = 0};
  return other;
}

hr_layer_group hr_without_attention(const hr_layer_group *layer)
{
  hr_layer_group other = *layer;
  other.attention = (hr_mixer_attention){.q_heads = 0};
  return other;
}

hr_layer_pattern hr_scan_pattern(hr_config *config, const hr_model *model, const char *name)
{
  const char *field = hr_json_has(&config->json, "layer_types") ? "layer_types" : "layers_block_type";
  hr_layer_group attention = hr_without_scan(&model->groups[0]), scan = hr_without_attention(&model->groups[0]);
  hr_config_mark(config, "layer_types");
  return (hr_layer_pattern){.layers = model->groups[0].count,
                            .field = field,
                            .type_count = 4,
                            .types = {[HR_TYPE_ATTENTION] = {"full_attention", attention},
                                      [HR_TYPE_SCAN] = {"linear_attention", scan},
                                      {"attention", attention},
                                      {name ? name : "mamba", scan}}};
}

size_t hr_scan_unless_in_set(const void *attention_layers, int64_t index)
{
  return hr_layer_set_has(attention_layers, index) ? HR_TYPE_ATTENTION : HR_TYPE_SCAN;
}

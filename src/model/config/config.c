/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/config.h"

#include "base/names.h"
#include "base/text.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const hr_config_names hr_config_standard_names = {"num_hidden_layers", "hidden_size", "num_attention_heads",
                                                  "max_position_embeddings"};

bool hr_config_was_read(const hr_config *config, const char *field)
{
  for (size_t i = 0; i < config->read_count; i++) {
    if (strcmp(config->read[i], field) == 0)
      return true;
  }
  return false;
}

void hr_config_mark(hr_config *config, const char *field)
{
  if (hr_config_was_read(config, field))
    return;
  if (config->read_count < HR_CONFIG_FIELDS_MAX)
    config->read[config->read_count++] = field;
  else
    config->marks_lost = true;
}

static void note(const hr_config *config, hr_note_kind kind, const char *format, va_list arguments)
{
  char text[400], message[512];
  hr_write_text_v(text, sizeof text, format, arguments);
  snprintf(message, sizeof message, "%s: %s", config->json.input, text);
  hr_replace_unprintable(message);
  config->note(config->note_context, kind, message);
}

void hr_config_note(const hr_config *config, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  if (config->note)
    note(config, HR_NOTE_DETAIL, format, arguments);
  va_end(arguments);
}

void hr_config_note_left_out(const hr_config *config, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  if (config->note)
    note(config, HR_NOTE_LEFT_OUT, format, arguments);
  va_end(arguments);
}

bool hr_config_present(const hr_config *config, const char *field)
{
  return json_object_get(config->json.object, field) != NULL;
}

hr_status hr_config_size(hr_config *config, const char *field, const char *other, int64_t *value)
{
  hr_config_mark(config, field);
  if (other)
    hr_config_mark(config, other);
  const char *used = other && !hr_json_has(&config->json, field) && hr_json_has(&config->json, other) ? other : field;
  return hr_json_integer(&config->json, used, 1, HR_MODEL_SIZE_MAX, value);
}

hr_status hr_config_size_or(hr_config *config, const char *field, int64_t fallback, int64_t *value)
{
  if (!hr_json_has(&config->json, field))
    hr_config_note(config, "%s: is missing, its documented default %" PRId64 " is assumed", field, fallback);
  return hr_config_size_derived(config, field, fallback, value);
}

hr_status hr_config_size_derived(hr_config *config, const char *field, int64_t derived, int64_t *value)
{
  hr_config_mark(config, field);
  return hr_json_integer_or(&config->json, field, 1, HR_MODEL_SIZE_MAX, derived, value);
}

hr_status hr_config_flag(hr_config *config, const char *field, bool fallback, bool *value)
{
  hr_config_mark(config, field);
  return hr_json_boolean_or(&config->json, field, fallback, value);
}

hr_status hr_config_expect(hr_config *config, const char *field, bool covered)
{
  bool value;
  HR_TRY(hr_config_flag(config, field, covered, &value));
  if (value == covered)
    return HR_OK;
  return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "only %s is supported", covered ? "true" : "false");
}

hr_status hr_config_text(hr_config *config, const char *field, const char *fallback, const char **value)
{
  hr_config_mark(config, field);
  return hr_json_string_or(&config->json, field, fallback, value);
}

/* The base class's name of a field, or NULL if the family has the same. */
static const char *other_name(const char *own, const char *standard)
{
  return strcmp(own, standard) == 0 ? NULL : standard;
}

hr_status hr_config_sizes(hr_config *config, const hr_config_names *names, int64_t default_positions, hr_model *model)
{
  const hr_config_names *standard = &hr_config_standard_names;
  HR_TRY(hr_config_size(config, names->layers, other_name(names->layers, standard->layers), &model->groups[0].count));
  HR_TRY(hr_config_size(config, names->hidden, other_name(names->hidden, standard->hidden), &model->hidden));
  HR_TRY(hr_config_size(config, names->heads, other_name(names->heads, standard->heads),
                        &model->groups[0].attention.q_heads));
  HR_TRY(hr_config_size(config, "vocab_size", NULL, &model->vocabulary));
  const char *positions = names->positions;
  if (!hr_json_has(&config->json, positions) && hr_json_has(&config->json, standard->positions))
    positions = standard->positions;
  return hr_config_size_or(config, positions, default_positions, &model->max_positions);
}

/* The name that the configuration uses for a size, for messages. */
static const char *name_used(const hr_config *config, const char *own, const char *standard)
{
  return hr_json_has(&config->json, own) ? own : standard;
}

hr_status hr_config_kv_heads(hr_config *config, const hr_config_names *names, const char *field, int64_t fallback,
                             hr_model *model)
{
  int64_t kv_heads = model->groups[0].attention.q_heads;
  if (field && fallback > 0 && !hr_config_present(config, field))
    HR_TRY(hr_config_size_or(config, field, fallback, &kv_heads));
  else if (field)
    HR_TRY(hr_config_size_derived(config, field, model->groups[0].attention.q_heads, &kv_heads));
  if (model->groups[0].attention.q_heads % kv_heads != 0)
    return hr_json_fail(&config->json, field, HR_ERROR_INVALID, "%" PRId64 " does not divide %s, %" PRId64, kv_heads,
                        name_used(config, names->heads, hr_config_standard_names.heads),
                        model->groups[0].attention.q_heads);
  model->groups[0].attention.k_heads = model->groups[0].attention.v_heads = kv_heads;
  return HR_OK;
}

hr_status hr_config_head_dim(hr_config *config, const hr_config_names *names, const char *field, int64_t fallback,
                             hr_model *model)
{
  const hr_config_names *standard = &hr_config_standard_names;
  int64_t head_dim = model->hidden / model->groups[0].attention.q_heads;
  if (field && fallback > 0 && !hr_config_present(config, field))
    HR_TRY(hr_config_size_or(config, field, fallback, &head_dim));
  else if (field && hr_json_has(&config->json, field))
    HR_TRY(hr_config_size(config, field, NULL, &head_dim));
  else if (model->hidden % model->groups[0].attention.q_heads != 0)
    return hr_json_fail(&config->json, name_used(config, names->hidden, standard->hidden), HR_ERROR_INVALID,
                        "%" PRId64 " is not a multiple of %s, %" PRId64, model->hidden,
                        name_used(config, names->heads, standard->heads), model->groups[0].attention.q_heads);
  if (field)
    hr_config_mark(config, field);
  model->groups[0].attention.qk_dim = model->groups[0].attention.v_dim = head_dim;
  return HR_OK;
}

/* Newer configurations keep the rotary parameters in an object. */
static hr_json_reader rotary_parameters(hr_config *config)
{
  hr_config_mark(config, "rope_parameters");
  hr_json_reader inner = config->json;
  inner.object = json_object_get(config->json.object, "rope_parameters");
  inner.path = "rope_parameters.";
  return inner;
}

hr_status hr_config_rotary(hr_config *config, const char *field, double fallback, hr_model *model)
{
  double fraction = 1.0;
  if (field) {
    hr_json_reader inner = rotary_parameters(config);
    bool is_inside = !hr_json_has(&config->json, field) && hr_json_has(&inner, "partial_rotary_factor");
    hr_config_mark(config, field);
    if (is_inside)
      HR_TRY(hr_json_number(&inner, "partial_rotary_factor", 0.0, 1.0, &fraction));
    else
      HR_TRY(hr_json_number_or(&config->json, field, 0.0, 1.0, fallback, &fraction));
  }
  model->positions = HR_POSITIONS_ROTARY;
  model->groups[0].attention.rotary_dim = (int64_t)((double)model->groups[0].attention.qk_dim * fraction);
  return HR_OK;
}

void hr_config_learned(hr_model *model, int64_t extra)
{
  model->positions = HR_POSITIONS_LEARNED;
  model->position_rows = model->max_positions + extra;
}

hr_status hr_config_mlp(hr_config *config, const char *width_field, int64_t derived, const char *activation_field,
                        const char *activation_default, hr_model *model)
{
  if (derived > 0)
    HR_TRY(hr_config_size_derived(config, width_field, derived, &model->groups[0].dense.width));
  else
    HR_TRY(hr_config_size(config, width_field, NULL, &model->groups[0].dense.width));
  return hr_config_activation(config, activation_field, activation_default, model);
}

hr_status hr_config_activation(hr_config *config, const char *field, const char *fallback, hr_model *model)
{
  const char *activation;
  HR_TRY(hr_config_text(config, field, fallback, &activation));
  hr_copy_text(model->activation, sizeof model->activation, activation);
  return HR_OK;
}

void hr_config_rms_norm(hr_model *model)
{
  model->norm = HR_NORM_RMS;
  model->norm_bias = false;
}

void hr_config_attention_bias(hr_model *model, bool qkv, bool output)
{
  model->groups[0].attention.q_bias = model->groups[0].attention.k_bias = model->groups[0].attention.v_bias = qkv;
  model->groups[0].attention.output_bias = output;
}

hr_status hr_config_tied(hr_config *config, bool fallback, hr_model *model)
{
  const json_t *outer = json_object_get(config->outer, "tie_word_embeddings");
  if (json_is_boolean(outer)) /* counts where the inner configuration has none, as in published checkpoints */
    fallback = json_is_true(outer);
  return hr_config_flag(config, "tie_word_embeddings", fallback, &model->tied_embeddings);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/short_form_offer.h"

#include "model/config/families.h"

#include <headroom/experimental/change.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A field that is not read may change the shape. */
static void see_note(void *left_out, hr_note_kind kind, const char *text)
{
  (void)text;
  if (kind == HR_NOTE_LEFT_OUT)
    *(bool *)left_out = true;
}

static bool ends_with(const char *text, const char *end)
{
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* A part of each head is rotated: the field or one of the rotary embedding's own object says so. */
static bool rotates_a_part(const hr_config *config)
{
  static const char part[] = "partial_rotary_factor";
  const json_t *object = config->json.object;
  return json_object_get(object, part) || json_object_get(json_object_get(object, "rope_parameters"), part) ||
         json_object_get(json_object_get(object, "rope_scaling"), part);
}

/* Fields that say "RMS norms", "SwiGLU" and "logits" to whoever reads a configuration of one language model. */
static bool looks_like_llama(const hr_config *config)
{
  const json_t *object = config->json.object;
  const char *activation = json_string_value(json_object_get(object, "hidden_act"));
  const char *class = json_string_value(json_array_get(json_object_get(object, "architectures"), 0));
  bool silu = activation && (strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0);
  return silu && (!class || ends_with(class, "ForCausalLM")) && !config->outer && !rotates_a_part(config) &&
         hr_config_present(config, "rms_norm_eps") && !hr_json_has(&config->json, "quantization_config");
}

static bool read_as_llama(const hr_config *config, hr_model *model)
{
  hr_error error;
  bool left_out = false;
  hr_config own = {.json = config->json, .note = see_note, .note_context = &left_out};
  own.json.error = &error;
  const hr_family *llama = hr_family_of_type("llama");
  hr_config_mark(&own, "model_type");
  hr_config_mark(&own, "architectures");
  if (!llama || hr_read_decoder(&own, llama, model) != HR_OK || own.windows || hr_refuse_by_field(&own) != HR_OK ||
      hr_model_check(model, &error) != HR_OK)
    return false;
  hr_config_note_unknown_fields(&own);
  return !left_out;
}

/* Fields that the short form lacks have the values of its model. */
static void write_form(const hr_model *model, char *text, size_t size)
{
  const hr_layer_group *layer = &model->groups[0];
  const hr_mixer_attention *attention = &layer->attention;
  const struct {
    const char *name;
    int64_t value, usual;
  } more[] = {{"head_dim", attention->qk_dim, model->hidden / attention->q_heads},
              {"qkv_bias", attention->q_bias, 0},
              {"o_bias", attention->output_bias, 0},
              {"mlp_bias", layer->dense.bias, 0}};
  int used = snprintf(text, size,
                      "{\"h\":%" PRId64 ",\"a\":%" PRId64 ",\"L\":%" PRId64 ",\"v\":%" PRId64
                      ",\"mlp\":\"swiglu\",\"d_ff\":%" PRId64 ",\"kv_heads\":%" PRId64
                      ",\"norm\":\"rms\",\"final_norm\":true,\"positions\":\"rotary\",\"tied\":%s,\"bias\":false",
                      model->hidden, attention->q_heads, layer->count, model->vocabulary, layer->dense.width,
                      attention->k_heads, model->tied_embeddings ? "true" : "false");
  for (size_t i = 0; i < sizeof more / sizeof *more && used > 0 && (size_t)used < size; i++) {
    if (more[i].value != more[i].usual)
      used += i == 0 ? snprintf(text + used, size - (size_t)used, ",\"%s\":%" PRId64, more[i].name, more[i].value)
                     : snprintf(text + used, size - (size_t)used, ",\"%s\":true", more[i].name);
  }
  if (used > 0 && (size_t)used < size)
    snprintf(text + used, size - (size_t)used, "}");
}

static bool read_form(const char *text, hr_model *model)
{
  hr_error error;
  json_t *root;
  if (hr_json_parse(text, strlen(text), "short form", &root, &error) != HR_OK)
    return false;
  hr_config config = {.json = {.object = root, .input = "short form", .path = "", .error = &error}};
  bool read = hr_read_short_form(&config, model) == HR_OK;
  json_decref(root);
  return read;
}

/* Reads the text again: what the short form cannot say is found here. */
static bool says_all(const hr_model *model, const char *text)
{
  hr_error error;
  hr_model again = hr_model_default();
  hr_parameters have, want;
  hr_workload workload = hr_workload_default(model);
  return read_form(text, &again) && hr_model_parameters(model, &want, &error) == HR_OK &&
         hr_model_parameters(&again, &have, &error) == HR_OK && have.total == want.total &&
         hr_changes_between(model, &workload, &again, &workload) == 0;
}

bool hr_offer_short_form(const hr_config *config, char *text, size_t size)
{
  hr_model model = hr_model_default();
  text[0] = '\0';
  if (!looks_like_llama(config) || !read_as_llama(config, &model))
    return false;
  write_form(&model, text, size);
  if (says_all(&model, text))
    return true;
  text[0] = '\0';
  return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Models of several kinds of input keep the language model's configuration in an object of its own. */
#include "model/config/families.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct wrapper_row {
  const char *model_type, *text_type;
} wrappers[] = {
#define HR_WRAPPER(type, text) {type, text},
#include "model/config/wrappers.inc"
#undef HR_WRAPPER
};

/* The inner object, the one that transformers uses first, and what precedes the names of its fields in messages. */
static const struct inner_row {
  const char *field, *path;
} inner_fields[] = {{"text_config", "text_config."},
                    {"llm_config", "llm_config."},
                    {"language_config", "language_config."},
                    {"thinker_config", "thinker_config."}};

const char *hr_wrapped_type(const char *wrapper)
{
  for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
    if (strcmp(wrappers[i].model_type, wrapper) == 0)
      return wrappers[i].text_type;
  }
  return NULL;
}

static const struct inner_row *find_inner(const json_t *object)
{
  for (size_t i = 0; i < sizeof inner_fields / sizeof *inner_fields; i++) {
    if (json_is_object(json_object_get(object, inner_fields[i].field)))
      return &inner_fields[i];
  }
  return NULL;
}

/* Quantization is of the language model, too. */
static bool is_part(const char *name, const json_t *value)
{
  size_t length = strlen(name);
  return length > 7 && strcmp(name + length - 7, "_config") == 0 && json_is_object(value) &&
         strcmp(name, "quantization_config") != 0;
}

bool hr_is_left_out(const hr_config *config, const char *name, const json_t *value)
{
  return config->parts_left_out && is_part(name, value);
}

/* "; vision_config, audio_config are left out": the objects other than `inner` that configure a part of the model. */
static void list_left_out(const json_t *outer, const char *inner, char *text, size_t size)
{
  char list[160];
  size_t used = 0;
  const char *name;
  json_t *value;
  list[0] = '\0';
  json_object_foreach((json_t *)(uintptr_t)outer, name, value)
  {
    if (is_part(name, value) && strcmp(name, inner) != 0 && used + strlen(name) + 2 < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", name);
  }
  snprintf(text, size, "%s%s%s", used > 0 ? "; " : "", list,
           used == 0                   ? ""
           : strchr(list, ',') != NULL ? " are left out"
                                       : " is left out");
}

void hr_leave_other_parts_out(hr_config *config, const char *model_type)
{
  char others[192];
  list_left_out(config->json.object, "", others, sizeof others);
  hr_config_note_left_out(config, "only the language model of \"%.60s\" is read%s", model_type, others);
  config->parts_left_out = true;
}

/* Gives the inner object the base class's sizes where it has none. */
static hr_status add_sizes(hr_config *config, const hr_class_sizes *sizes)
{
  const struct {
    const char *field;
    int64_t value;
  } fields[] = {{"num_hidden_layers", sizes->layers},
                {"hidden_size", sizes->hidden},
                {"num_attention_heads", sizes->heads},
                {"intermediate_size", sizes->mlp_width},
                {"vocab_size", sizes->vocabulary}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (fields[i].value == 0 || hr_json_has(&config->json, fields[i].field))
      continue;
    json_t *object = (json_t *)(uintptr_t)config->json.object; /* its root was parsed for this reading alone */
    if (json_object_set_new(object, fields[i].field, json_integer(fields[i].value)) != 0)
      return hr_fail(config->json.error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory to read it",
                     config->json.input);
    hr_config_note(config, "%s%s: is missing, its documented default %" PRId64 " is assumed", config->json.path,
                   fields[i].field, fields[i].value);
  }
  return HR_OK;
}

hr_status hr_complete_text_part(hr_config *config, const hr_family *family)
{
  return config->outer ? add_sizes(config, &family->sizes) : HR_OK;
}

hr_status hr_take_text_part(hr_config *config, const char **wrapper)
{
  *wrapper = NULL;
  const json_t *outer = config->json.object;
  const struct inner_row *inner = find_inner(outer);
  if (!inner)
    return HR_OK;
  HR_TRY(hr_config_text(config, "model_type", "", wrapper));
  config->outer = outer;
  config->json.object = json_object_get(outer, inner->field);
  const struct inner_row *deeper = find_inner(config->json.object); /* thinker_config has a text_config */
  if (deeper) {
    config->json.object = json_object_get(config->json.object, deeper->field);
    inner = deeper;
  }
  config->json.path = inner->path;
  char others[192];
  list_left_out(outer, inner->field, others, sizeof others);
  hr_config_note_left_out(config, "only the language model in %s is read%s", inner->field, others);
  return HR_OK;
}

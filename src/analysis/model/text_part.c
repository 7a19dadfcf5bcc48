/* SPDX-License-Identifier: Apache-2.0 */
/* Models of several kinds of input keep the language model's configuration in an object of its own. */
#include "analysis/model/families.h"

#include <stdio.h>
#include <string.h>

static const struct wrapper_row {
  const char *model_type, *text_type;
} wrappers[] = {
#define HR_WRAPPER(type, text) {type, text},
#include "analysis/model/wrappers.inc"
#undef HR_WRAPPER
};

/* The names of the inner object, the one that transformers uses first. */
static const char *const inner_fields[] = {"text_config", "llm_config", "language_config", "thinker_config"};

const char *hr_wrapped_type(const char *wrapper)
{
  for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
    if (strcmp(wrappers[i].model_type, wrapper) == 0)
      return wrappers[i].text_type;
  }
  return NULL;
}

static const char *inner_field(const json_t *object)
{
  for (size_t i = 0; i < sizeof inner_fields / sizeof *inner_fields; i++) {
    if (json_is_object(json_object_get(object, inner_fields[i])))
      return inner_fields[i];
  }
  return NULL;
}

/* "vision_config, audio_config": the other objects that configure a part of the model. */
static void list_left_out(const json_t *outer, const char *inner, char *list, size_t size)
{
  size_t used = 0;
  const char *name;
  json_t *value;
  list[0] = '\0';
  json_object_foreach((json_t *)(uintptr_t)outer, name, value)
  {
    size_t length = strlen(name);
    bool is_part = length > 7 && strcmp(name + length - 7, "_config") == 0 && json_is_object(value);
    if (is_part && strcmp(name, inner) != 0 && strcmp(name, "quantization_config") != 0 && used + length + 2 < size)
      used += (size_t)snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", name);
  }
}

hr_status hr_take_text_part(hr_config *config, const char **wrapper)
{
  *wrapper = NULL;
  const json_t *outer = config->json.object;
  const char *field = inner_field(outer);
  if (!field)
    return HR_OK;
  HR_TRY(hr_config_text(config, "model_type", "", wrapper));
  config->outer = outer;
  config->json.object = json_object_get(outer, field);
  config->json.path = field;
  const char *deeper = inner_field(config->json.object); /* thinker_config has a text_config */
  if (deeper) {
    config->json.object = json_object_get(config->json.object, deeper);
    field = deeper;
  }
  static const char *const paths[] = {"text_config.", "llm_config.", "language_config.", "thinker_config."};
  for (size_t i = 0; i < sizeof inner_fields / sizeof *inner_fields; i++) {
    if (strcmp(inner_fields[i], field) == 0)
      config->json.path = paths[i];
  }
  char others[160];
  list_left_out(outer, field, others, sizeof others);
  hr_config_note_left_out(config, "only the language model in %s is read%s%s%s", field, others[0] ? "; " : "", others,
                          others[0] ? (strchr(others, ',') ? " are left out" : " is left out") : "");
  return HR_OK;
}

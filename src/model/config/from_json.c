/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a config.json: finds the family, refuses models that are not covered, reads the fields, checks the result. */
#include "base/names.h"
#include "model/config/config_layers.h"
#include "model/config/families.h"
#include "model/config/numerics.h"
#include "model/config/quantization/config_quantization.h"
#include "model/layers/parameters.h"

#include <string.h>

/* A name outside of a list would be taken for no name, and a classifier for a language model. */
static hr_status check_architectures(const hr_json_reader *json)
{
  const json_t *value = json_object_get(json->object, "architectures"), *first = json_array_get(value, 0);
  if (!value || json_is_null(value) || (json_is_array(value) && (!first || json_is_string(first))))
    return HR_OK;
  return hr_json_fail(json, "architectures", HR_ERROR_INVALID, "expected a list of classes");
}

/* The first of "architectures", NULL if there is none. */
static const char *first_architecture(const hr_config *config)
{
  return json_string_value(json_array_get(json_object_get(config->json.object, "architectures"), 0));
}

/* The family of a model_type, or of the language model that it wraps in the same object. */
static const hr_family *family_of_type(hr_config *config, const char *model_type)
{
  const hr_family *family = hr_family_of_type(model_type);
  const char *text_type = hr_wrapped_type(model_type);
  if (family || !text_type || config->outer)
    return family;
  family = hr_family_of_type(text_type);
  if (family)
    hr_leave_other_parts_out(config, model_type);
  return family;
}

/* The class that the weights belong to: that of the outer configuration, if it names one. An outer "…ChatModel" says
 * nothing about the head of the language model in it. */
static const char *architecture_of(const hr_config *config)
{
  const char *outer = json_string_value(json_array_get(json_object_get(config->outer, "architectures"), 0));
  size_t length = outer ? strlen(outer) : 0;
  bool is_model = length >= 5 && strcmp(outer + length - 5, "Model") == 0;
  return outer && !is_model ? outer : first_architecture(config);
}

static hr_status find_by_architecture(hr_config *config, const hr_family **family)
{
  const char *architecture = first_architecture(config);
  if (!architecture)
    return hr_json_fail(&config->json, "model_type", HR_ERROR_INVALID,
                        "is missing; the short form has \"h\" and \"a\" instead");
  *family = hr_family_of_architecture(architecture);
  if (!*family)
    return hr_refuse_model_type(config, "architectures", architecture);
  hr_config_note(config, "model_type: is missing, \"%s\" is assumed from architectures", (*family)->model_type);
  return HR_OK;
}

/* `wrapper`: the model_type of the outer configuration, NULL if there is none. */
static hr_status find_family(hr_config *config, const char *wrapper, const hr_family **family)
{
  const char *model_type = wrapper ? hr_wrapped_type(wrapper) : NULL;
  if (!hr_json_has(&config->json, "model_type") && !model_type)
    return find_by_architecture(config, family);
  HR_TRY(hr_config_text(config, "model_type", model_type, &model_type));
  *family = family_of_type(config, model_type);
  return *family ? HR_OK : hr_refuse_model_type(config, "model_type", model_type);
}

/* Fails if marks were lost: a field that was read, but has no mark, would be named as unknown. */
static hr_status check_marks(const hr_config *config)
{
  if (!config->marks_lost)
    return HR_OK;
  return hr_fail(config->json.error, HR_ERROR_UNSUPPORTED, "%s: its family reads more than %d fields",
                 config->json.input, HR_CONFIG_FIELDS_MAX);
}

static hr_status read_model(hr_config *config, hr_model *model)
{
  if (!hr_json_has(&config->json, "model_type") && hr_is_short_form(config)) {
    hr_copy_text(model->family, sizeof model->family, "short");
    HR_TRY(hr_read_short_form(config, model));
    return hr_read_numerics(config, model);
  }
  const hr_family *family = NULL;
  const char *wrapper;
  HR_TRY(check_architectures(&config->json));
  HR_TRY(hr_take_text_part(config, &wrapper));
  HR_TRY(check_architectures(&config->json));
  HR_TRY(find_family(config, wrapper, &family));
  /* The analyzer cannot see that hr_refuse_model_type() never returns HR_OK. */
  hr_copy_text(model->family, sizeof model->family,
               family->model_type); /* NOLINT(clang-analyzer-core.NullDereference) */
  HR_TRY(hr_complete_text_part(config, family));
  HR_TRY((family->read ? family->read : hr_read_decoder)(config, family, model));
  HR_TRY(hr_config_spread_windows(config, model));
  HR_TRY(hr_note_prediction_layers(config));
  HR_TRY(check_marks(config));
  HR_TRY(hr_refuse_by_field(config));
  HR_TRY(hr_read_numerics(config, model));
  return hr_read_head(config, family, architecture_of(config), model);
}

/* Loading a model writes where it came from: "org/name" is a repository and kept; a path has the name of its last
 * folder. False if the field has none. */
static bool take_name(const json_t *object, const char *field, char *name, size_t size)
{
  const char *text = json_string_value(json_object_get(object, field));
  char path[512];
  hr_copy_text(path, sizeof path, text ? text : "");
  for (size_t length = strlen(path); length > 0 && path[length - 1] == '/'; length--)
    path[length - 1] = '\0';
  const char *first = strchr(path, '/'), *last = strrchr(path, '/');
  bool repository = first == last && first != path && path[0] != '.' && path[0] != '~';
  const char *found = repository || !last ? path : last + 1;
  if (found[0] == '\0' || found[0] == '.')
    return false;
  hr_copy_text(name, size, found);
  return true;
}

/* The name in the configuration, if it has one. */
static void read_name(const hr_config *config, char *name, size_t size)
{
  static const char *const fields[] = {"_name_or_path", "name_or_path", "name"};
  const json_t *const objects[] = {config->outer, config->json.object};
  for (size_t i = 0; i < 2; i++) {
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
      if (objects[i] && take_name(objects[i], fields[f], name, size))
        return;
    }
  }
}

/* Sizes that are valid one by one may not fit each other. */
static hr_status check_model(const hr_config *config, const hr_model *model)
{
  hr_error problem;
  hr_status status = hr_model_check(model, &problem);
  if (status != HR_OK)
    return hr_fail(config->json.error, status, "%s: %s", config->json.input, problem.message);
  return HR_OK;
}

hr_status hr_model_from_json(const hr_input *input, hr_note_fn note, void *context, hr_model *model, hr_error *error)
{
  HR_NEED(error, input, model);
  const char *text = input->text, *name = input->name;
  HR_NEED(error, text, name);
  json_t *root;
  HR_TRY(hr_json_parse(text, input->length, name, &root, error));
  hr_config config = {
      .json = {.object = root, .input = name, .path = "", .error = error}, .note = note, .note_context = context};
  hr_model read = hr_model_default();
  hr_copy_text(read.name, sizeof read.name, name);
  hr_status status = read_model(&config, &read);
  if (status == HR_OK)
    status = check_model(&config, &read);
  if (status == HR_OK)
    status = hr_config_quantization(&config, &read);
  if (status == HR_OK)
    status = check_model(&config, &read);
  if (status == HR_OK)
    status = check_marks(&config);
  if (status == HR_OK) {
    hr_config_note_unknown_fields(&config);
    read_name(&config, read.name, sizeof read.name);
    *model = read;
  }
  json_decref(root);
  return status;
}

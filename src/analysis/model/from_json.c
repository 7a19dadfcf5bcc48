/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a config.json: finds the family, refuses models that are not covered, reads the fields, checks the result. */
#include "analysis/model/families.h"
#include "analysis/model/parameters.h"
#include "base/names.h"

#include <string.h>

/* The first of "architectures", NULL if there is none. */
static const char *first_architecture(const hr_config *config)
{
  return json_string_value(json_array_get(json_object_get(config->json.object, "architectures"), 0));
}

/* A model of the same layers without the logits' weights has fewer parameters than are counted here. */
static void note_other_head(const hr_config *config)
{
  const char *architecture = first_architecture(config);
  if (architecture && !strstr(architecture, "ForCausalLM") && !strstr(architecture, "LMHead"))
    hr_config_note(config, "architectures: \"%.60s\" is read as the language model of the same shape", architecture);
}

static hr_status find_family(hr_config *config, const hr_family **family)
{
  if (hr_json_has(&config->json, "model_type")) {
    const char *model_type;
    HR_TRY(hr_config_text(config, "model_type", NULL, &model_type));
    *family = hr_family_of_type(model_type);
    HR_TRY(hr_refuse_by_field(config, *family));
    if (!*family)
      return hr_refuse_model_type(config, "model_type", model_type);
    note_other_head(config);
    return HR_OK;
  }
  const char *architecture = first_architecture(config);
  *family = architecture ? hr_family_of_architecture(architecture) : NULL;
  HR_TRY(hr_refuse_by_field(config, *family));
  if (!architecture)
    return hr_json_fail(&config->json, "model_type", HR_ERROR_INVALID,
                        "is missing; the short form has \"h\" and \"a\" instead");
  if (!*family)
    return hr_refuse_model_type(config, "architectures", architecture);
  hr_config_note(config, "model_type: is missing, \"%s\" is assumed from architectures", (*family)->model_type);
  return HR_OK;
}

static hr_status read_model(hr_config *config, hr_model *model)
{
  if (!hr_json_has(&config->json, "model_type") && hr_is_short_form(config)) {
    hr_copy_text(model->family, sizeof model->family, "short");
    return hr_read_short_form(config, model);
  }
  const hr_family *family = NULL;
  HR_TRY(find_family(config, &family));
  /* The analyzer cannot see that hr_refuse_model_type() never returns HR_OK. */
  hr_copy_text(model->family, sizeof model->family,
               family->model_type); /* NOLINT(clang-analyzer-core.NullDereference) */
  return (family->read ? family->read : hr_read_decoder)(config, family, model);
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

hr_status hr_model_from_json(const char *text, size_t length, const char *name, hr_note_fn note, void *context,
                             hr_model *model, hr_error *error)
{
  HR_NEED(error, text, name, model);
  json_t *root;
  HR_TRY(hr_json_parse(text, length, name, &root, error));
  hr_config config = {
      .json = {.object = root, .input = name, .path = "", .error = error}, .note = note, .note_context = context};
  hr_model read = hr_model_default();
  hr_copy_text(read.name, sizeof read.name, name);
  hr_status status = read_model(&config, &read);
  if (status == HR_OK)
    status = check_model(&config, &read);
  if (status == HR_OK) {
    hr_config_note_unknown_fields(&config);
    *model = read;
  }
  json_decref(root);
  return status;
}

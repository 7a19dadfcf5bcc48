/* SPDX-License-Identifier: Apache-2.0 */
/* The refusal of a model_type that no family has. */
#include "model/config/families.h"
#include "model/config/short_form_offer.h"
#include "suggest/suggest.h"

#include <headroom/experimental/resolve.h>
#include <string.h>

/* Most families among which similar names are looked for. */
#define FAMILIES_MAX 256

/* A short form that is cut is of no use: what an error has room for beside the words around it. */
#define FORM_AND_INPUT_MAX 330

/* "; did you mean llama or llama4?" */
static void suggest_family(const char *model_type, char *text, size_t size)
{
  const char *names[FAMILIES_MAX];
  size_t count;
  const hr_family *families = hr_families(&count);
  count = count < FAMILIES_MAX ? count : FAMILIES_MAX;
  for (size_t i = 0; i < count; i++)
    names[i] = families[i].model_type;
  hr_suggest_names(model_type, names, count, text, size);
}

hr_status hr_refuse_model_type(hr_config *config, const char *field, const char *model_type)
{
  char found[64], form[FORM_AND_INPUT_MAX], similar[160];
  json_t *as_text = json_string(model_type);
  hr_json_found(as_text, found, sizeof found);
  json_decref(as_text);
  HR_TRY(hr_refuse_by_type(config, field, model_type, found));
  if (hr_offer_short_form(config, form, sizeof form) && strlen(form) + strlen(config->json.input) < FORM_AND_INPUT_MAX)
    return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED,
                        "%s is not a supported family; if its layers are llama's, as its fields are, the short form is "
                        "'%s'",
                        found, form);
  suggest_family(model_type, similar, sizeof similar);
  return hr_json_fail(
      &config->json, field, HR_ERROR_UNSUPPORTED,
      "%s is not a supported family%s%s docs/models.md lists the families, and how to give a shape without one", found,
      similar, similar[0] ? "" : ";");
}

/* The model families. A family is a row of families.inc and a function that fills an hr_model from its config.json. */
#ifndef HR_ANALYSIS_MODEL_FAMILIES_H
#define HR_ANALYSIS_MODEL_FAMILIES_H

#include "analysis/model/config.h"

/** Fills every member of *model that differs from hr_model_default() but name and family. */
typedef hr_status (*hr_family_reader)(hr_config *config, hr_model *model);

typedef struct hr_family {
  const char *model_type;   /* the value of config.json's "model_type" */
  const char *architecture; /* the value in "architectures" that means the same */
  hr_family_reader read;
  const char *description;
} hr_family;

#define HR_FAMILY(model_type, architecture, reader, description) hr_status reader(hr_config *config, hr_model *model);
#include "analysis/model/families.inc"
#undef HR_FAMILY

/** All families, in the order of families.inc; *count is how many. */
const hr_family *hr_families(size_t *count);

/** Headroom's own short form. */
bool hr_is_short_form(const hr_config *config);
hr_status hr_read_short_form(hr_config *config, hr_model *model);

/** Refuses what is no dense decoder-only transformer, naming the field that told so: HR_ERROR_UNSUPPORTED. */
hr_status hr_refuse_by_field(hr_config *config);

/** Refuses a model_type that no family has: with the reason where it is a known one, else with the families' list. */
hr_status hr_refuse_model_type(const hr_config *config, const char *field, const char *model_type);

#endif

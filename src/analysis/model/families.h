/* SPDX-License-Identifier: Apache-2.0 */
/* The model families. Each is a row of families.inc and a function that fills an hr_model from its config.json. */
#ifndef HR_ANALYSIS_MODEL_FAMILIES_H
#define HR_ANALYSIS_MODEL_FAMILIES_H

#include "analysis/model/config.h"

/** Sets the members of *model that differ from hr_model_default(), except name and family. */
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

/** All families, in the order of families.inc; *count is their number. */
const hr_family *hr_families(size_t *count);

/** The family with this "model_type", or with this class in "architectures"; NULL if there is none. */
const hr_family *hr_family_of_type(const char *model_type);
const hr_family *hr_family_of_architecture(const char *architecture);

/** Headroom's own short form. */
bool hr_is_short_form(const hr_config *config);
hr_status hr_read_short_form(hr_config *config, hr_model *model);

/** HR_ERROR_UNSUPPORTED, naming the field, if a field says that this is no dense decoder-only transformer. */
hr_status hr_refuse_by_field(hr_config *config);

/** Always HR_ERROR_UNSUPPORTED: no family has this model_type. The message gives the reason for a known type, otherwise
 *  the short form and the list of families. */
hr_status hr_refuse_model_type(const hr_config *config, const char *field, const char *model_type);

#endif

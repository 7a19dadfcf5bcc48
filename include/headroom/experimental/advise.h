/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/advise.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_ADVISE_H
#define HEADROOM_EXPERIMENTAL_ADVISE_H

#include <headroom/advise.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One row of the rule table. Static storage throughout. */
typedef struct hr_rule {
  const char *name, *summary, *source;
  hr_change_class change_class; /* of the costliest change that it suggests */
} hr_rule;

/** The rules in the order of application; *count is their number. Static storage. */
HR_API const hr_rule *hr_rules(size_t *count);

#ifdef __cplusplus
}
#endif
#endif

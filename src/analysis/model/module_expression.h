/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of module names. Thread safety: pure functions. */
#ifndef HR_ANALYSIS_MODEL_MODULE_EXPRESSION_H
#define HR_ANALYSIS_MODEL_MODULE_EXPRESSION_H

#include <stdbool.h>

/** Called for a sequence of atoms without groups; returns true to end the visits. */
typedef bool (*hr_sequence_fn)(void *context, const char *sequence);

/** Calls `visit` for every sequence of alternatives. Returns false for an expression that is not supported; `visit` may
 *  have been called before. `text` has at most 256 characters. */
bool hr_expand_expression(const char *text, hr_sequence_fn visit, void *context);

typedef enum hr_ending {
  HR_ENDS_ANYWHERE,  /* as Python's re.match() */
  HR_ENDS_AT_MODULES /* at the end of the name or of a module in it */
} hr_ending;

/** Whether a sequence matches the beginning of a name. */
bool hr_sequence_matches(const char *sequence, const char *name, hr_ending ending);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Suggests names that a user may have meant. */
#ifndef HR_SUGGEST_SUGGEST_H
#define HR_SUGGEST_SUGGEST_H

#include <headroom/resolve.h>

/** Edit distance of two names, ignoring case: letters inserted, deleted, replaced, or swapped with a neighbour.
 *  Compares the first 64 letters. */
int hr_edit_distance(const char *a, const char *b);

#endif

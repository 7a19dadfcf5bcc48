/* Names that a user may have meant. */
#ifndef HR_BASE_SUGGEST_H
#define HR_BASE_SUGGEST_H

#include <headroom/resolve.h>

/** Changes of one letter (insert, delete, replace, swap of neighbours) between two names, case aside; at most 64
 *  letters of each count. */
int hr_edit_distance(const char *a, const char *b);

#endif

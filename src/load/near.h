/* Names that a user may have meant. */
#ifndef HR_LOAD_NEAR_H
#define HR_LOAD_NEAR_H

#include <headroom/load.h>

/** Changes of one letter (insert, delete, replace, swap of neighbours) between two names, case aside; at most 64
 *  letters of each count. */
int hr_edit_distance(const char *a, const char *b);

#endif

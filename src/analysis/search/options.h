/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a search, checked. */
#ifndef HR_ANALYSIS_SEARCH_OPTIONS_H
#define HR_ANALYSIS_SEARCH_OPTIONS_H

#include <headroom/search.h>

/** HR_ERROR_INVALID names the member that is out of range. */
hr_status hr_search_check_options(const hr_search_options *options, hr_error *error);

/** Whether a size may differ from the model's: it is among those to vary, or bounds of its own are given. */
bool hr_search_varies(const hr_search_options *options, hr_search_size size, int64_t least, int64_t most);

/** Fills *least and *most: the bounds that are given, else 3/4 to 4/3 of the model's own size, or that size alone if it
 *  does not vary. */
void hr_search_bounds_near(bool varies, int64_t own, int64_t min, int64_t max, int64_t *least, int64_t *most);

#endif

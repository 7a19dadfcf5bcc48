/* SPDX-License-Identifier: Apache-2.0 */
/* What distinguishes a shape from the model that a search began with. */
#ifndef HR_ANALYSIS_SEARCH_DIFFERENCE_H
#define HR_ANALYSIS_SEARCH_DIFFERENCE_H

#include <headroom/search.h>

/** Fills shape->cache_change, shape->differs and shape->change_class from shape->model. */
void hr_search_describe_difference(const hr_model *model, const hr_workload *workload, hr_search_shape *shape);

#endif

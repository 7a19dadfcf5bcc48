/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts over devices side by side. */
#ifndef HR_REPORT_PARALLEL_LAYOUTS_H
#define HR_REPORT_PARALLEL_LAYOUTS_H

#include "report/document.h"
#include "report/json.h"

#include <headroom/parallel_layouts.h>

/** A row a layout. `layouts` must outlive it. */
hr_table *hr_parallel_layout_table(const hr_parallel_layouts *layouts);

/** "layouts" with the table, "nodes", and the names of the best. */
void hr_json_put_parallel_layouts(hr_json document, const hr_parallel_layouts *layouts);

/** The table for people with the best layouts in words. Nothing where one device does and all other layouts are only a
 *  choice, unless options->verbose. */
hr_status hr_print_parallel_layouts(const hr_document *document, const hr_parallel_layouts *layouts, hr_error *error);

#endif

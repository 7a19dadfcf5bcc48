/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of stored rows, of whatever sweep. */
#ifndef HR_REPORT_SWEEP_FIGURES_H
#define HR_REPORT_SWEEP_FIGURES_H

#include "experiment/compare/rows.h"
#include "figure/figure.h"

#include <headroom/experimental/sweep.h>

/** The figure of `count` rows of one sweep: rate, or time where a row has no FLOPs, over the axis of the sweep of the
 *  catalogue (`about`, or NULL: the axis with the most values). A line for each series, with the device, number format,
 *  kernel and caches where the rows differ in them. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_figure_of_rows(const hr_compare_row *rows, size_t count, const hr_sweep_about *about, hr_figure **result,
                            hr_error *error);

#endif

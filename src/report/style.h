/* SPDX-License-Identifier: Apache-2.0 */
/* Colours of a terminal. */
#ifndef HR_REPORT_STYLE_H
#define HR_REPORT_STYLE_H

#include <headroom/experimental/report.h>

typedef enum hr_style {
  HR_STYLE_PLAIN,
  HR_STYLE_BOLD,
  HR_STYLE_DIM,
  HR_STYLE_RED,
  HR_STYLE_YELLOW,
  HR_STYLE_CYAN,
  HR_STYLE_GREEN
} hr_style;

/** Starts and ends a style. Both write nothing unless options->colour is set and the format is a table. */
void hr_style_begin(FILE *out, const hr_report_options *options, hr_style style);
void hr_style_end(FILE *out, const hr_report_options *options, hr_style style);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs gnuplot, which draws what the library describes. */
#ifndef CLI_GNUPLOT_H
#define CLI_GNUPLOT_H

#include "cli.h"

/** CLI_GO_ON if there is a gnuplot on the PATH; else EXIT_UNSUPPORTED after printing that. */
int cli_check_gnuplot(void);

/** Draws the figure and writes the picture to `out`. Returns HR_OK; HR_ERROR_INTERRUPTED; HR_ERROR_UNAVAILABLE without
 *  gnuplot; HR_ERROR_BACKEND with gnuplot's message; HR_ERROR_OUTPUT. */
hr_status cli_run_gnuplot(FILE *out, const hr_figure_options *options, const hr_figure *figure, hr_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the views of a sweep share while a figure is made. */
#ifndef HR_PLOT_SWEEP_H
#define HR_PLOT_SWEEP_H

#include "figure/figure.h"
#include "plot/sweep_rows.h"

typedef struct hr_plot_sweep {
  const hr_sweep *sweep, *small; /* sizes for a GPU, for a CPU */
  hr_sweep_about about;
  const hr_plot_options *options;
  hr_view view;
  hr_plot_rows rows;
  hr_figure *figure;
  double unit_ns;    /* of times in the figure */
  double unit_flops; /* of its rates, in FLOP/s */
} hr_plot_sweep;

/** The name of a case of the sweep that the row is of; "?" if it has none of this number. */
const char *hr_plot_case(const hr_plot_sweep *plot, bool small, double number);

/** The value that the view shows of a time and a rate (FLOP/s): the rate in plot->unit_flops, or the time in
 *  plot->unit_ns. */
double hr_plot_shown(const hr_plot_sweep *plot, double time_ns, double flops_per_s);

/** Whether there are rows, all of CPUs: those have sizes of their own, beside which the co-design paper's points of
 *  GPUs do not belong. */
bool hr_plot_only_cpus(const hr_plot_sweep *plot);

/** Gives a point its value as a label, in three digits. */
void hr_plot_label(hr_figure_point *point);

/** Adds the measured lines, a series each with the interval of the median. */
void hr_plot_add_lines(hr_plot_sweep *plot);

/** Adds the measured bars: a group for each case, a bar for each device and format. */
void hr_plot_add_bars(hr_plot_sweep *plot);

/** Adds the lines of options->peers. */
hr_status hr_plot_add_peers(hr_plot_sweep *plot, hr_error *error);

/** Adds the published points of the sweep; those of a measured series have its style. */
hr_status hr_plot_add_published(hr_plot_sweep *plot, hr_error *error);

/** What a reader has to know of the published points; "": nothing. */
const char *hr_plot_published_note(const hr_plot_sweep *plot);

/** Adds a band for each series: the predicted times within the device's error. Errors of hr_sweep_point_at(). */
hr_status hr_plot_add_predicted(hr_plot_sweep *plot, hr_error *error);

/** The longest predicted time in ns, 0 if there is none. */
double hr_plot_longest_predicted(const hr_plot_sweep *plot);

/** Adds the time of the baseline over the time of each other point, and the break-even. HR_ERROR_INVALID for a sweep
 *  without a baseline. */
hr_status hr_plot_add_gain(hr_plot_sweep *plot, hr_error *error);

/** Adds a row for each line, and fits: see HR_VIEW_HEATMAP, HR_VIEW_SCALING. */
void hr_plot_add_heatmap(hr_plot_sweep *plot);
void hr_plot_add_slopes(hr_plot_sweep *plot); /* see hr_plot_add_heatmap() */

/** Adds the parts of the time of layers: see HR_VIEW_SHARES. Errors of hr_figure_of_sweep(). */
hr_status hr_plot_add_shares(hr_plot_sweep *plot, hr_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a sweep that a figure shows, sorted by line and point. */
#ifndef HR_PLOT_SWEEP_ROWS_H
#define HR_PLOT_SWEEP_ROWS_H

#include <headroom/experimental/plot.h>

typedef struct hr_plot_row {
  size_t source; /* index */
  size_t order;  /* of its series in the sweep's; after all others if the sweep has no such series */
  char date[25], series[128], axes[512], product[96], kernel_asked[64], dtype[8], parts[1024];
  bool cpu, warm;
  int64_t threads, autotune;
  double x; /* of the sweep's x axis */
  hr_status status;
  double rate;              /* FLOP/s; NAN: unknown */
  double median, low, high; /* ns; NAN: unknown */
} hr_plot_row;

/** Rows in the order of their lines, then of their axes; one for each point of a line: the latest. */
typedef struct hr_plot_rows {
  hr_plot_row *rows;
  size_t count, capacity;
  size_t strange; /* rows left out since their axes are not the sweep's */
  size_t seen;    /* of the sweep in all sources, also those that the options leave out */
  bool several_sources, several_gemms, several_dtypes, several_kernels, several_threads, some_warm, some_cold;
  bool several_tunings;
  const hr_plot_source *sources;
} hr_plot_rows;

/** Reads the rows of the sweep. The caller frees rows->rows. Errors of hr_figure_of_sweep(). */
hr_status hr_plot_read_rows(const hr_sweep *sweep, const hr_plot_source *sources, size_t source_count,
                            const hr_plot_options *options, hr_plot_rows *rows, hr_error *error);

/** Orders rows by their lines; 0: both are of one line. */
int hr_plot_compare_lines(const hr_plot_row *a, const hr_plot_row *b);

/** What the legend calls the line of a row: its series, and what else tells it from others. `otherwise` stands for a
 *  line that nothing tells from others. */
void hr_plot_line_name(const hr_plot_rows *rows, const hr_plot_row *row, const char *otherwise, char *to, size_t size);

/** The value of an axis in a row's axes, "a=20 b=4"; false if there is none. */
bool hr_plot_axis_value(const char *axes, const char *name, double *value);

#endif

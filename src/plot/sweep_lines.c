/* SPDX-License-Identifier: Apache-2.0 */
/* The measured lines and bars of a sweep, its gains, heatmaps and slopes. */
#include "plot/sweep.h"

#include "base/error.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The point has its interval. The ends of a rate are those of the time, exchanged. */
static hr_figure_point point_of(const hr_plot_sweep *plot, const hr_plot_row *row, double x)
{
  hr_figure_point point = hr_figure_value(x, hr_plot_shown(plot, row->median, row->rate));
  double flops = row->rate * row->median;
  point.status = row->status;
  if (plot->view == HR_VIEW_RATE) {
    point.low = hr_plot_shown(plot, 0, flops / row->high);
    point.high = hr_plot_shown(plot, 0, flops / row->low);
  } else {
    point.low = hr_plot_shown(plot, row->low, 0);
    point.high = hr_plot_shown(plot, row->high, 0);
  }
  return point;
}

static double x_of(const hr_plot_sweep *plot, const hr_plot_row *row)
{
  const char *name = plot->figure->x.scale == HR_FIGURE_SCALE_NAMES ? hr_plot_case(plot, row->cpu, row->x) : NULL;
  return name ? (double)hr_figure_name(plot->figure, &plot->figure->x, name) : row->x;
}

static bool begins_line(const hr_plot_rows *rows, size_t index)
{
  return index == 0 || hr_plot_compare_lines(&rows->rows[index - 1], &rows->rows[index]) != 0;
}

/* Lines of one series are in one colour, whatever their device and format. */
static bool begins_series(const hr_plot_rows *rows, size_t index)
{
  const hr_plot_row *row = &rows->rows[index];
  bool same = index > 0 && row->series[0] && strcmp(row->series, row[-1].series) == 0;
  return begins_line(rows, index) && !same;
}

void hr_plot_add_lines(hr_plot_sweep *plot)
{
  size_t series = HR_FIGURE_NONE, first = HR_FIGURE_NONE;
  for (size_t i = 0; i < plot->rows.count; i++) {
    const hr_plot_row *row = &plot->rows.rows[i];
    char name[HR_FIGURE_TEXT];
    hr_plot_line_name(&plot->rows, row, row->product, name, sizeof name);
    if (plot->options->peers) /* their lines are of calls that take turns */
      hr_write_text(name + strlen(name), sizeof name - strlen(name), ", Headroom, each call alone");
    if (begins_line(&plot->rows, i))
      series = hr_figure_add_series(plot->figure, name, HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
    if (begins_series(&plot->rows, i))
      first = series;
    hr_figure_share_colour(plot->figure, series, first);
    hr_figure_add_point(plot->figure, series, point_of(plot, row, x_of(plot, row)));
  }
}

void hr_plot_add_bars(hr_plot_sweep *plot)
{
  for (size_t i = 0; i < plot->rows.count; i++) {
    const hr_plot_row *row = &plot->rows.rows[i];
    char name[HR_FIGURE_TEXT];
    hr_plot_line_name(&plot->rows, row, row->product, name, sizeof name);
    size_t series = hr_figure_series_named(plot->figure, name, HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
    hr_figure_point point = point_of(plot, row, x_of(plot, row));
    hr_plot_label(&point);
    hr_figure_add_point(plot->figure, series, point);
  }
}

/* ---- heatmap ---- */

void hr_plot_add_heatmap(hr_plot_sweep *plot)
{
  hr_figure *figure = plot->figure;
  figure->form = HR_FIGURE_HEATMAP;
  figure->x.scale = figure->y.scale = HR_FIGURE_SCALE_NAMES;
  size_t series = HR_FIGURE_NONE;
  for (size_t i = 0; i < plot->rows.count; i++) {
    const hr_plot_row *row = &plot->rows.rows[i];
    char name[HR_FIGURE_TEXT], column[32];
    hr_plot_line_name(&plot->rows, row, row->product, name, sizeof name);
    if (begins_line(&plot->rows, i)) {
      series = hr_figure_add_series(figure, name, HR_FIGURE_MARK_POINTS, HR_FIGURE_MEASURED);
      hr_figure_name(figure, &figure->y, name);
    }
    const char *case_name = strcmp(plot->about.x, "case") == 0 ? hr_plot_case(plot, row->cpu, row->x) : NULL;
    hr_write_text(column, sizeof column, "%.10g", row->x);
    hr_figure_point point =
        point_of(plot, row, (double)hr_figure_name(figure, &figure->x, case_name ? case_name : column));
    hr_plot_label(&point);
    if (isnan(point.y))
      hr_write_text(point.label, sizeof point.label, "%s",
                    row->status == HR_ERROR_OUT_OF_MEMORY ? "out of memory"
                    : row->status == HR_ERROR_UNSUPPORTED ? "not supported"
                                                          : hr_status_name(row->status));
    hr_figure_add_point(figure, series, point);
  }
}

/* ---- slopes ---- */

/* The exponent of time ~ x^e by least squares over the logarithms; NAN for fewer than two points. */
static double fit(const hr_figure_series *series, double *factor)
{
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (size_t i = 0; i < series->count; i++) {
    const hr_figure_point *point = &series->points[i];
    if (isnan(point->y) || point->x <= 0 || point->y <= 0)
      continue;
    double x = log(point->x), y = log(point->y);
    n++;
    sx += x;
    sy += y;
    sxx += x * x;
    sxy += x * y;
  }
  double spread = n * sxx - sx * sx;
  if (n < 2 || !(spread > 0))
    return (double)NAN;
  double slope = (n * sxy - sx * sy) / spread;
  *factor = exp((sy - slope * sx) / n);
  return slope;
}

/* Each line gets its slope before its name, and the fit as a thin line of its style. */
void hr_plot_add_slopes(hr_plot_sweep *plot)
{
  size_t lines = plot->figure->series_count;
  for (size_t i = 0; i < lines; i++) {
    hr_figure_series *series = &plot->figure->series[i];
    double factor = 0, slope = fit(series, &factor);
    if (isnan(slope))
      continue;
    char name[HR_FIGURE_TEXT];
    hr_write_text(name, sizeof name, "slope %.2f: %s", slope, series->name);
    memcpy(series->name, name, sizeof name);
    series->mark = HR_FIGURE_MARK_POINTS;
    double first = series->points[0].x, last = first;
    for (size_t j = 0; j < series->count; j++) {
      first = isnan(series->points[j].y) ? first : fmin(first, series->points[j].x);
      last = isnan(series->points[j].y) ? last : fmax(last, series->points[j].x);
    }
    size_t line = hr_figure_add_series(plot->figure, "", HR_FIGURE_MARK_PLAIN_LINE, HR_FIGURE_BOUND);
    if (line == HR_FIGURE_NONE)
      return;
    hr_figure_share_style(plot->figure, line, i);
    hr_figure_add_point(plot->figure, line, hr_figure_value(first, factor * pow(first, slope)));
    hr_figure_add_point(plot->figure, line, hr_figure_value(last, factor * pow(last, slope)));
  }
}

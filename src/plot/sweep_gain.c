/* SPDX-License-Identifier: Apache-2.0 */
/* How much faster the cases of a sweep are than its baseline, and where they break even. */
#include "plot/sweep.h"

#include "base/error.h"
#include "base/text.h"
#include "experiment/sweep/sweep.h"

#include <math.h>
#include <string.h>

/* The index of the point with these axes in a number format that has no part in them; SIZE_MAX: none. */
static size_t find_point(const hr_sweep *sweep, const char *axes)
{
  for (size_t i = 0; i < sweep->point_count; i++) {
    hr_sweep_point point;
    if (hr_sweep_point_at(sweep, i, HR_BF16, &point, NULL) == HR_OK && strcmp(point.axes, axes) == 0)
      return i;
  }
  return SIZE_MAX;
}

/* The row of the baseline for a row: the same device, format and source, the axes of the baseline's point. */
static const hr_plot_row *find_baseline(const hr_plot_sweep *plot, const hr_plot_row *row)
{
  const hr_sweep *sweep = row->cpu ? plot->small : plot->sweep;
  size_t index = find_point(sweep, row->axes), base = index == SIZE_MAX ? index : hr_sweep_baseline(sweep, index);
  hr_sweep_point point;
  if (base == SIZE_MAX || hr_sweep_point_at(sweep, base, HR_BF16, &point, NULL) != HR_OK)
    return NULL;
  for (size_t i = 0; i < plot->rows.count; i++) {
    const hr_plot_row *other = &plot->rows.rows[i];
    if (strcmp(other->axes, point.axes) == 0 && strcmp(other->product, row->product) == 0 &&
        strcmp(other->dtype, row->dtype) == 0 && other->source == row->source && other->threads == row->threads &&
        strcmp(other->kernel_asked, row->kernel_asked) == 0 && other->warm == row->warm)
      return other;
  }
  return NULL;
}

/* Where a series goes through 1, between the points around it on a straight line. The legend has the numbers: labels of
 * lines that are close to one another would overlap. */
static void add_crossings(hr_figure *figure, size_t index)
{
  hr_figure_series *series = &figure->series[index];
  for (size_t i = 1; i < series->count; i++) {
    const hr_figure_point *a = &series->points[i - 1], *b = &series->points[i];
    if (!((a->y < 1) != (b->y < 1)) || a->x >= b->x)
      continue;
    double x = a->x + (1 - a->y) / (b->y - a->y) * (b->x - a->x);
    size_t used = strlen(series->name);
    hr_write_text(series->name + used, sizeof series->name - used, x < 1000 ? ", even at %.4g" : ", even at %.0f", x);
    hr_figure_add_rule(figure, true, x, "");
  }
}

hr_status hr_plot_add_gain(hr_plot_sweep *plot, hr_error *error)
{
  (void)error;
  hr_figure *figure = plot->figure;
  bool names = figure->x.scale == HR_FIGURE_SCALE_NAMES;
  figure->y.from_zero = false;
  figure->form = HR_FIGURE_LINES;
  for (size_t i = 0; i < plot->rows.count; i++) {
    const hr_plot_row *row = &plot->rows.rows[i], *base = find_baseline(plot, row);
    char name[HR_FIGURE_TEXT];
    if (!base || base == row || isnan(base->median) || isnan(row->median))
      continue;
    hr_plot_line_name(&plot->rows, row, row->product, name, sizeof name);
    size_t series = hr_figure_series_named(figure, name, HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
    double x = names ? (double)hr_figure_name(figure, &figure->x, hr_plot_case(plot, row->cpu, row->x)) : row->x;
    hr_figure_point point = hr_figure_value(x, base->median / row->median);
    point.low = base->low / row->high; /* both intervals at their ends: wider than that of the ratio */
    point.high = base->high / row->low;
    point.status = base->status == HR_ERROR_NOISY ? base->status : row->status;
    hr_figure_add_point(figure, series, point);
  }
  for (size_t i = 0; i < figure->series_count && !names; i++)
    add_crossings(figure, i);
  char even[HR_FIGURE_TEXT];
  hr_write_text(even, sizeof even, "break-even with %s", plot->about.baseline);
  hr_figure_add_rule(figure, false, 1, even);
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the figure of a sweep: chooses what its view needs, and describes it. */
#include "plot/sweep.h"

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "experiment/sweep/sweep.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 30 /* a factor between times that a linear axis does not show */

void hr_plot_options_init(hr_plot_options *options, size_t size)
{
  HR_INIT(options, size, (hr_plot_options){.view = HR_VIEW_COUNT, .published = true, .predicted_dtype = HR_BF16});
}

static bool is_of_cases(const hr_plot_sweep *plot)
{
  return strcmp(plot->about.x, "case") == 0;
}

/* ---- axes and texts ---- */

/* Chooses the unit of times by the longest; a logarithmic axis keeps ms for longer, as it shows short times, too. Rates
 * are in GFLOP/s if all are of CPUs and below 1 TFLOP/s. */
static void choose_units(hr_plot_sweep *plot)
{
  double longest = 0, highest = 0, seconds = plot->view == HR_VIEW_TIME && !plot->about.x_log2 ? 1e9 : 1e10;
  for (size_t i = 0; i < plot->rows.count; i++) {
    longest = fmax(longest, plot->rows.rows[i].median);
    highest = fmax(highest, plot->rows.rows[i].rate);
  }
  if (plot->rows.count == 0 && plot->options->predicted && plot->view == HR_VIEW_TIME)
    longest = hr_plot_longest_predicted(plot);
  plot->unit_ns = longest > 0 && longest < 1e6 ? 1e3 : longest < seconds ? 1e6 : 1e9;
  bool predicted = plot->options->predicted && plot->options->predicted->about.kind != HR_HARDWARE_CPU;
  bool small = hr_plot_only_cpus(plot) && highest > 0 && highest < 1e12 && !predicted && !plot->options->peers;
  plot->unit_flops = small ? 1e9 : 1e12;
}

/* Whether short times would lie on a linear axis. */
static bool is_wide(const hr_plot_sweep *plot)
{
  double shortest = (double)INFINITY, longest = 0;
  for (size_t i = 0; i < plot->rows.count; i++) {
    shortest = fmin(shortest, plot->rows.rows[i].median);
    longest = fmax(longest, plot->rows.rows[i].median);
  }
  return longest > WIDE * shortest;
}

static void label_y(const hr_plot_sweep *plot)
{
  char label[HR_FIGURE_TEXT];
  switch (plot->view) {
  case HR_VIEW_RATE:
    hr_copy_text(label, sizeof label,
                 plot->unit_flops < 1e12                                      ? "Throughput (GFLOP/s)"
                 : plot->about.view == HR_VIEW_RATE && plot->about.y_label[0] ? plot->about.y_label
                                                                              : "Throughput (TFLOP/s)");
    break;
  case HR_VIEW_GAIN: hr_write_text(label, sizeof label, "Time of %s over time", plot->about.baseline); break;
  case HR_VIEW_SHARES:
  case HR_VIEW_GEMM_SHARES: hr_copy_text(label, sizeof label, "Share of latency (%)"); break;
  default:
    hr_write_text(label, sizeof label, "Time (%s)", plot->unit_ns > 1e6 ? "s" : plot->unit_ns > 1e3 ? "ms" : "µs");
    break;
  }
  hr_copy_text(plot->figure->y.label, sizeof plot->figure->y.label, label);
}

static void set_axes(const hr_plot_sweep *plot)
{
  hr_figure *figure = plot->figure;
  hr_figure_axis *x = &figure->x;
  hr_copy_text(x->label, sizeof x->label,
               plot->about.x_label[0] || is_of_cases(plot) ? plot->about.x_label : plot->about.x);
  label_y(plot);
  if (is_of_cases(plot))
    x->scale = HR_FIGURE_SCALE_NAMES;
  else if (plot->about.x_log2 || plot->view == HR_VIEW_SCALING)
    x->scale = HR_FIGURE_SCALE_LOG2;
  if (plot->view == HR_VIEW_SCALING || (plot->view == HR_VIEW_TIME && (plot->about.x_log2 || is_wide(plot))))
    figure->y.scale = HR_FIGURE_SCALE_LOG10;
  if (is_of_cases(plot) && plot->about.series_count == 1)
    figure->form = HR_FIGURE_BARS;
}

static void title(const hr_plot_sweep *plot)
{
  hr_figure *figure = plot->figure;
  char text[HR_FIGURE_TEXT];
  if (plot->about.figure[0])
    hr_write_text(text, sizeof text, "Figure %s: %s", plot->about.figure, plot->about.title);
  else
    hr_write_text(text, sizeof text, "%s", plot->about.title[0] ? plot->about.title : plot->about.name);
  hr_copy_text(figure->title, sizeof figure->title, text);
  hr_copy_text(figure->source, sizeof figure->source, plot->about.source);
}

static void add_to_note(hr_figure *figure, const char *text)
{
  size_t used = strlen(figure->note);
  if (!text[0])
    return;
  hr_write_text(figure->note + used, sizeof figure->note - used, "%s%s", used > 0 ? "; " : "", text);
}

/* Every device once with the first and last day of its rows: rows are not sorted by device. */
static void note_devices(const hr_plot_sweep *plot)
{
  const hr_plot_rows *rows = &plot->rows;
  for (size_t i = 0; i < rows->count; i++) {
    const char *product = rows->rows[i].product, *first = rows->rows[i].date, *last = first;
    bool named = false;
    for (size_t j = 0; j < i && !named; j++)
      named = strcmp(rows->rows[j].product, product) == 0;
    for (size_t j = i + 1; j < rows->count && !named; j++) {
      const char *date = rows->rows[j].date;
      if (strcmp(rows->rows[j].product, product) != 0)
        continue;
      first = strcmp(date, first) < 0 ? date : first;
      last = strcmp(date, last) > 0 ? date : last;
    }
    char text[200];
    hr_write_text(text, sizeof text, "%s%s: measured %.10s", "", product, first);
    if (strncmp(first, last, 10) != 0)
      hr_write_text(text + strlen(text), sizeof text - strlen(text), " to %.10s", last);
    if (!named)
      add_to_note(plot->figure, text);
  }
}

/* Without the time of any operator no row has a part in a picture of shares. */
static bool has_parts(const hr_plot_sweep *plot)
{
  for (size_t i = 0; i < plot->rows.count; i++) {
    if (plot->rows.rows[i].parts[0])
      return true;
  }
  return false;
}

static void note(const hr_plot_sweep *plot)
{
  char text[256];
  bool shares = plot->view == HR_VIEW_SHARES || plot->view == HR_VIEW_GEMM_SHARES;
  if (plot->rows.count == 0)
    add_to_note(plot->figure, "no measured rows");
  else if (shares && !has_parts(plot))
    add_to_note(plot->figure, "the measured rows have no times of operators");
  else
    note_devices(plot);
  if (plot->rows.strange > 0) {
    hr_write_text(text, sizeof text, "left out: %zu rows whose axes are not the sweep's", plot->rows.strange);
    add_to_note(plot->figure, text);
  }
  if (plot->options->predicted && plot->view <= HR_VIEW_TIME) {
    hr_write_text(text, sizeof text, "predictions for %s: nine of ten times lie in the band",
                  plot->options->predicted->about.name);
    add_to_note(plot->figure, text);
  }
  if (plot->options->published)
    add_to_note(plot->figure, hr_plot_published_note(plot));
  if (plot->about.source[0] && plot->options->published) {
    hr_write_text(text, sizeof text, "original: %s", plot->about.source);
    add_to_note(plot->figure, text);
  }
}

/* ---- views ---- */

static hr_status check_view(const hr_plot_sweep *plot, hr_error *error)
{
  bool shares = plot->view == HR_VIEW_SHARES || plot->view == HR_VIEW_GEMM_SHARES;
  if (shares && plot->about.kind != HR_SWEEP_LAYER && plot->about.kind != HR_SWEEP_STEP)
    return hr_fail(error, HR_ERROR_INVALID,
                   "%s: the view %s is of sweeps of layers and steps, and this one is of kind %s", plot->about.name,
                   hr_view_name(plot->view), hr_sweep_kind_name(plot->about.kind));
  if (plot->view == HR_VIEW_GAIN && !plot->about.baseline[0])
    return hr_fail(error, HR_ERROR_INVALID, "%s: the view gain needs a sweep with a baseline, and this one has none",
                   plot->about.name);
  if (plot->view == HR_VIEW_SCALING && is_of_cases(plot))
    return hr_fail(error, HR_ERROR_INVALID, "%s: the view scaling needs an x axis of numbers, and this one has names",
                   plot->about.name);
  return HR_OK;
}

static hr_status fill(hr_plot_sweep *plot, hr_error *error)
{
  switch (plot->view) {
  case HR_VIEW_SHARES:
  case HR_VIEW_GEMM_SHARES: return hr_plot_add_shares(plot, error);
  case HR_VIEW_GAIN: return hr_plot_add_gain(plot, error);
  case HR_VIEW_HEATMAP:
    hr_plot_add_heatmap(plot);
    return plot->options->published ? hr_plot_add_published(plot, error) : HR_OK;
  default: break;
  }
  if (plot->figure->form == HR_FIGURE_BARS)
    hr_plot_add_bars(plot);
  else
    hr_plot_add_lines(plot);
  if (plot->options->peers)
    HR_TRY(hr_plot_add_peers(plot, error));
  if (plot->options->published)
    HR_TRY(hr_plot_add_published(plot, error));
  if (plot->view == HR_VIEW_SCALING)
    hr_plot_add_slopes(plot);
  return plot->options->predicted && plot->view != HR_VIEW_SCALING ? hr_plot_add_predicted(plot, error) : HR_OK;
}

static hr_status nothing_to_draw(const hr_plot_sweep *plot, hr_error *error)
{
  const char *name = plot->about.name;
  if (plot->rows.seen == 0)
    return hr_fail(error, HR_ERROR_NOT_FOUND,
                   "%s: there are no rows to draw; measure them with headroom sweep %s, or name files of rows", name,
                   name);
  if (plot->rows.count == 0)
    return hr_fail(error, HR_ERROR_NOT_FOUND,
                   "%s: none of %zu rows is of this sweep's axes, this series and this number format", name,
                   plot->rows.seen);
  return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: none of %zu rows has what the view %s shows", name, plot->rows.count,
                 hr_view_name(plot->view));
}

/* Whether a point has a value. A picture without any would show only failures. */
static bool has_value(const hr_figure *figure)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    for (size_t j = 0; j < series->count; j++) {
      if (!isnan(series->points[j].y))
        return true;
    }
  }
  return false;
}

static hr_status make(hr_plot_sweep *plot, hr_error *error)
{
  HR_TRY(check_view(plot, error));
  choose_units(plot);
  set_axes(plot);
  title(plot);
  note(plot);
  HR_TRY(fill(plot, error));
  if (!plot->figure->out_of_memory && !has_value(plot->figure))
    return nothing_to_draw(plot, error);
  return HR_OK;
}

hr_status hr_figure_of_sweep(const hr_sweep *sweep, const hr_sweep *small, const hr_plot_sources *sources,
                             const hr_plot_options *options, hr_figure **figure, hr_error *error)
{
  HR_NEED(error, sweep, small, sources, options, figure);
  HR_TAKE(hr_plot_options, options, error);
  hr_plot_sweep plot = {.sweep = sweep, .small = small, .options = options, .about = *hr_sweep_describe(sweep)};
  plot.view = options->view < HR_VIEW_COUNT ? options->view : plot.about.view;
  HR_TRY(hr_plot_read_rows(sweep, sources->list, sources->count, options, &plot.rows, error));
  plot.figure = hr_figure_new();
  hr_status status =
      plot.figure ? make(&plot, error) : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  free(plot.rows.rows);
  if (status == HR_OK)
    return hr_figure_end(plot.figure, figure, error);
  hr_figure_free(plot.figure);
  return status;
}

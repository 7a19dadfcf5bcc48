/* SPDX-License-Identifier: Apache-2.0 */
/* The published points of a sweep. */
#include "plot/published.h"
#include "plot/sweep.h"

#include "base/error.h"
#include "base/text.h"
#include "experiment/sweep/sweep.h"

#include <math.h>
#include <string.h>

/* The style of the measured series of this name, so that its published points have its colour. */
static void share_style(hr_figure *figure, size_t series, const char *name)
{
  for (size_t i = 0; series != HR_FIGURE_NONE && i < series && name[0]; i++) {
    if (strncmp(figure->series[i].name, name, strlen(name)) == 0 &&
        strchr(", ", figure->series[i].name[strlen(name)])) {
      hr_figure_share_style(figure, series, i);
      return;
    }
  }
}

static size_t series_for(hr_figure *figure, const char *who, const char *line, const char *accuracy, bool read_off)
{
  char name[HR_FIGURE_TEXT];
  hr_write_text(name, sizeof name, "%s%s%s, %s", line, line[0] ? ", " : "", who, accuracy);
  size_t count = figure->series_count;
  size_t series =
      hr_figure_series_named(figure, name, HR_FIGURE_MARK_POINTS, read_off ? HR_FIGURE_READ_OFF : HR_FIGURE_EXACT);
  if (series == count)
    share_style(figure, series, line);
  return series;
}

/* ---- the co-design paper: TFLOP/s ---- */

static void take_codesign(void *context, const hr_published_row *row)
{
  hr_plot_sweep *plot = context;
  const char *wanted = plot->options->series, *line = hr_published_text(row, "series"),
             *x = hr_published_text(row, "x");
  const char *device = hr_published_text(row, "device");
  double number = hr_published_number(row, "x"), rate = hr_published_number(row, "tflops_per_s");
  if (strcmp(hr_published_text(row, "sweep"), plot->about.name) != 0 || isnan(rate) ||
      (wanted && !strstr(line, wanted)))
    return;
  hr_figure *figure = plot->figure;
  bool names = figure->x.scale == HR_FIGURE_SCALE_NAMES;
  hr_figure_point point = hr_figure_value(names ? (double)hr_figure_name(figure, &figure->x, x) : number, rate);
  if (names)
    hr_plot_label(&point);
  bool read_off;
  const char *accuracy = hr_published_accuracy(row, &read_off);
  if (!isnan(point.x))
    hr_figure_add_point(figure, series_for(figure, device[0] ? device : "paper", line, accuracy, read_off), point);
}

/* ---- the attention sweep: ms ---- */

/* The implementations of the table, and the cases of the sweep that do the same. */
static const struct {
  const char *kernel, *line;
} same_kernels[] = {{"scaled_dot_prod_attention", "naive XS"},
                    {"vectorized_torch", "materialized XS"},
                    {"vectorized_torch_compiled", "fused XS"},
                    {"flash_attention_triton", "flash XS"}};

static const char *line_of_kernel(const char *kernel)
{
  for (size_t i = 0; i < sizeof same_kernels / sizeof *same_kernels; i++) {
    if (strcmp(same_kernels[i].kernel, kernel) == 0)
      return same_kernels[i].line;
  }
  return "";
}

static void add_attention(hr_plot_sweep *plot, const hr_published_row *row, const char *name, const char *line)
{
  hr_figure *figure = plot->figure;
  bool heatmap = figure->form == HR_FIGURE_HEATMAP;
  size_t count = figure->series_count;
  size_t series = hr_figure_series_named(figure, name, HR_FIGURE_MARK_POINTS, HR_FIGURE_EXACT);
  double mean = hr_published_number(row, "mean_ms"), length = hr_published_number(row, "q_len");
  hr_figure_point point = hr_figure_value(length, hr_plot_shown(plot, mean * 1e6, 0));
  if (isnan(mean))
    point.status = HR_ERROR_NOT_FOUND;
  if (heatmap) {
    char column[32];
    hr_write_text(column, sizeof column, "%.10g", length);
    point.x = (double)hr_figure_name(figure, &figure->x, column);
    if (isnan(mean))
      hr_write_text(point.label, sizeof point.label, "not run");
    else
      hr_plot_label(&point);
  }
  if (series == count && heatmap)
    hr_figure_name(figure, &figure->y, name);
  else if (series == count)
    share_style(figure, series, line);
  hr_figure_add_point(figure, series, point);
}

static void take_attention(void *context, const hr_published_row *row)
{
  hr_plot_sweep *plot = context;
  const char *kernel = hr_published_text(row, "kernel"), *line = line_of_kernel(kernel);
  char name[HR_FIGURE_TEXT];
  hr_write_text(name, sizeof name, "%s, batch 4, published", kernel);
  if (!plot->options->series || strstr(line, plot->options->series))
    add_attention(plot, row, name, line);
}

/* ---- SIGMA's table 8: ns of 10 tokens by 26 layers ---- */

#define CALLS_OF_TABLE_8 260

static void take_sigma(void *context, const hr_published_row *row)
{
  hr_plot_sweep *plot = context;
  bool standard = strcmp(hr_published_text(row, "model"), "standard") == 0;
  const char *kernel = hr_published_text(row, "kernel"), *line = standard ? "STD, batch 1" : "SIGMA, batch 1";
  char *rest;
  double prefix = 1024 * hr_read_number(hr_published_text(row, "prefix"), &rest);
  double time = hr_published_number(row, "time_ns");
  if (strcmp(kernel, "total") != 0 || hr_published_number(row, "output") != 10 || *rest != 'k' ||
      (plot->options->series && !strstr(line, plot->options->series)))
    return;
  size_t series = series_for(plot->figure, "table 8, for one call", line, "published", false);
  hr_figure_add_point(plot->figure, series, hr_figure_value(prefix, hr_plot_shown(plot, time / CALLS_OF_TABLE_8, 0)));
}

/* ---- which ---- */

static bool shows_attention(const hr_plot_sweep *plot)
{
  return strcmp(plot->about.name, "attention-forward") == 0 && plot->view != HR_VIEW_RATE;
}

const char *hr_plot_published_note(const hr_plot_sweep *plot)
{
  return shows_attention(plot) ? "XS: 12 heads of 64; the published table does not name its GPU" : "";
}

/* ---- figure 20: its readings are of all peaks and of all sizes between them, not of a size each ---- */

static void take_level(void *context, const hr_published_row *row)
{
  hr_plot_sweep *plot = context;
  char label[HR_FIGURE_TEXT];
  if (strcmp(hr_published_text(row, "place"), plot->about.name) != 0 ||
      strcmp(hr_published_text(row, "unit"), "TFLOP/s") != 0)
    return;
  hr_write_text(label, sizeof label, "A100, %s: %s, %s", hr_published_text(row, "what"),
                hr_published_text(row, "value"), hr_published_accuracy(row, NULL));
  hr_figure_add_rule(plot->figure, false, hr_published_number(row, "value"), label);
}

/* ---- figure 13: seconds of an inference of a model ---- */

static void take_latency(void *context, const hr_published_row *row)
{
  hr_plot_sweep *plot = context;
  hr_figure *figure = plot->figure;
  bool read_off;
  const char *accuracy = hr_published_accuracy(row, &read_off);
  if (strcmp(hr_published_text(row, "place"), plot->about.name) != 0 ||
      strcmp(hr_published_text(row, "unit"), "s") != 0)
    return;
  const double x = (double)hr_figure_name(figure, &figure->x, hr_published_text(row, "what"));
  const double time_ns = hr_published_number(row, "value") * 1e9;
  hr_figure_add_point(figure, series_for(figure, "paper", "", accuracy, read_off),
                      hr_figure_value(x, hr_plot_shown(plot, time_ns, 0)));
}

/* Models that nobody published keep their places. */
static hr_status add_latencies(hr_plot_sweep *plot, hr_error *error)
{
  for (size_t i = 0; i < plot->sweep->case_count; i++)
    hr_figure_name(plot->figure, &plot->figure->x, plot->sweep->case_names[i]);
  return hr_published_read("codesign-values", take_latency, plot, error);
}

hr_status hr_plot_add_published(hr_plot_sweep *plot, hr_error *error)
{
  const char *name = plot->about.name;
  if (shows_attention(plot))
    return hr_published_read("attention-forward", take_attention, plot, error);
  if (strcmp(name, "sigma-ket") == 0 && plot->view == HR_VIEW_TIME)
    return hr_published_read("sigma-kernel-times", take_sigma, plot, error);
  if (plot->view == HR_VIEW_TIME && plot->figure->x.scale == HR_FIGURE_SCALE_NAMES)
    return add_latencies(plot, error);
  if (plot->view != HR_VIEW_RATE || hr_plot_only_cpus(plot))
    return HR_OK;
  HR_TRY(hr_published_read("codesign-figures", take_codesign, plot, error));
  return hr_published_read("codesign-values", take_level, plot, error);
}

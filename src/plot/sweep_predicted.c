/* SPDX-License-Identifier: Apache-2.0 */
/* The predictions of a sweep's points for a device. */
#include "hardware/hardware.h"
#include "plot/sweep.h"

#include "base/error.h"
#include "base/text.h"
#include "experiment/sweep/sweep.h"

#include <headroom/experimental/operators.h>
#include <headroom/predict.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* FLOPs of one execution of each operator of a layer, of all of a step; NAN: unknown. */
static double flops_of_operators(const hr_sweep_point *point)
{
  hr_operators *operators = malloc(sizeof *operators);
  double flops = 0;
  hr_status status =
      operators ? hr_operators_list(&point->model, &point->workload, operators, NULL) : HR_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; status == HR_OK && i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    flops += (double)op->flops * (double)(point->kind == HR_SWEEP_STEP ? op->count : op->in_layer);
  }
  free(operators);
  return status == HR_OK ? flops : (double)NAN;
}

/* FLOPs of one run, as the rate of a measurement counts them; NAN: unknown. */
static double flops_of(const hr_sweep_point *point)
{
  int64_t flops = 0;
  hr_status status = HR_OK;
  switch (point->kind) {
  case HR_SWEEP_ATTENTION: status = hr_attention_flops(&point->attention, &flops); break;
  case HR_SWEEP_DECODE: status = hr_decode_flops(&point->decode, &flops); break;
  case HR_SWEEP_LAYER:
  case HR_SWEEP_STEP: return flops_of_operators(point);
  case HR_SWEEP_COLLECTIVE: return (double)NAN;
  default: status = hr_gemm_flops(&point->gemm, &flops); break;
  }
  return status == HR_OK ? (double)flops : (double)NAN;
}

/* The style of the first measured series that begins with the point's. */
static void share_style(hr_figure *figure, size_t band, const char *name)
{
  for (size_t i = 0; band != HR_FIGURE_NONE && i < band; i++) {
    const hr_figure_series *series = &figure->series[i];
    bool same = name[0] ? strncmp(series->name, name, strlen(name)) == 0 && strchr(", ", series->name[strlen(name)])
                        : series->origin == HR_FIGURE_MEASURED;
    if (same) {
      hr_figure_share_style(figure, band, i);
      return;
    }
  }
}

/* A rate is highest where the time is shortest. */
static void add_point(hr_plot_sweep *plot, const hr_sweep_point *point, const hr_sweep_time *time)
{
  const hr_hardware *hardware = plot->options->predicted;
  hr_figure *figure = plot->figure;
  char name[HR_FIGURE_TEXT];
  bool bars = figure->form == HR_FIGURE_BARS;
  hr_write_text(name, sizeof name, "%s%spredicted for %s", point->series, point->series[0] ? ", " : "",
                hardware->about.name);
  size_t count = figure->series_count;
  size_t band =
      hr_figure_series_named(figure, name, bars ? HR_FIGURE_MARK_LINE : HR_FIGURE_MARK_BAND, HR_FIGURE_PREDICTED);
  if (band == count && !bars)
    share_style(figure, band, point->series);
  bool names = figure->x.scale == HR_FIGURE_SCALE_NAMES;
  double flops = flops_of(point);
  bool rate = plot->view == HR_VIEW_RATE;
  double x = names ? (double)hr_figure_name(figure, &figure->x, point->x_name) : (double)point->x;
  hr_figure_point value = hr_figure_value(x, hr_plot_shown(plot, time->ns, flops / time->ns * 1e9));
  value.low = rate ? value.y * time->ns / time->high_ns : value.y * time->low_ns / time->ns;
  value.high = rate ? value.y * time->ns / time->low_ns : value.y * time->high_ns / time->ns;
  if (bars)
    hr_write_text(value.label, sizeof value.label, value.y < 99.95 ? "%.1f" : "%.0f", value.y);
  hr_figure_add_point(figure, band, value);
}

double hr_plot_longest_predicted(const hr_plot_sweep *plot)
{
  const hr_hardware *hardware = plot->options->predicted;
  const hr_sweep *sweep = hardware->about.kind == HR_HARDWARE_CPU ? plot->small : plot->sweep;
  double longest = 0;
  for (size_t i = 0; i < hr_sweep_describe(sweep)->point_count; i++) {
    hr_sweep_point point;
    hr_sweep_time time = {0, 0, 0};
    if (hr_sweep_point_at(sweep, i, plot->options->predicted_dtype, &point, NULL) == HR_OK &&
        hr_sweep_predict_time(hardware, &point, &time, NULL) == HR_OK)
      longest = fmax(longest, time.ns);
  }
  return longest;
}

hr_status hr_plot_add_predicted(hr_plot_sweep *plot, hr_error *error)
{
  const hr_hardware *hardware = plot->options->predicted;
  const hr_sweep *sweep = hardware->about.kind == HR_HARDWARE_CPU ? plot->small : plot->sweep;
  size_t count = hr_sweep_describe(sweep)->point_count;
  for (size_t i = 0; i < count; i++) {
    hr_sweep_point point;
    hr_sweep_time time = {0, 0, 0};
    HR_TRY(hr_sweep_point_at(sweep, i, plot->options->predicted_dtype, &point, error));
    if (plot->options->series && !strstr(point.series, plot->options->series))
      continue;
    hr_status status = hr_sweep_predict_time(hardware, &point, &time, error);
    if (status == HR_OK)
      add_point(plot, &point, &time);
    else if (status != HR_ERROR_UNSUPPORTED && status != HR_ERROR_OUT_OF_MEMORY)
      return status;
  }
  return HR_OK;
}

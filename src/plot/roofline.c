/* SPDX-License-Identifier: Apache-2.0 */
/* The roofline of a device with the operators of a step, and the shapes of a search. */
#include <headroom/experimental/plot.h>

#include "analysis/predict/step.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "figure/figure.h"
#include "hardware/hardware.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/operators.h>
#include <math.h>
#include <string.h>

/* Rates in FLOP/s and bytes/s. */
static void add_roof(hr_figure *figure, const char *name, double peak, double bandwidth, double left, double right)
{
  size_t line = hr_figure_add_series(figure, name, HR_FIGURE_MARK_PLAIN_LINE, HR_FIGURE_BOUND);
  double ridge = peak / bandwidth;
  hr_figure_add_point(figure, line, hr_figure_value(left, fmin(peak, left * bandwidth) / 1e12));
  if (left < ridge && ridge < right)
    hr_figure_add_point(figure, line, hr_figure_value(ridge, peak / 1e12));
  hr_figure_add_point(figure, line, hr_figure_value(right, fmin(peak, right * bandwidth) / 1e12));
}

/* The passes of an operator are points of one series, whose labels name the backward ones: a legend cannot tell
 * all operators of a training step apart. */
static void add_operators(hr_figure *figure, const hr_step *step)
{
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    double time = step->predictions[i].time_ns;
    if (op->flops <= 0 || op->bytes <= 0 || !(time > 0))
      continue;
    size_t series =
        hr_figure_series_named(figure, hr_operator_id_name(op->id), HR_FIGURE_MARK_POINTS, HR_FIGURE_PREDICTED);
    hr_figure_point point =
        hr_figure_value((double)op->flops / (double)op->bytes, (double)op->flops / time * 1e9 / 1e12);
    if (op->pass != HR_PASS_FORWARD)
      hr_copy_text(point.label, sizeof point.label, hr_pass_name(op->pass));
    point.low = (double)op->flops / step->predictions[i].high_ns / 1e3;
    point.high = (double)op->flops / step->predictions[i].low_ns / 1e3;
    hr_figure_add_point(figure, series, point);
  }
}

/* Where the roofs begin and end: powers of ten, as the axis does, around the operators and the ridge. */
static void extent(const hr_step *step, double ridge, double *left, double *right)
{
  double least = ridge / 4, most = ridge * 2;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (op->flops <= 0 || op->bytes <= 0)
      continue;
    least = fmin(least, (double)op->flops / (double)op->bytes);
    most = fmax(most, (double)op->flops / (double)op->bytes);
  }
  *left = pow(10, floor(log10(least)));
  *right = pow(10, ceil(log10(most)));
}

hr_status hr_figure_of_roofline(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                                const hr_step *step, hr_figure **figure, hr_error *error)
{
  HR_NEED(error, hardware, model, workload, step, figure);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  double library = hr_hardware_library_flops_per_s(hardware, workload->dtype), left, right;
  double peak = hardware->dense_flops_per_s[workload->dtype], bandwidth = hardware->bandwidth_bytes_per_s;
  if (!(peak > 0) || !(bandwidth > 0))
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: no roofline without a rate in %s and a bandwidth",
                   hardware->about.name, hr_dtype_name(workload->dtype));
  hr_figure *f = hr_figure_new();
  if (!f)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  f->x.scale = f->y.scale = HR_FIGURE_SCALE_LOG10;
  f->y.from_zero = false;
  f->labels_hidden = true;
  hr_write_text(f->x.label, sizeof f->x.label, "FLOPs per byte of memory traffic");
  hr_write_text(f->y.label, sizeof f->y.label, "Throughput (TFLOP/s)");
  hr_write_text(f->title, sizeof f->title, "Roofline of %s: %s, %s", hardware->about.product, model->name,
                hr_phase_name(workload->phase));
  hr_write_text(f->note, sizeof f->note, "batch %lld, %lld tokens, %s; points are predictions with their error",
                (long long)workload->batch, (long long)workload->sequence, hr_dtype_name(workload->dtype));
  extent(step, peak / bandwidth, &left, &right);
  add_roof(f, "datasheet", peak, bandwidth, left, right);
  if (library > 0 && library < peak)
    add_roof(f, "best library rate, streaming copy", library,
             bandwidth * (hardware->bandwidth_share > 0 ? hardware->bandwidth_share : 1), left, right);
  add_operators(f, step);
  return hr_figure_end(f, figure, error);
}

/* ---- a search ---- */

hr_status hr_figure_of_search(const hr_model *model, const hr_hardware *hardware, const hr_search_result *result,
                              hr_figure **figure, hr_error *error)
{
  HR_NEED(error, model, hardware, result, figure);
  HR_TAKE(hr_model, model, error);
  hr_figure *f = hr_figure_new();
  if (!f)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  f->y.from_zero = false;
  hr_write_text(f->x.label, sizeof f->x.label, "Change of the parameters (%%)");
  hr_write_text(f->y.label, sizeof f->y.label, "Predicted gain (%%)");
  hr_write_text(f->title, sizeof f->title, "Shapes near %s on %s", model->name, hardware->about.product);
  hr_write_text(f->note, sizeof f->note, "the %zu fastest of %llu shapes tried", result->count,
                (unsigned long long)result->evaluated);
  size_t itself = hr_figure_add_series(f, model->name, HR_FIGURE_MARK_POINTS, HR_FIGURE_PREDICTED);
  size_t others = hr_figure_add_series(f, "shapes", HR_FIGURE_MARK_POINTS, HR_FIGURE_PREDICTED);
  size_t front = hr_figure_add_series(f, "Pareto front", HR_FIGURE_MARK_LINE, HR_FIGURE_PREDICTED);
  hr_figure_add_point(f, itself, hr_figure_value(0, 0));
  for (size_t i = 0; i < result->count; i++) {
    const hr_search_shape *shape = &result->shapes[i];
    hr_figure_add_point(f, shape->pareto ? front : others,
                        hr_figure_value(100 * shape->parameter_change, 100 * shape->predicted_gain));
  }
  return hr_figure_end(f, figure, error);
}

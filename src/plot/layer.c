/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of a layer, and the kernels of an attention call. */
#include <headroom/experimental/plot.h>

#include "base/error.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "figure/figure.h"
#include "hardware/hardware.h"

#include <math.h>
#include <string.h>

static void label_time(hr_figure_point *point)
{
  hr_write_text(point->label, sizeof point->label,
                point->y < 0.9995  ? "%.3g"
                : point->y < 9.995 ? "%.2f"
                : point->y < 99.95 ? "%.1f"
                                   : "%.0f",
                point->y);
}

static double unit_of(double longest_ns, const char **name)
{
  *name = longest_ns < 1e6 ? "µs" : "ms";
  return longest_ns < 1e6 ? 1e3 : 1e6;
}

static void name_axis(hr_figure *figure, const char *unit)
{
  hr_write_text(figure->y.label, sizeof figure->y.label, "Time (%s)", unit);
}

/* ---- a layer ---- */

static void add_operators(hr_figure *figure, const hr_layer *layer, double unit)
{
  size_t predicted = hr_figure_add_series(figure, "predicted", HR_FIGURE_MARK_LINE, HR_FIGURE_PREDICTED);
  size_t measured = hr_figure_add_series(figure, "measured", HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  for (size_t i = 0; i < layer->count; i++) {
    const hr_layer_row *row = &layer->rows[i];
    const hr_measurement *m = &row->measurement;
    char name[48];
    hr_operator_name(&row->op, name, sizeof name);
    double x = (double)hr_figure_name(figure, &figure->x, name);
    hr_figure_point point = hr_figure_value(x, row->prediction.time_ns / unit);
    point.low = row->prediction.low_ns / unit;
    point.high = row->prediction.high_ns / unit;
    hr_figure_add_point(figure, predicted, point);
    point = hr_figure_value(x, row->measured ? row->time_ns / unit : (double)NAN);
    point.status = row->measured ? m->status : HR_ERROR_UNSUPPORTED;
    point.low = row->measured ? m->median_low_ns / unit : (double)NAN;
    point.high = row->measured ? m->median_high_ns / unit : (double)NAN;
    if (row->measured)
      label_time(&point);
    hr_figure_add_point(figure, measured, point);
  }
}

hr_status hr_figure_of_layer(const hr_model *model, const hr_hardware *hardware, const hr_layer *layer,
                             hr_figure **figure, hr_error *error)
{
  HR_NEED(error, model, hardware, layer, figure);
  HR_TAKE(hr_model, model, error);
  hr_figure *f = hr_figure_new();
  if (!f)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  double longest = 0;
  for (size_t i = 0; i < layer->count; i++)
    longest = fmax(longest, layer->rows[i].time_ns);
  const char *unit_name;
  double unit = unit_of(longest, &unit_name);
  f->form = HR_FIGURE_BARS;
  f->x.scale = HR_FIGURE_SCALE_NAMES;
  name_axis(f, unit_name);
  hr_write_text(f->title, sizeof f->title, "One layer of %s on %s", model->name, hardware->about.product);
  const hr_workload *w = &layer->workload;
  char shared[64] = "";
  if (w->tensor_parallel > 1)
    hr_write_text(shared, sizeof shared, ", tensor parallelism over %lld", (long long)w->tensor_parallel);
  hr_write_text(f->note, sizeof f->note, "%s in %s, batch %lld, %lld tokens%s%s%s", hr_phase_name(w->phase),
                hr_dtype_name(w->dtype), (long long)w->batch, (long long)w->sequence, shared,
                layer->note[0] ? "; " : "", layer->note);
  add_operators(f, layer, unit);
  return hr_figure_end(f, figure, error);
}

/* ---- an attention call ---- */

static void describe_call(hr_figure *figure, const hr_attention *a, const hr_hardware *hardware)
{
  hr_write_text(figure->title, sizeof figure->title, "Attention on %s", hardware->about.product);
  hr_write_text(figure->note, sizeof figure->note,
                "batch %lld, %lld queries, %lld keys, heads %lld/%lld/%lld, head sizes %lld and %lld, %s, %s",
                (long long)a->batch, (long long)a->q_len, (long long)a->kv_len, (long long)a->q_heads,
                (long long)a->k_heads, (long long)a->v_heads, (long long)a->qk_dim, (long long)a->v_dim,
                a->mask == HR_MASK_CAUSAL ? "causal" : "no mask", hr_dtype_name(a->dtype));
}

static void add_kernel(hr_figure *figure, size_t series, const hr_kernel_measurement *run, double unit)
{
  const hr_measurement *m = &run->measurement;
  bool timed = m->samples > 0 && m->median_ns > 0;
  if (!timed && m->status == HR_ERROR_UNSUPPORTED)
    return; /* most kernels are not for most calls */
  double x = (double)hr_figure_name(figure, &figure->x, run->kernel);
  hr_figure_point point = hr_figure_value(x, timed ? m->median_ns / unit : (double)NAN);
  point.status = m->status;
  point.low = timed ? m->median_low_ns / unit : (double)NAN;
  point.high = timed ? m->median_high_ns / unit : (double)NAN;
  if (timed)
    label_time(&point);
  hr_figure_add_point(figure, series, point);
}

hr_status hr_figure_of_attention(const hr_attention *attention, const hr_measured_call *call, hr_figure **figure,
                                 hr_error *error)
{
  HR_NEED(error, attention, call, figure);
  const hr_hardware *hardware = call->hardware;
  const hr_prediction *prediction = call->prediction;
  const hr_kernel_measurement *runs = call->runs;
  const size_t count = call->count;
  HR_NEED(error, hardware, runs);
  HR_TAKE(hr_attention, attention, error);
  hr_figure *f = hr_figure_new();
  if (!f)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  double longest = prediction ? prediction->time_ns : 0;
  bool timed = false;
  for (size_t i = 0; i < count; i++) {
    timed = timed || runs[i].measurement.samples > 0;
    longest = fmax(longest, runs[i].measurement.samples > 0 ? runs[i].measurement.median_ns : 0);
  }
  if (!timed) {
    hr_figure_free(f);
    return hr_fail(error, HR_ERROR_NOT_FOUND, "no kernel has a time to draw");
  }
  const char *unit_name;
  double unit = unit_of(longest, &unit_name);
  f->x.scale = HR_FIGURE_SCALE_NAMES;
  f->y.scale = HR_FIGURE_SCALE_LOG10; /* the naive kernel takes a thousand times as long as the best */
  name_axis(f, unit_name);
  describe_call(f, attention, hardware);
  size_t series = hr_figure_add_series(f, "measured", HR_FIGURE_MARK_POINTS, HR_FIGURE_MEASURED);
  for (size_t i = 0; i < count; i++)
    add_kernel(f, series, &runs[i], unit);
  if (prediction) {
    char label[HR_FIGURE_TEXT];
    hr_write_text(label, sizeof label, "predicted %.3g %s", prediction->time_ns / unit, unit_name);
    hr_figure_add_rule(f, false, prediction->time_ns / unit, label);
  }
  return hr_figure_end(f, figure, error);
}

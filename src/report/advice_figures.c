/* SPDX-License-Identifier: Apache-2.0 */
#include "report/advice_figures.h"

#include "analysis/advise/advice.h"
#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "model/layers/operator_builder.h"
#include "report/findings.h"
#include "report/page.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/plot.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void name_axes(hr_figure *figure, const char *x, const char *y)
{
  figure->form = HR_FIGURE_BARS;
  figure->x.scale = HR_FIGURE_SCALE_NAMES;
  hr_copy_text(figure->x.label, sizeof figure->x.label, x);
  hr_copy_text(figure->y.label, sizeof figure->y.label, y);
}

static hr_status write_and_free(const hr_document *document, hr_figure *figure, hr_error *error)
{
  HR_TRY(hr_figure_end(figure, &figure, error));
  return hr_page_print_figure(document->out, figure, error);
}

static hr_status out_of_memory(hr_error *error)
{
  return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
}

static void add_measured_gain(hr_figure *figure, double x, const hr_finding *f, size_t index,
                              const hr_confirmation *confirmation)
{
  if (!confirmation || !isfinite(f->measured_gain))
    return;
  hr_figure_point point = hr_figure_value(x, 100 * f->measured_gain);
  for (size_t i = 0; i < confirmation->finding_count; i++) {
    if (confirmation->findings[i].finding != index)
      continue;
    point.low = 100 * confirmation->findings[i].measured_gain_low;
    point.high = 100 * confirmation->findings[i].measured_gain_high;
  }
  size_t series = hr_figure_series_named(figure, "measured", HR_FIGURE_MARK_POINTS, HR_FIGURE_MEASURED);
  hr_figure_add_point(figure, series, point);
}

/* Another number of devices changes tokens/s per device, and may make the step slower. */
static void note_layout(hr_figure *figure, const hr_finding *f)
{
  size_t used = strlen(figure->note);
  hr_write_text(figure->note + used, sizeof figure->note - used, "%s%s: %+.1f%% tokens/s per device, not of a step",
                used > 0 ? "; " : "Left out: ", f->rule, 100 * f->predicted_gain);
}

static hr_status print_gains(const hr_document *document, const hr_advice *advice, const hr_confirmation *confirmation,
                             hr_error *error)
{
  hr_figure *figure = hr_figure_new();
  if (!figure)
    return out_of_memory(error);
  snprintf(figure->title, sizeof figure->title, "Gain of each finding: %.120s", advice->model.name);
  name_axes(figure, "rule", "gain of the step, %");
  size_t predicted = hr_figure_add_series(figure, "predicted", HR_FIGURE_MARK_POINTS, HR_FIGURE_PREDICTED);
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    const hr_finding *f = &advice->findings[i];
    if (!f->has_change || !hr_finding_is_shown(f, document->options))
      continue;
    if (f->gain_per_device) {
      note_layout(figure, f);
      continue;
    }
    double x = (double)hr_figure_name(figure, &figure->x, f->rule);
    hr_figure_add_point(figure, predicted, hr_figure_value(x, 100 * f->predicted_gain));
    add_measured_gain(figure, x, f, i, confirmation);
  }
  return write_and_free(document, figure, error);
}

/* The step does not wait for communication between replicas that its passes hide; the note says how much that is. */
static void note_replicas(hr_figure *figure, const hr_step *step)
{
  size_t used = strlen(figure->note);
  if (step->about.replica_ns > 0)
    hr_write_text(figure->note + used, sizeof figure->note - used,
                  " Left out: communication between replicas, %.3g ms of a step, which waits for %.3g ms of it.",
                  step->about.replica_ns / 1e6, step->about.exposed_ns / 1e6);
}

/* A bar for each operator that the step waits for, with all its executions in a microbatch; operators of one name are
 * added. */
static hr_status print_operators(const hr_document *document, const hr_advice *advice, hr_error *error)
{
  const hr_operators *operators = &advice->step.operators;
  hr_figure *figure = hr_figure_new();
  if (!figure)
    return out_of_memory(error);
  snprintf(figure->title, sizeof figure->title, "Predicted time by operator: %.120s", advice->model.name);
  snprintf(figure->note, sizeof figure->note, "One microbatch on %.200s.", advice->hardware.about.name);
  note_replicas(figure, &advice->step);
  name_axes(figure, "operator", "time, ms");
  size_t series = hr_figure_add_series(figure, "predicted", HR_FIGURE_MARK_POINTS, HR_FIGURE_PREDICTED);
  for (size_t i = 0; i < operators->count && series != HR_FIGURE_NONE; i++) {
    char name[48];
    if (!hr_runs_with_microbatches(operators->items[i].id))
      continue;
    hr_operator_name(&operators->items[i], name, sizeof name);
    size_t x = hr_figure_name(figure, &figure->x, name);
    double time = (double)operators->items[i].count * advice->step.predictions[i].time_ns / 1e6;
    hr_figure_series *bars = &figure->series[series];
    size_t k = 0;
    while (k < bars->count && bars->points[k].x != (double)x)
      k++;
    if (k < bars->count)
      bars->points[k].y += time;
    else
      hr_figure_add_point(figure, series, hr_figure_value((double)x, time));
  }
  return write_and_free(document, figure, error);
}

hr_status hr_print_advice_figures(const hr_document *document, const hr_advice *advice,
                                  const hr_confirmation *confirmation, hr_error *error)
{
  if (document->options->format != HR_FORMAT_HTML)
    return HR_OK;
  HR_TRY(print_gains(document, advice, confirmation, error));
  HR_TRY(print_operators(document, advice, error));
  hr_figure *roofline;
  hr_status status =
      hr_figure_of_roofline(&advice->hardware, &advice->model, &advice->workload, &advice->step, &roofline, error);
  if (status == HR_ERROR_NOT_FOUND) /* no rate in this format */
    return HR_OK;
  return status == HR_OK ? hr_page_print_figure(document->out, roofline, error) : status;
}

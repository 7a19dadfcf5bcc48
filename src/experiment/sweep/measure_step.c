/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a point that is a whole model. */
#include "experiment/sweep/run.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/step.h>
#include <math.h>

#define STEP_LIMIT_NS 2e9

/* "qkv_transform=81920 logit=1000", each with all its executions; "" if it does not fit. */
static void write_parts(const hr_step_times *times, char *to, size_t size)
{
  size_t used = 0;
  for (size_t i = 0; i < times->count && times->operators_ns > 0; i++) {
    char name[48];
    hr_operator_name(&times->rows[i].op, name, sizeof name);
    used += (size_t)hr_write_text(to + used, size - used, "%s%s=%.10g", used > 0 ? " " : "", name,
                                  times->rows[i].measured_ns);
    if (used >= size) {
      to[0] = '\0';
      return;
    }
  }
}

static double flops_of(const hr_step_times *times)
{
  double flops = 0;
  for (size_t i = 0; i < times->count; i++)
    flops += (double)times->rows[i].op.flops * (double)times->rows[i].op.count;
  return flops;
}

/* A point of several steps has neither parts nor a rate: its operators are those of the last step. */
static void take_times(const hr_step_times *times, bool several, hr_measurement *measurement, char *parts, size_t size)
{
  *measurement = times->measurement;
  if (several)
    return;
  measurement->flops_per_s = flops_of(times) / measurement->median_ns * 1e9;
  write_parts(times, parts, size);
}

/* What a point cannot be is a row; the rest stops the sweep. */
static bool is_result(hr_status status)
{
  return status == HR_ERROR_UNSUPPORTED || status == HR_ERROR_INVALID || status == HR_ERROR_OUT_OF_MEMORY ||
         status == HR_ERROR_BACKEND;
}

hr_status hr_sweep_measure_step(hr_device *device, const hr_hardware *hardware, const hr_sweep_point *point,
                                const hr_sweep_options *of, hr_progress *progress, hr_measurement *measurement,
                                char *parts, size_t parts_size, hr_error *error)
{
  const hr_subject subject = {.hardware = hardware, .model = &point->model, .workload = &point->workload};
  hr_step_options options = hr_step_options_default();
  hr_error reason = {.status = HR_OK};
  hr_step_times *times = NULL;
  options.seed = of->choice.seed;
  options.budget_ns = of->time_limit_ns > 0 ? of->time_limit_ns : STEP_LIMIT_NS;
  options.output = point->output;
  options.no_graph = point->no_graph;
  options.progress = hr_progress_of_part, options.context = progress;
  hr_status status = hr_step_measure(device, &subject, &options, &times, &reason);
  if (is_result(status)) {
    measurement->status = status == HR_ERROR_INVALID ? HR_ERROR_UNSUPPORTED : status;
    hr_copy_text(measurement->reason, sizeof measurement->reason, reason.message);
    return HR_OK;
  }
  if (status != HR_OK)
    return hr_fail(error, status, "%s", reason.message);
  take_times(times, point->output > 0, measurement, parts, parts_size);
  hr_step_times_free(times);
  return HR_OK;
}

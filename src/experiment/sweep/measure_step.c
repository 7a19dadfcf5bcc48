/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a point that is a whole model, on one device or on several that share its layers. Times are those of the
 * first, as `headroom step` has them. */
#include "experiment/sweep/run.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "experiment/step/runner.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/step.h>
#include <inttypes.h>
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

/* What a point cannot be is a row; the rest stops the sweep. Of several ranks also what they lack: GPUs of this host, a
 * library, each other. The next point opens its own. */
static bool is_result(hr_status status, int64_t ranks)
{
  return status == HR_ERROR_UNSUPPORTED || status == HR_ERROR_INVALID || status == HR_ERROR_OUT_OF_MEMORY ||
         status == HR_ERROR_BACKEND || (ranks > 1 && (status == HR_ERROR_UNAVAILABLE || status == HR_ERROR_NOT_FOUND));
}

static void refuse(hr_measurement *measurement, const hr_error *why, int64_t ranks)
{
  hr_error said = *why;
  if (ranks > 1)
    hr_fail(&said, why->status, "%" PRId64 " ranks: %s", ranks, why->message);
  measurement->status = why->status == HR_ERROR_INVALID ? HR_ERROR_UNSUPPORTED : why->status;
  hr_copy_text(measurement->reason, sizeof measurement->reason, said.message);
}

hr_status hr_sweep_measure_step(hr_device *device, const hr_sweep_point *point, const hr_sweep_options *of,
                                hr_progress *progress, hr_measurement *measurement, char *parts, size_t parts_size,
                                hr_error *error)
{
  hr_step_options options = hr_step_options_default();
  hr_error reason = {.status = HR_OK};
  hr_step_times *times = NULL;
  options.seed = of->choice.seed;
  options.budget_ns = of->time_limit_ns > 0 ? of->time_limit_ns : STEP_LIMIT_NS;
  options.output = point->output;
  options.no_graph = point->no_graph;
  options.progress = hr_progress_of_part, options.context = progress;
  hr_status status = hr_step_time(device, &point->model, &point->workload, &options, &times, &reason);
  if (is_result(status, point->workload.tensor_parallel)) {
    refuse(measurement, &reason, point->workload.tensor_parallel);
    return HR_OK;
  }
  if (status != HR_OK)
    return hr_fail(error, status, "%s", reason.message);
  take_times(times, point->output > 0, measurement, parts, parts_size);
  hr_step_times_free(times);
  return HR_OK;
}

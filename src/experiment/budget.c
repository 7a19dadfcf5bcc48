/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/budget.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "runtime/device/device.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define LENGTH_MIN 128 /* shorter sequences do not represent long ones */
#define LENGTH_STEP 64 /* elements; alignment depends on the remainder */
#define RUNS_MAX 15.0  /* check, warm-up and ten samples */
#define SLOWER 1.2     /* the rates may be from a moment when the machine was faster */
#define CHECK_NS 60e6  /* comparing sampled rows of one operator with the reference */
#define FILL_NS_PER_BYTE 1.0
#define DEVICE_FILL_NS_PER_BYTE 0.01 /* if the device makes the values itself */
#define LIMIT_LEAST_NS 1e8           /* for sampling one operator */
#define LIMIT_MOST_NS 2e9            /* unless the runs that are needed take longer */
#define RUNS_MIN 12.0

static int64_t *length_of(hr_workload *workload)
{
  return workload->phase == HR_PHASE_DECODE ? &workload->context : &workload->sequence;
}

/* Returns at most `length · share` and at least LENGTH_STEP, with the remainder of `length`. */
static int64_t shortened(int64_t length, double share)
{
  int64_t away = (int64_t)ceil((double)length * (1 - share) / LENGTH_STEP) * LENGTH_STEP;
  return away < length ? length - away : length % LENGTH_STEP ? length % LENGTH_STEP : LENGTH_STEP;
}

/* The next smaller size; false at the smallest. */
static bool make_smaller(hr_workload *workload)
{
  int64_t *length = length_of(workload);
  if (workload->batch > 1)
    workload->batch = hr_ceil_div(workload->batch, 2);
  else if (*length > LENGTH_MIN)
    *length = shortened(*length, 0.5);
  else
    return false;
  return true;
}

hr_status hr_budget_choose_size(const hr_budget_experiment *experiment, const hr_workload *asked, double budget_ns,
                                bool keep_size, hr_budget_size *size, hr_error *error)
{
  void *context = experiment->context;
  size->workload = *asked;
  HR_TRY(experiment->list(context, &size->workload, error));
  size->asked_ns = experiment->cost_ns(context);
  size->memory_short = !experiment->fits_memory(context);
  while (!keep_size && (experiment->cost_ns(context) > budget_ns || !experiment->fits_memory(context)) &&
         make_smaller(&size->workload))
    HR_TRY(experiment->list(context, &size->workload, error));
  return HR_OK;
}

hr_workload hr_budget_scaled(const hr_workload *changed, const hr_workload *asked, const hr_workload *measured)
{
  hr_workload result = *changed;
  int64_t *length = length_of(&result), asked_length = hr_budget_length(asked);
  int64_t measured_length = hr_budget_length(measured);
  double batch = (double)changed->batch * (double)measured->batch / (double)asked->batch;
  result.batch = batch < 1 ? 1 : (int64_t)llround(batch);
  *length =
      *length == asked_length ? measured_length : shortened(*length, (double)measured_length / (double)asked_length);
  return result;
}

int64_t hr_budget_length(const hr_workload *workload)
{
  return workload->phase == HR_PHASE_DECODE ? workload->context : workload->sequence;
}

double hr_budget_bytes(const hr_device *device, double operator_bytes)
{
  return operator_bytes + 2.0 * (double)device->cache_bytes;
}

bool hr_budget_fits_memory(const hr_device *device, double bytes)
{
  return bytes <= (double)hr_device_memory_available(device) / 2;
}

double hr_budget_cost_ns(const hr_device *device, double run_ns, double bytes, int count)
{
  const bool on_device = device->backend->fill_uniform != NULL;
  return hr_budget_runs_ns(run_ns) + hr_budget_fill_ns(on_device, bytes) + CHECK_NS * count;
}

double hr_budget_runs_ns(double run_ns)
{
  return RUNS_MAX * SLOWER * run_ns;
}

double hr_budget_fill_ns(bool on_device, double bytes)
{
  return (on_device ? DEVICE_FILL_NS_PER_BYTE : FILL_NS_PER_BYTE) * bytes;
}

double hr_budget_limit_ns(double run_ns, double reserved_ns, size_t count, double left_ns)
{
  double needed = RUNS_MIN * run_ns;
  double spare = fmax(left_ns - reserved_ns, 0) / (double)count;
  double limit = fmin(needed + spare, fmax(needed, LIMIT_MOST_NS)) * fmin(1, fmax(left_ns, 0) / reserved_ns);
  return fmax(limit, LIMIT_LEAST_NS + 2 * run_ns);
}

bool hr_budget_note(const hr_workload *asked, const hr_budget_size *chosen, double budget_ns, char *note, size_t size)
{
  const hr_workload *measured = &chosen->workload;
  note[0] = '\0';
  if (measured->batch == asked->batch && hr_budget_length(measured) == hr_budget_length(asked))
    return false;
  char why[96];
  const char *length = asked->phase == HR_PHASE_DECODE ? "context" : "s";
  if (chosen->memory_short)
    snprintf(why, sizeof why, "take more memory than is free");
  else
    hr_write_text(why, sizeof why, "take about %.0f s, not %.0f s", chosen->asked_ns * 1e-9, budget_ns * 1e-9);
  snprintf(note, size,
           "measured at b = %" PRId64 ", %s = %" PRId64 " instead of b = %" PRId64 ", %s = %" PRId64
           ": measuring at the size asked for would %s",
           measured->batch, length, hr_budget_length(measured), asked->batch, length, hr_budget_length(asked), why);
  return true;
}

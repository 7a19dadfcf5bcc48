/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/energy.h"

#include "base/error.h"
#include "runtime/device/clock.h"
#include "runtime/device/energy_meter.h"

#include <math.h>

#define GROUPS_A_STEP 10 /* of runs, between two steps of the counter: the pauses between groups are idle time */

/* Runs for `for_ns`; *mean_ns is the mean time of a run. */
static hr_status work(hr_runner *runner, const hr_measure_options *o, double for_ns, double *mean_ns, hr_error *error)
{
  double start = hr_clock_ns(), sum_ns = 0, time_ns = 0;
  int64_t count = 0;
  while (count == 0 || hr_clock_ns() - start < for_ns) {
    HR_TRY(hr_measure_check_cancelled(o, error));
    HR_TRY(hr_runner_sample(runner, &time_ns, error));
    sum_ns += time_ns;
    count++;
  }
  *mean_ns = sum_ns / (double)count;
  return HR_OK;
}

hr_status hr_measure_energy(hr_runner *runner, const hr_measure_options *o, hr_measurement *m, hr_error *error)
{
  const hr_device *device = runner->device;
  if (!hr_energy_is_counted(device))
    return HR_OK;
  double step_ns = device->backend->energy_step_ns, mean_ns = 0;
  hr_energy_meter *meter = NULL;
  if (runner->group > 1 || device->backend->time_runs) /* one long recording instead of many short ones */
    hr_runner_regroup(runner, (int64_t)ceil(step_ns / GROUPS_A_STEP / m->median_ns));
  HR_TRY(work(runner, o, HR_ENERGY_SETTLE_STEPS * step_ns, &mean_ns, error));
  if (hr_energy_meter_start(device, &meter, NULL) != HR_OK)
    return HR_OK; /* without a thread there is no energy, but there is a time */
  hr_status status = work(runner, o, HR_ENERGY_STEPS * step_ns, &mean_ns, error);
  double power_w, clock_hz;
  hr_energy_meter_stop(meter, &power_w, &clock_hz);
  HR_TRY(status);
  if (isnan(power_w)) /* runs so long, or the counter stood still */
    return HR_OK;
  m->energy_j = power_w * mean_ns * 1e-9;
  m->sustained_ns = mean_ns;
  m->sustained_power_w = power_w;
  m->sustained_clock_hz = clock_hz;
  return HR_OK;
}

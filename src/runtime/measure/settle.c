/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/settle.h"

#include "base/error.h"
#include "runtime/device/clock.h"
#include "runtime/measure/runner.h"

#include <math.h>
#include <string.h>

#define GEMM_SIZE 8192       /* large enough to draw the most power that GEMMs draw */
#define THROTTLED_SHARE 0.95 /* of the settled clock */

static hr_status work(hr_runner *runner, const hr_measure_options *o, double for_ns, hr_error *error)
{
  double start = hr_clock_ns(), time_ns;
  while (hr_clock_ns() - start < for_ns) {
    HR_TRY(hr_measure_check_cancelled(o, error));
    if (hr_runner_sample(runner, &time_ns, NULL) != HR_OK)
      return HR_OK;
  }
  return HR_OK;
}

hr_status hr_device_settle(hr_device *device, const hr_measure_options *options, hr_error *error)
{
  if (device->settled || device->backend->settle_ns <= 0)
    return HR_OK;
  const hr_gemm one = hr_gemm_default();
  hr_problem problem = hr_gemm_problem(&one);
  problem.gemm.m = problem.gemm.n = problem.gemm.k = GEMM_SIZE;
  problem.gemm.transpose_b = true;
  hr_measure_options warm = *options;
  warm.warm = true;
  warm.kernel = NULL;
  static const hr_dtype dtypes[] = {HR_BF16, HR_FP16}; /* the first that the device supports is used */
  hr_status status = HR_OK, opened = HR_ERROR_UNSUPPORTED;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes && opened == HR_ERROR_UNSUPPORTED; i++) {
    hr_runner runner;
    problem.dtype = problem.gemm.dtype = dtypes[i];
    opened = hr_runner_open(device, &problem, &warm, &runner, NULL);
    if (opened == HR_OK)
      status = work(&runner, options, device->backend->settle_ns, error);
    hr_runner_close(&runner);
  }
  HR_TRY(status);
  hr_conditions now;
  hr_device_conditions(device, &now);
  device->settled_clock_hz = opened == HR_OK ? now.clock_hz : (double)NAN;
  device->settled = true;
  return HR_OK;
}

bool hr_device_throttled(const hr_device *device, const hr_conditions *warm, const hr_conditions *now)
{
  double settled = device->settled_clock_hz;
  if (strcmp(now->throttled_by, HR_POWER_CAP) == 0)
    settled = fmin(settled, warm->clock_hz);
  return now->throttled_by[0] && now->clock_hz < THROTTLED_SHARE * settled;
}

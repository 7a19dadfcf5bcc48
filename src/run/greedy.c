/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "run/program.h"
#include "runtime/device/device.h"
#include "runtime/device/largest.h"

/* The results are behind the logits. */
hr_status hr_executor_largest(hr_executor *executor, int32_t *ids, hr_error *error)
{
  HR_NEED(error, executor, ids);
  const hr_run_program *p = executor->programs[0];
  hr_device *device = executor->device;
  if (!p || p->shape.phase == HR_PHASE_TRAIN)
    return hr_fail(error, HR_ERROR_INVALID, "no step has run that has logits");
  hr_largest_arguments x = {.dtype = executor->options.dtype, .columns = hr_executor_outputs(executor)};
  x.rows = hr_run_logit_rows(&p->shape);
  x.x = hr_buffer_data(p->logits);
  x.to = (int32_t *)(uintptr_t)((const char *)x.x + hr_run_logit_bytes(executor, x.rows));
  HR_TRY(hr_device_find_largest(device, &x, hr_device_stream(device), error));
  return device->backend->read(device, ids, x.to, (size_t)x.rows * sizeof *ids, error);
}

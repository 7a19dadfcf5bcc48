/* SPDX-License-Identifier: Apache-2.0 */
/* A second stream beside the device's own, for what ranks send while it computes. */
#include "runtime/cuda/driver/context.h"

#include "base/error.h"

static void free_queue(hr_cuda *cuda)
{
  const hr_driver *driver = &cuda->driver;
  for (int i = 0; i < HR_SIDE_MARKS; i++) {
    if (cuda->marks[i])
      driver->cuEventDestroy_v2(cuda->marks[i]);
    cuda->marks[i] = NULL;
  }
  if (cuda->forked)
    driver->cuEventDestroy_v2(cuda->forked);
  if (cuda->side)
    driver->cuStreamDestroy_v2(cuda->side);
  cuda->forked = NULL;
  cuda->side = NULL;
}

static hr_status make(hr_cuda *cuda, hr_error *error)
{
  const hr_driver *driver = &cuda->driver;
  int least = 0, greatest = 0;
  HR_TRY(HR_CU(driver, cuCtxGetStreamPriorityRange, (&least, &greatest), error));
  HR_TRY(HR_CU(driver, cuStreamCreateWithPriority, (&cuda->side, CU_STREAM_NON_BLOCKING, greatest), error));
  HR_TRY(HR_CU(driver, cuEventCreate, (&cuda->forked, CU_EVENT_NO_TIMES), error));
  for (int i = 0; i < HR_SIDE_MARKS; i++)
    HR_TRY(HR_CU(driver, cuEventCreate, (&cuda->marks[i], CU_EVENT_NO_TIMES), error));
  return HR_OK;
}

static hr_status fork_from(hr_cuda *cuda, hr_error *error)
{
  if (!cuda->marks[HR_SIDE_MARKS - 1]) {
    free_queue(cuda);
    HR_TRY(make(cuda, error));
  }
  HR_TRY(HR_CU(&cuda->driver, cuEventRecord, (cuda->forked, cuda->stream), error));
  return HR_CU(&cuda->driver, cuStreamWaitEvent, (cuda->side, cuda->forked, 0), error);
}

hr_status hr_cuda_fork(hr_device *device, void **stream, hr_error *error)
{
  hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = fork_from(cuda, error);
  hr_cuda_leave(cuda);
  *stream = cuda->side;
  return status;
}

hr_status hr_cuda_mark(hr_device *device, int mark, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = HR_CU(&cuda->driver, cuEventRecord, (cuda->marks[mark], cuda->side), error);
  hr_cuda_leave(cuda);
  return status;
}

hr_status hr_cuda_join(hr_device *device, int mark, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = HR_CU(&cuda->driver, cuStreamWaitEvent, (cuda->stream, cuda->marks[mark], 0), error);
  hr_cuda_leave(cuda);
  return status;
}

void hr_cuda_close_side(hr_cuda *cuda)
{
  if (!cuda->side || hr_cuda_enter(cuda, NULL) != HR_OK)
    return;
  cuda->driver.cuStreamSynchronize(cuda->side);
  free_queue(cuda);
  hr_cuda_leave(cuda);
}

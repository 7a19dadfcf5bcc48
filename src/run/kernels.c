/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include "runtime/device/device.h"

#define LAUNCH(name, member)                                                                                \
  hr_status hr_launch_##name(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at, \
                             hr_error *error)                                                               \
  {                                                                                                         \
    return hr_plan_run_##name(plan, &arguments->member, at->workspace, at->stream, error);                  \
  }
LAUNCH(gemm, gemm)
LAUNCH(attention, attention)
LAUNCH(rowwise, rows)
LAUNCH(decode, decode)
LAUNCH(attention_backward, backward)

/* What a device runs. */
#define LAUNCH_ON_DEVICE(name, run, ...)                                                                    \
  hr_status hr_launch_##name(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at, \
                             hr_error *error)                                                               \
  {                                                                                                         \
    (void)plan;                                                                                             \
    return run(at->device, (const void *)arguments, __VA_ARGS__);                                           \
  }
LAUNCH_ON_DEVICE(route, hr_device_route, at->stream, error)
LAUNCH_ON_DEVICE(squares, hr_device_add_squares, at->stream, error)
LAUNCH_ON_DEVICE(router, at->device->backend->route_few, at->stream, error)
LAUNCH_ON_DEVICE(linear, at->device->backend->multiply_linear, at->stream, error)
LAUNCH_ON_DEVICE(grouped, hr_device_multiply_groups, plan, at->workspace, at->stream, error)
LAUNCH_ON_DEVICE(q8, at->device->backend->multiply_q8, error)
LAUNCH_ON_DEVICE(q8_widening, at->device->backend->widen_q8, error)
LAUNCH_ON_DEVICE(fp8_widening, at->device->backend->widen_fp8, at->stream, error)
LAUNCH_ON_DEVICE(fp8_narrowing, at->device->backend->quantize_fp8, at->stream, error)
LAUNCH_ON_DEVICE(fp8, at->device->backend->multiply_fp8, at->workspace, at->stream, error)

hr_status hr_launch_between_replicas(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                                     hr_error *error)
{
  (void)plan;
  return hr_communicate(at->replicas, (const hr_collective_call *)(const void *)arguments, at->stream, error);
}

hr_status hr_launch_between_stages(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                                   hr_error *error)
{
  (void)plan;
  return hr_communicate(at->stages, (const hr_collective_call *)(const void *)arguments, at->stream, error);
}

hr_status hr_launch_collective(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                               hr_error *error)
{
  (void)plan;
  return hr_communicate(at->communicator, (const hr_collective_call *)(const void *)arguments, at->stream, error);
}

bool hr_sends_beside(const hr_communicator *communicator, hr_dtype dtype, int64_t count)
{
  hr_collective_call call = hr_collective_call_default();
  call.kind = HR_ALL_REDUCE;
  call.dtype = dtype;
  call.count = count;
  return hr_communicator_sends_beside(communicator, &call);
}

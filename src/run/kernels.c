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

/* What the backend runs without a plan. */
#define LAUNCH_WITHOUT_PLAN(name, run, ...)                                                                 \
  hr_status hr_launch_##name(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at, \
                             hr_error *error)                                                               \
  {                                                                                                         \
    (void)plan;                                                                                             \
    return run(at->device, (const void *)arguments, __VA_ARGS__);                                           \
  }
LAUNCH_WITHOUT_PLAN(route, hr_device_route, at->stream, error)
LAUNCH_WITHOUT_PLAN(router, at->device->backend->route_few, at->stream, error)
LAUNCH_WITHOUT_PLAN(linear, at->device->backend->multiply_linear, at->stream, error)
LAUNCH_WITHOUT_PLAN(q8, at->device->backend->multiply_q8, error)
LAUNCH_WITHOUT_PLAN(q8_widening, at->device->backend->widen_q8, error)

hr_status hr_launch_grouped(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                            hr_error *error)
{
  const hr_grouped_arguments *x = (const void *)arguments;
  return plan ? hr_plan_multiply_groups(plan, x, at->workspace, at->stream, error)
              : at->device->backend->multiply_groups(at->device, x, at->stream, error);
}

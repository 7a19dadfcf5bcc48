/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include "base/error.h"
#include "runtime/device/device.h"
#include "runtime/device/experts.h"

hr_status hr_launch_route(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                          hr_error *error)
{
  const hr_route_arguments *r = (const void *)arguments;
  const hr_backend *backend = at->device->backend;
  (void)plan;
  if (backend->route)
    return backend->route(at->device, r, at->stream, error);
  hr_host_route(r);
  return HR_OK;
}

hr_status hr_launch_router(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                           hr_error *error)
{
  (void)plan;
  return at->device->backend->route_few(at->device, (const void *)arguments, at->stream, error);
}

/* ---- their GEMMs ---- */

/* The copies of experts that have an odd number of plan's rows. */
static hr_status run_rows(const hr_plan *plan, const hr_grouped_arguments *x, const hr_launch_place *at,
                          hr_error *error)
{
  const size_t element = hr_dtype_bytes(x->dtype);
  for (int64_t expert = 0; expert < x->experts; expert++) {
    const int64_t copies = x->offsets[expert + 1] - x->offsets[expert];
    const int64_t first = x->offsets[expert] + copies % x->rows; /* behind those of smaller powers of two */
    hr_gemm_arguments one = hr_gemm_arguments_default();
    if (copies / x->rows % 2 == 0)
      continue;
    one.a = (const char *)x->a + (size_t)(first * x->k) * element;
    one.b = (const char *)x->b + (size_t)(expert * x->n * x->k) * element;
    one.c = (char *)x->c + (size_t)(first * x->n) * element;
    HR_TRY(hr_plan_run_gemm(plan, &one, at->workspace, at->stream, error));
  }
  return HR_OK;
}

hr_status hr_launch_grouped(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                            hr_error *error)
{
  const hr_grouped_arguments *x = (const void *)arguments;
  return plan ? run_rows(plan, x, at, error) : at->device->backend->multiply_groups(at->device, x, at->stream, error);
}

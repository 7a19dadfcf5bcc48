/* SPDX-License-Identifier: Apache-2.0 */
#include "training/experts.h"

#include "base/error.h"
#include "runtime/device/device.h"

#include <string.h>

hr_status hr_launch_route_backward(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                                   hr_error *error)
{
  const hr_route_backward_arguments *r = (const void *)arguments;
  const hr_backend *backend = at->device->backend;
  (void)plan;
  if (backend->route_backward)
    return backend->route_backward(at->device, r, at->stream, error);
  hr_host_route_backward(r);
  return HR_OK;
}

/* ---- gradients of experts' weights ---- */

/* Rows behind `first` of a tensor of `columns`, or where they are fewer than the plan's, a copy with zeros behind. */
static const void *rows_or_padded(const hr_grouped_gradient_arguments *x, const void *from, void *room, int64_t columns,
                                  int64_t first, int64_t count)
{
  const size_t row = (size_t)columns * hr_dtype_bytes(x->dtype);
  const char *rows = (const char *)from + (size_t)first * row;
  if (count == x->rows)
    return rows;
  memcpy(room, rows, (size_t)count * row);
  memset((char *)room + (size_t)count * row, 0, (size_t)(x->rows - count) * row);
  return room;
}

static hr_status run_expert(const hr_plan *plan, const hr_grouped_gradient_arguments *x, const hr_launch_place *at,
                            int64_t expert, hr_error *error)
{
  const int64_t first = x->offsets[expert], count = x->offsets[expert + 1] - first;
  const size_t bytes = (size_t)(x->n * x->k) * hr_dtype_bytes(x->dtype);
  char *dw = (char *)x->dw + (size_t)expert * bytes;
  hr_gemm_arguments one = hr_gemm_arguments_default();
  if (count == 0 && x->rows == 1)
    memset(dw, 0, bytes);
  if (count > x->rows || count <= x->rows / 2)
    return HR_OK;
  one.a = rows_or_padded(x, x->dy, x->padded_dy, x->n, first, count);
  one.b = rows_or_padded(x, x->x, x->padded_x, x->k, first, count);
  one.c = dw;
  return hr_plan_run_gemm(plan, &one, at->workspace, at->stream, error);
}

hr_status hr_launch_grouped_gradient(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                                     hr_error *error)
{
  const hr_grouped_gradient_arguments *x = (const void *)arguments;
  if (!plan)
    return at->device->backend->group_gradients(at->device, x, at->stream, error);
  for (int64_t expert = 0; expert < x->experts; expert++)
    HR_TRY(run_expert(plan, x, at, expert, error));
  return HR_OK;
}

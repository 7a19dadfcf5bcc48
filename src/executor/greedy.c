/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "base/error.h"
#include "executor/replicas.h"
#include "run/program.h"
#include "runtime/device/device.h"
#include "runtime/device/largest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a rank has found in its part of the rows: [2, rows], their ids and then their values. */
typedef union found {
  int32_t id;
  float value;
} found;

/* The results are behind the logits. A rank looks at its own columns, without those that fill up the last part. */
static hr_largest_arguments arguments_of(const hr_executor *x, const hr_run_program *p)
{
  const int64_t own = x->model.vocabulary, first = x->rank * own;
  hr_largest_arguments a = {.dtype = x->options.dtype, .stride = own, .first = first};
  a.rows = hr_run_logit_rows(&p->shape);
  a.columns = hr_max64(0, hr_min64(own, x->whole.vocabulary - first));
  a.x = hr_buffer_data(p->logits);
  a.to = (int32_t *)(uintptr_t)((const char *)a.x + hr_run_logit_bytes(x, a.rows));
  a.values = (float *)(uintptr_t)(a.to + a.rows);
  return a;
}

/* The first of equal ones is of the first rank that has one. */
static int32_t id_of_row(const found *all, int64_t ranks, int64_t rows, int64_t row)
{
  const found *best = all + row;
  for (int64_t rank = 1; rank < ranks; rank++) {
    const found *other = all + 2 * rank * rows + row;
    best = other[rows].value > best[rows].value ? other : best;
  }
  return best->id;
}

static hr_status choose_of_stages(hr_executor *x, const hr_largest_arguments *a, int32_t *ids, hr_error *error)
{
  const size_t bytes = (size_t)a->rows * sizeof *ids;
  const hr_status status = hr_run_is_last(x) ? x->device->backend->read(x->device, ids, a->to, bytes, error) : HR_OK;
  return status == HR_OK ? hr_take_from_last(x, ids, bytes, error) : status;
}

static hr_status choose_of_ranks(hr_executor *x, const hr_largest_arguments *a, int32_t *ids, hr_error *error)
{
  const size_t count = 2 * (size_t)a->rows;
  found *all = malloc((size_t)(x->ranks + 1) * count * sizeof *all), *own = all + (size_t)x->ranks * count;
  if (!all)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the ids of %" PRId64 " tokens", a->rows);
  hr_status status = x->device->backend->read(x->device, own, a->to, count * sizeof *own, error);
  if (status == HR_OK)
    status = hr_communicator_share(x->options.communicator, own, count * sizeof *own, all, error);
  for (int64_t row = 0; row < a->rows && status == HR_OK; row++)
    ids[row] = id_of_row(all, x->ranks, a->rows, row);
  free(all);
  return status;
}

hr_status hr_executor_largest(hr_executor *executor, int32_t *ids, hr_error *error)
{
  HR_NEED(error, executor, ids);
  const hr_run_program *p = executor->programs[0];
  hr_device *device = executor->device;
  if (!p || p->shape.phase == HR_PHASE_TRAIN)
    return hr_fail(error, HR_ERROR_INVALID, "no step has run that has logits");
  const hr_largest_arguments a = arguments_of(executor, p);
  if (hr_run_is_last(executor))
    HR_TRY(hr_device_find_largest(device, &a, hr_device_stream(device), error));
  if (executor->stages > 1)
    return choose_of_stages(executor, &a, ids, error);
  return executor->ranks > 1 ? choose_of_ranks(executor, &a, ids, error)
                             : device->backend->read(device, ids, a.to, (size_t)a.rows * sizeof *ids, error);
}

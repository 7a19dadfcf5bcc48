/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/rowwise.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "shape/alignment.h"
#include "shape/rowwise.h"

static const char *const names[] = {
#define HR_ROWWISE_NAME(enumerator, name, inputs, sentence) name,
    HR_ROWWISE_LIST(HR_ROWWISE_NAME)
#undef HR_ROWWISE_NAME
};

static const int inputs_of[] = {
#define HR_ROWWISE_INPUTS(enumerator, name, inputs, sentence) inputs,
    HR_ROWWISE_LIST(HR_ROWWISE_INPUTS)
#undef HR_ROWWISE_INPUTS
};

void hr_rowwise_init(hr_rowwise *rowwise, size_t size)
{
  HR_INIT(rowwise, size,
          (hr_rowwise){.operation = HR_ROWWISE_SOFTMAX, .rows = 1, .columns = 1, .dtype = HR_BF16, .group = 1});
}

const char *hr_rowwise_operation_name(hr_rowwise_operation operation)
{
  return hr_name_of(names, HR_ROWWISE_COUNT, (int)operation);
}

int hr_rowwise_inputs(hr_rowwise_operation operation)
{
  return (unsigned)operation < HR_ROWWISE_COUNT ? inputs_of[operation] : 0;
}

int64_t hr_rowwise_dropped(const hr_rowwise *rows)
{
  if (!rows || rows->operation != HR_ROWWISE_DROPOUT || !(rows->rate > 0))
    return 0;
  return rows->rate * 65536 + 0.5 < 65535 ? (int64_t)(rows->rate * 65536 + 0.5) : 65535;
}

/* Elements of all inputs and the output: tensors [rows, columns], weights [columns], a table [period, columns]. */
static hr_checked64 elements(const hr_rowwise *r)
{
  hr_checked64 tensor = hr_times(hr_checked(r->rows), r->columns), row = hr_checked(r->columns);
  hr_checked64 sum = hr_plus(tensor, tensor); /* x and y */
  switch (r->operation) {
  case HR_ROWWISE_LAYER_NORM: return hr_plus(sum, hr_times(row, 2));
  case HR_ROWWISE_RMS_NORM: return hr_plus(sum, row);
  case HR_ROWWISE_ROTARY: return hr_plus(sum, hr_times(hr_checked(hr_rowwise_rotated(r)), r->period));
  case HR_ROWWISE_BIAS: return hr_plus(sum, row);
  case HR_ROWWISE_GEGLU_TANH:
  case HR_ROWWISE_SWIGLU:
  case HR_ROWWISE_RESIDUAL: return hr_plus(sum, tensor);
  case HR_ROWWISE_SOFTMAX:
  case HR_ROWWISE_GELU:
  case HR_ROWWISE_DROPOUT:
  case HR_ROWWISE_GELU_TANH:
  case HR_ROWWISE_RELU:
  case HR_ROWWISE_RELU2:
  case HR_ROWWISE_SCALE:
  case HR_ROWWISE_COPY:
  case HR_ROWWISE_GATHER:
  case HR_ROWWISE_COUNT: break;
  }
  return sum;
}

hr_status hr_rowwise_bytes(const hr_rowwise *rows, int64_t *bytes)
{
  HR_NEED(NULL, rows, bytes);
  hr_checked64 numbers = hr_times(hr_checked(rows->operation == HR_ROWWISE_GATHER ? rows->rows : 0), sizeof(int32_t));
  return hr_checked_take(hr_plus(hr_times(elements(rows), (int64_t)hr_dtype_bytes(rows->dtype)), numbers), bytes);
}

/* Operations that read a table of `period` rows. */
static bool has_table(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_GATHER;
}

static bool may_have_stride(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_COPY || operation == HR_ROWWISE_BIAS;
}

static hr_status check_places(const hr_rowwise *rows, hr_error *error)
{
  int64_t group, span;
  if (rows->x_stride == 0)
    return HR_OK;
  if (!may_have_stride(rows->operation))
    return hr_fail(error, HR_ERROR_INVALID, "x_stride: %s has rows side by side",
                   hr_rowwise_operation_name(rows->operation));
  if (rows->group < 1 || rows->rows % rows->group != 0)
    return hr_fail(error, HR_ERROR_INVALID, "group: does not divide the rows");
  if (hr_checked_take(hr_times(hr_checked(rows->group), rows->columns), &group) != HR_OK || rows->x_stride < group)
    return hr_fail(error, HR_ERROR_INVALID, "x_stride: is less than the columns of a group");
  if (hr_checked_take(hr_times(hr_times(hr_checked(rows->rows), rows->x_stride), 64), &span) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "rows × x_stride: the bytes do not fit 63 bits");
  return HR_OK;
}

static hr_status check_numbers(const hr_rowwise *rows, hr_error *error)
{
  if (rows->operation == HR_ROWWISE_ROTARY &&
      (hr_rowwise_rotated(rows) % 2 != 0 || rows->rotated < 0 || rows->rotated > rows->columns))
    return hr_fail(error, HR_ERROR_INVALID, "columns, rotated: rotary needs an even number of columns, at most all");
  if (rows->operation == HR_ROWWISE_DROPOUT && !(rows->rate >= 0 && rows->rate < 1))
    return hr_fail(error, HR_ERROR_INVALID, "rate: expected 0 to less than 1, found %g", rows->rate);
  if (!(rows->epsilon >= 0))
    return hr_fail(error, HR_ERROR_INVALID, "epsilon: expected at least 0, found %g", rows->epsilon);
  return HR_OK;
}

hr_status hr_rowwise_check(const hr_rowwise *rows, hr_error *error)
{
  HR_NEED(error, rows);
  HR_TAKE(hr_rowwise, rows, error);
  int64_t bytes;
  if ((unsigned)rows->operation >= HR_ROWWISE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "operation: %d is not in the list of row-wise operations",
                   (int)rows->operation);
  if (hr_dtype_bytes(rows->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)rows->dtype);
  HR_TRY(hr_check_alignment(rows->alignment, rows->dtype, error));
  if (rows->rows < 1 || rows->columns < 1)
    return hr_fail(error, HR_ERROR_INVALID, "rows, columns: expected at least 1");
  if (rows->period < 0 || (has_table(rows->operation) && (rows->period < 1 || rows->group < 1)))
    return hr_fail(error, HR_ERROR_INVALID, "period, group: expected at least 1");
  HR_TRY(check_numbers(rows, error));
  if (hr_rowwise_bytes(rows, &bytes) != HR_OK || bytes > INT64_MAX / 8) /* the reference needs 8 bytes per element */
    return hr_fail(error, HR_ERROR_OVERFLOW, "rows × columns: the bytes do not fit 63 bits");
  return check_places(rows, error);
}

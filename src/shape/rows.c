#include <headroom/rows.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"

static const char *const names[] = {
#define HR_ROWS_NAME(enumerator, name, inputs, sentence) name,
    HR_ROWS_LIST(HR_ROWS_NAME)
#undef HR_ROWS_NAME
};

static const int inputs_of[] = {
#define HR_ROWS_INPUTS(enumerator, name, inputs, sentence) inputs,
    HR_ROWS_LIST(HR_ROWS_INPUTS)
#undef HR_ROWS_INPUTS
};

hr_rows hr_rows_default(void)
{
  return (hr_rows){.struct_size = sizeof(hr_rows),
                   .operation = HR_ROWS_SOFTMAX,
                   .rows = 1,
                   .columns = 1,
                   .dtype = HR_BF16,
                   .group = 1};
}

const char *hr_rows_operation_name(hr_rows_operation operation)
{
  return hr_name_of(names, HR_ROWS_COUNT, (int)operation);
}

int hr_rows_inputs(hr_rows_operation operation)
{
  return (unsigned)operation < HR_ROWS_COUNT ? inputs_of[operation] : 0;
}

/* Elements of all inputs and the result: tensors of the rows' size, rows of weights, a table. */
static hr_checked64 elements(const hr_rows *r)
{
  hr_checked64 tensor = hr_times(hr_checked(r->rows), r->columns), row = hr_checked(r->columns);
  hr_checked64 sum = hr_plus(tensor, tensor); /* x and y */
  switch (r->operation) {
  case HR_ROWS_LAYER_NORM: return hr_plus(sum, hr_times(row, 2));
  case HR_ROWS_RMS_NORM: return hr_plus(sum, row);
  case HR_ROWS_ROTARY: return hr_plus(sum, hr_times(row, r->period));
  case HR_ROWS_SWIGLU:
  case HR_ROWS_RESIDUAL: return hr_plus(sum, tensor);
  case HR_ROWS_SOFTMAX:
  case HR_ROWS_GELU:
  case HR_ROWS_COUNT: break;
  }
  return sum;
}

hr_status hr_rows_bytes(const hr_rows *rows, int64_t *bytes)
{
  HR_NEED(NULL, rows, bytes);
  return hr_checked_take(hr_times(elements(rows), (int64_t)hr_dtype_bytes(rows->dtype)), bytes);
}

hr_status hr_rows_check(const hr_rows *rows, hr_error *error)
{
  HR_NEED(error, rows);
  HR_TRY(hr_check_struct_size("hr_rows", rows->struct_size, sizeof(hr_rows), error));
  int64_t bytes;
  if ((unsigned)rows->operation >= HR_ROWS_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "operation: %d is no operation on rows", (int)rows->operation);
  if (hr_dtype_bytes(rows->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is no number format", (int)rows->dtype);
  if (rows->rows < 1 || rows->columns < 1)
    return hr_fail(error, HR_ERROR_INVALID, "rows, columns: expected at least 1");
  if (rows->period < 0 || (rows->operation == HR_ROWS_ROTARY && (rows->period < 1 || rows->group < 1)))
    return hr_fail(error, HR_ERROR_INVALID, "period, group: expected at least 1");
  if (rows->operation == HR_ROWS_ROTARY && rows->columns % 2 != 0)
    return hr_fail(error, HR_ERROR_INVALID, "columns: rotary turns pairs, and needs an even number of them");
  if (hr_rows_bytes(rows, &bytes) != HR_OK ||
      bytes > INT64_MAX / 8) /* the host keeps 8 bytes an element now and then */
    return hr_fail(error, HR_ERROR_OVERFLOW, "rows × columns: the bytes do not fit 63 bits");
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/rowwise.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "shape/alignment.h"
#include "shape/rowwise.h"
#include "shape/rowwise_operands.h"

#include <math.h>

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

HR_DEFINE_NAME(hr_rowwise_operation_name, hr_rowwise_operation, names, HR_ROWWISE_COUNT)

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

static hr_checked64 bytes_of(const hr_rowwise *r, const hr_rowwise_operand *operand)
{
  return hr_times(hr_rowwise_elements(r, operand), hr_rowwise_element_bytes(r, operand));
}

static bool clips(const hr_rowwise *r)
{
  return r->operation == HR_ROWWISE_ADAMW && r->max_norm > 0;
}

hr_status hr_rowwise_bytes(const hr_rowwise *rows, int64_t *bytes)
{
  HR_NEED(NULL, rows, bytes);
  const hr_rowwise_operands of = hr_rowwise_operands_of(rows);
  hr_checked64 sum = clips(rows) ? bytes_of(rows, &of.input[0]) : hr_checked(0);
  for (int i = 0; i < of.inputs; i++)
    sum = hr_plus(sum, bytes_of(rows, &of.input[i]));
  for (int i = 0; i < of.outputs; i++)
    sum = hr_plus(sum, bytes_of(rows, &of.output[i]));
  return hr_checked_take(sum, bytes);
}

static bool is_rotary(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_ROTARY_BACKWARD;
}

/* Operations that read a table of `period` rows. */
static bool has_table(hr_rowwise_operation operation)
{
  return is_rotary(operation) || operation == HR_ROWWISE_GATHER || operation == HR_ROWWISE_COMBINE ||
         operation == HR_ROWWISE_ROTARY_JOIN || operation == HR_ROWWISE_GATHER_BACKWARD ||
         operation == HR_ROWWISE_GATHER_SUM || operation == HR_ROWWISE_COMBINE_BACKWARD;
}

static bool adds_terms(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_COMBINE || operation == HR_ROWWISE_GATHER_SUM;
}

static bool is_share(double value)
{
  return value >= 0 && value < 1;
}

static hr_status check_adamw(const hr_rowwise *r, hr_error *error)
{
  if (!is_share(r->beta1) || !is_share(r->beta2))
    return hr_fail(error, HR_ERROR_INVALID, "beta1, beta2: expected 0 to less than 1, found %g, %g", r->beta1,
                   r->beta2);
  if (!(r->max_norm >= 0))
    return hr_fail(error, HR_ERROR_INVALID, "max_norm: expected at least 0, found %g", r->max_norm);
  if (!isfinite(r->learning_rate) || !isfinite(r->weight_decay))
    return hr_fail(error, HR_ERROR_INVALID, "learning_rate, weight_decay: expected numbers, found %g, %g",
                   r->learning_rate, r->weight_decay);
  return r->step >= 0 ? HR_OK : hr_fail(error, HR_ERROR_INVALID, "step: expected at least 0");
}

static hr_status check_rotated(const hr_rowwise *r, hr_error *error)
{
  if (hr_rowwise_rotated(r) % 2 != 0 || r->rotated < 0 || r->rotated > r->columns)
    return hr_fail(error, HR_ERROR_INVALID, "columns, rotated: rotary needs an even number of columns, at most all");
  if (r->operation == HR_ROWWISE_ROTARY_BACKWARD && (r->interleaved || hr_rowwise_rotated(r) < r->columns))
    return hr_fail(error, HR_ERROR_INVALID, "rotated, interleaved: rotary_backward rotates whole rows by halves");
  return HR_OK;
}

static hr_status check_join(const hr_rowwise *r, hr_error *error)
{
  const int64_t most = (int64_t)1 << 40;
  if (r->rotated < 2 || r->rotated % 2 != 0 || r->rotated >= r->columns)
    return hr_fail(error, HR_ERROR_INVALID, "rotated: rotary_join needs an even number below the columns");
  if (r->rows % r->group != 0)
    return hr_fail(error, HR_ERROR_INVALID, "group: does not divide the rows");
  if (r->columns > most || r->x_row > most || r->z_row > most || r->z_stride > most || r->group > most / r->columns)
    return hr_fail(error, HR_ERROR_OVERFLOW, "columns, x_row, z_row, z_stride, group: expected at most 2^40 elements");
  if (r->x_row < 0 || hr_rowwise_x_row(r) < hr_rowwise_x_columns(r))
    return hr_fail(error, HR_ERROR_INVALID, "x_row: is less than the columns of x");
  if (r->z_row < 0 || (r->z_row > 0 && r->z_row < r->rotated))
    return hr_fail(error, HR_ERROR_INVALID, "z_row: is less than the columns of z");
  if (hr_rowwise_z_stride(r) < (r->group - 1) * r->z_row + r->rotated)
    return hr_fail(error, HR_ERROR_INVALID, "z_stride: is less than the columns of a group");
  return HR_OK;
}

static bool may_have_stride(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_COPY || operation == HR_ROWWISE_BIAS ||
         operation == HR_ROWWISE_ROTARY_JOIN;
}

/* Elements from the first to the last of a group of x. */
static hr_checked64 group_of_x(const hr_rowwise *r)
{
  return hr_plus(hr_times(hr_checked(r->group - 1), hr_rowwise_x_row(r)), hr_checked(hr_rowwise_x_columns(r)));
}

/* Groups of rows that are a stride apart. */
typedef struct stride_rule {
  const char *name;
  int64_t stride;
  hr_checked64 group; /* elements from the first to the last of a group */
  bool allowed;
} stride_rule;

static hr_status check_stride(const hr_rowwise *rows, const stride_rule *rule, hr_error *error)
{
  int64_t group, span;
  if (rule->stride == 0)
    return HR_OK;
  if (!rule->allowed)
    return hr_fail(error, HR_ERROR_INVALID, "%s: %s has rows side by side", rule->name,
                   hr_rowwise_operation_name(rows->operation));
  if (rows->group < 1 || rows->rows % rows->group != 0)
    return hr_fail(error, HR_ERROR_INVALID, "group: does not divide the rows");
  if (hr_checked_take(rule->group, &group) != HR_OK || rule->stride < group)
    return hr_fail(error, HR_ERROR_INVALID, "%s: is less than the columns of a group", rule->name);
  if (hr_checked_take(hr_times(hr_times(hr_checked(rows->rows), rule->stride), 64), &span) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "rows × %s: the bytes do not fit 63 bits", rule->name);
  return HR_OK;
}

static hr_status check_places(const hr_rowwise *rows, hr_error *error)
{
  const bool to_stride = rows->operation == HR_ROWWISE_ROTARY || rows->operation == HR_ROWWISE_COPY;
  const stride_rule x = {"x_stride", rows->x_stride, group_of_x(rows), may_have_stride(rows->operation)};
  const stride_rule y = {"y_stride", rows->y_stride, hr_times(hr_checked(rows->group), rows->columns), to_stride};
  HR_TRY(check_stride(rows, &x, error));
  return check_stride(rows, &y, error);
}

static hr_status check_heads(const hr_rowwise *r, hr_error *error)
{
  int64_t rows;
  if (r->period < 1 || r->group < 1 || hr_checked_take(hr_times(hr_checked(r->period), r->group), &rows) != HR_OK ||
      r->rows % rows != 0)
    return hr_fail(error, HR_ERROR_INVALID, "period, group: sink needs whole sequences of queries and heads");
  return HR_OK;
}

static hr_status check_members(const hr_rowwise *r, hr_error *error)
{
  if (r->period < 0 || (has_table(r->operation) && (r->period < 1 || r->group < 1)))
    return hr_fail(error, HR_ERROR_INVALID, "period, group: expected at least 1");
  if (is_rotary(r->operation))
    HR_TRY(check_rotated(r, error));
  if (r->operation == HR_ROWWISE_ROTARY_JOIN)
    HR_TRY(check_join(r, error));
  if (r->operation == HR_ROWWISE_SINK)
    HR_TRY(check_heads(r, error));
  if (r->operation == HR_ROWWISE_GATHER_BACKWARD && r->factor != 0 && r->factor != 1)
    return hr_fail(error, HR_ERROR_INVALID, "factor: gather_backward takes 0 or 1, found %g", r->factor);
  if (adds_terms(r->operation) && r->group > HR_ROWWISE_TERMS_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "group: %s adds at most %d rows", hr_rowwise_operation_name(r->operation),
                   HR_ROWWISE_TERMS_MAX);
  if (!(r->epsilon >= 0))
    return hr_fail(error, HR_ERROR_INVALID, "epsilon: expected at least 0, found %g", r->epsilon);
  if (r->operation == HR_ROWWISE_DROPOUT && !is_share(r->rate))
    return hr_fail(error, HR_ERROR_INVALID, "rate: expected 0 to less than 1, found %g", r->rate);
  if (hr_rowwise_trains(r->operation) && r->dtype == HR_FP8_E4M3)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %s is of a wider format than fp8",
                   hr_rowwise_operation_name(r->operation));
  if (r->operation == HR_ROWWISE_CROSS_ENTROPY_BACKWARD && !isfinite(r->scale))
    return hr_fail(error, HR_ERROR_INVALID, "scale: expected a number, found %g", r->scale);
  return r->operation == HR_ROWWISE_ADAMW ? check_adamw(r, error) : HR_OK;
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
  HR_TRY(check_members(rows, error));
  if (hr_rowwise_bytes(rows, &bytes) != HR_OK || bytes > INT64_MAX / 8) /* the reference needs 8 bytes per element */
    return hr_fail(error, HR_ERROR_OVERFLOW, "rows × columns: the bytes do not fit 63 bits");
  return check_places(rows, error);
}

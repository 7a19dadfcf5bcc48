/* SPDX-License-Identifier: Apache-2.0 */
/* Where the rows of a row-wise operation are. Thread safety: pure functions of a problem that has been checked. */
#ifndef HR_SHAPE_ROWWISE_H
#define HR_SHAPE_ROWWISE_H

#include <headroom/rowwise.h>

/** Columns that rotary rotates, which its table has. */
static inline int64_t hr_rowwise_rotated(const hr_rowwise *r)
{
  return r->rotated > 0 ? r->rotated : r->columns;
}

/** Columns of x. */
static inline int64_t hr_rowwise_x_columns(const hr_rowwise *r)
{
  return r->operation == HR_ROWWISE_ROTARY_JOIN ? r->columns - r->rotated : r->columns;
}

/** Elements from a row of x to the next in its group. */
static inline int64_t hr_rowwise_x_row(const hr_rowwise *r)
{
  return r->x_row > 0 ? r->x_row : hr_rowwise_x_columns(r);
}

/** The first element of a row of x. */
static inline int64_t hr_rowwise_x_at(const hr_rowwise *r, int64_t row)
{
  const int64_t each = hr_rowwise_x_row(r);
  return r->x_stride > 0 ? row / r->group * r->x_stride + row % r->group * each : row * each;
}

/** Elements from the first of x to the end of the last. */
static inline int64_t hr_rowwise_x_span(const hr_rowwise *r)
{
  return hr_rowwise_x_at(r, r->rows - 1) + hr_rowwise_x_columns(r);
}

/** The first element of a row of y. */
static inline int64_t hr_rowwise_y_at(const hr_rowwise *r, int64_t row)
{
  return r->y_stride > 0 ? row / r->group * r->y_stride + row % r->group * r->columns : row * r->columns;
}

/** Elements from a group of z to the next. */
static inline int64_t hr_rowwise_z_stride(const hr_rowwise *r)
{
  return r->z_stride > 0 ? r->z_stride : r->z_row > 0 ? r->group * r->z_row : r->rotated;
}

/** The first element of z of a row. */
static inline int64_t hr_rowwise_z_at(const hr_rowwise *r, int64_t row)
{
  return row / r->group * hr_rowwise_z_stride(r) + row % r->group * r->z_row;
}

/** Where attention has written the log-sum-exp of a row, which is a head of a query. */
static inline int64_t hr_rowwise_lse_at(const hr_rowwise *r, int64_t row)
{
  const int64_t head = row % r->group, query = row / r->group % r->period, sequence = row / r->group / r->period;
  return (sequence * r->group + head) * r->period + query;
}

/** The factor of a soft cap or a clamp. */
static inline double hr_rowwise_cap(const hr_rowwise *r)
{
  return r->factor == 0 ? 1 : r->factor;
}

/** What a norm adds to the mean of squares. */
static inline double hr_rowwise_epsilon(const hr_rowwise *r)
{
  return r->epsilon > 0 ? r->epsilon : 1e-5;
}

/** Whether the operation is element by element, so that rows do not matter. */
static inline bool hr_rowwise_by_element(hr_rowwise_operation operation)
{
  switch (operation) {
  case HR_ROWWISE_GELU:
  case HR_ROWWISE_GELU_TANH:
  case HR_ROWWISE_RELU:
  case HR_ROWWISE_RELU2:
  case HR_ROWWISE_SWIGLU:
  case HR_ROWWISE_GEGLU:
  case HR_ROWWISE_GEGLU_TANH:
  case HR_ROWWISE_SWIGLU_CLAMPED:
  case HR_ROWWISE_SCALE:
  case HR_ROWWISE_SOFTCAP:
  case HR_ROWWISE_RESIDUAL:
  case HR_ROWWISE_DROPOUT:
  case HR_ROWWISE_GELU_BACKWARD:
  case HR_ROWWISE_SWIGLU_BACKWARD:
  case HR_ROWWISE_GELU_TANH_BACKWARD:
  case HR_ROWWISE_RELU_BACKWARD:
  case HR_ROWWISE_RELU2_BACKWARD:
  case HR_ROWWISE_SOFTCAP_BACKWARD:
  case HR_ROWWISE_GEGLU_BACKWARD:
  case HR_ROWWISE_GEGLU_TANH_BACKWARD:
  case HR_ROWWISE_ADAMW: return true;
  default: return false;
  }
}

#endif

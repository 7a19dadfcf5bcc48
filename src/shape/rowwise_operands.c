/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/rowwise_operands.h"

#include "shape/rowwise.h"

#include <math.h>

#define USUAL_EPSILON 1e-8 /* of AdamW */

#define TENSOR                              \
  {                                         \
    HR_EXTENT_TENSOR, HR_CONTENT_NUMBERS, 0 \
  }
#define ROW                              \
  {                                      \
    HR_EXTENT_ROW, HR_CONTENT_NUMBERS, 0 \
  }
#define STRIDED                              \
  {                                          \
    HR_EXTENT_STRIDED, HR_CONTENT_NUMBERS, 0 \
  }
#define PART                              \
  {                                       \
    HR_EXTENT_PART, HR_CONTENT_NUMBERS, 0 \
  }
#define ANGLES                              \
  {                                         \
    HR_EXTENT_ANGLES, HR_CONTENT_NUMBERS, 0 \
  }
#define NUMBERS_OF_ROWS                  \
  {                                      \
    HR_EXTENT_COLUMN, HR_CONTENT_ROWS, 0 \
  }
#define TABLE                              \
  {                                        \
    HR_EXTENT_TABLE, HR_CONTENT_NUMBERS, 0 \
  }
#define SUMS                              \
  {                                       \
    HR_EXTENT_SUMS, HR_CONTENT_NUMBERS, 0 \
  }
#define RESULT                              \
  {                                         \
    HR_EXTENT_RESULT, HR_CONTENT_NUMBERS, 0 \
  }
#define TARGETS                             \
  {                                         \
    HR_EXTENT_COLUMN, HR_CONTENT_TARGETS, 0 \
  }
#define LOSSES                           \
  {                                      \
    HR_EXTENT_COLUMN, HR_CONTENT_FP32, 0 \
  }
#define GATES                               \
  {                                         \
    HR_EXTENT_COLUMN, HR_CONTENT_NUMBERS, 0 \
  }
#define SINKS                           \
  {                                     \
    HR_EXTENT_HEADS, HR_CONTENT_FP32, 0 \
  }
#define NUMBERS_OF_TERMS                \
  {                                     \
    HR_EXTENT_TERMS, HR_CONTENT_ROWS, 0 \
  }
#define WEIGHTS_OF_TERMS                \
  {                                     \
    HR_EXTENT_TERMS, HR_CONTENT_FP32, 0 \
  }
#define STATE                            \
  {                                      \
    HR_EXTENT_TENSOR, HR_CONTENT_FP32, 0 \
  }
#define VARIANCES                             \
  {                                           \
    HR_EXTENT_TENSOR, HR_CONTENT_VARIANCES, 0 \
  }
#define REPLACES(input, content)           \
  {                                        \
    HR_EXTENT_TENSOR, content, 1 + (input) \
  }

static const hr_rowwise_operands operands[HR_ROWWISE_COUNT] = {
    [HR_ROWWISE_SOFTMAX] = {1, 1, {TENSOR}, {TENSOR}},
    [HR_ROWWISE_LAYER_NORM] = {3, 1, {TENSOR, ROW, ROW}, {TENSOR}},
    [HR_ROWWISE_RMS_NORM] = {2, 1, {TENSOR, ROW}, {TENSOR}},
    [HR_ROWWISE_ROTARY] = {2, 1, {STRIDED, ANGLES}, {RESULT}},
    [HR_ROWWISE_GELU] = {1, 1, {TENSOR}, {TENSOR}},
    [HR_ROWWISE_SWIGLU] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_RESIDUAL] = {2, 1, {TENSOR, TENSOR}, {REPLACES(0, HR_CONTENT_NUMBERS)}},
    [HR_ROWWISE_DROPOUT] = {1, 1, {TENSOR}, {TENSOR}},
    [HR_ROWWISE_SOFTMAX_BACKWARD] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_LAYER_NORM_BACKWARD] = {3, 3, {TENSOR, TENSOR, ROW}, {TENSOR, ROW, ROW}},
    [HR_ROWWISE_RMS_NORM_BACKWARD] = {3, 2, {TENSOR, TENSOR, ROW}, {TENSOR, ROW}},
    [HR_ROWWISE_ROTARY_BACKWARD] = {2, 1, {TENSOR, ANGLES}, {TENSOR}},
    [HR_ROWWISE_GELU_BACKWARD] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_SWIGLU_BACKWARD] = {3, 2, {TENSOR, TENSOR, TENSOR}, {TENSOR, TENSOR}},
    [HR_ROWWISE_BIAS_BACKWARD] = {1, 1, {TENSOR}, {ROW}},
    [HR_ROWWISE_CROSS_ENTROPY] = {2, 1, {TENSOR, TARGETS}, {LOSSES}},
    [HR_ROWWISE_CROSS_ENTROPY_BACKWARD] = {2, 2, {TENSOR, TARGETS}, {REPLACES(0, HR_CONTENT_NUMBERS), LOSSES}},
    [HR_ROWWISE_ADAMW] = {4,
                          4,
                          {TENSOR, STATE, STATE, VARIANCES},
                          {REPLACES(1, HR_CONTENT_FP32), REPLACES(2, HR_CONTENT_FP32), REPLACES(3, HR_CONTENT_FP32),
                           TENSOR}},
    [HR_ROWWISE_RESIDUAL_LAYER_NORM] = {4, 2, {TENSOR, TENSOR, ROW, ROW}, {TENSOR, REPLACES(0, HR_CONTENT_NUMBERS)}},
    [HR_ROWWISE_RESIDUAL_RMS_NORM] = {3, 2, {TENSOR, TENSOR, ROW}, {TENSOR, REPLACES(0, HR_CONTENT_NUMBERS)}},
    [HR_ROWWISE_GELU_TANH] = {1, 1, {TENSOR}, {TENSOR}},
    [HR_ROWWISE_RELU] = {1, 1, {TENSOR}, {TENSOR}},
    [HR_ROWWISE_RELU2] = {1, 1, {TENSOR}, {TENSOR}},
    [HR_ROWWISE_GEGLU] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_GEGLU_TANH] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_SCALE] = {1, 1, {TENSOR}, {TENSOR}},
    [HR_ROWWISE_COPY] = {1, 1, {STRIDED}, {RESULT}},
    [HR_ROWWISE_BIAS] = {2, 1, {STRIDED, ROW}, {TENSOR}},
    [HR_ROWWISE_GATHER] = {2, 1, {NUMBERS_OF_ROWS, TABLE}, {TENSOR}},
    [HR_ROWWISE_SOFTCAP] = {1, 1, {TENSOR}, {TENSOR}},
    [HR_ROWWISE_WEIGHT] = {2, 1, {TENSOR, ROW}, {TENSOR}},
    [HR_ROWWISE_GATE] = {2, 1, {TENSOR, GATES}, {TENSOR}},
    [HR_ROWWISE_SINK] = {3, 1, {TENSOR, LOSSES, SINKS}, {TENSOR}},
    [HR_ROWWISE_SWIGLU_CLAMPED] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_COMBINE] = {3, 1, {NUMBERS_OF_TERMS, TABLE, WEIGHTS_OF_TERMS}, {TENSOR}},
    [HR_ROWWISE_ROTARY_JOIN] = {3, 1, {STRIDED, PART, ANGLES}, {TENSOR}},
    [HR_ROWWISE_GELU_TANH_BACKWARD] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_RELU_BACKWARD] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_RELU2_BACKWARD] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_SOFTCAP_BACKWARD] = {2, 1, {TENSOR, TENSOR}, {TENSOR}},
    [HR_ROWWISE_GEGLU_BACKWARD] = {3, 2, {TENSOR, TENSOR, TENSOR}, {TENSOR, TENSOR}},
    [HR_ROWWISE_GEGLU_TANH_BACKWARD] = {3, 2, {TENSOR, TENSOR, TENSOR}, {TENSOR, TENSOR}},
    [HR_ROWWISE_GATHER_BACKWARD] = {3,
                                    1,
                                    {NUMBERS_OF_ROWS, TENSOR, SUMS},
                                    {{HR_EXTENT_SUMS, HR_CONTENT_NUMBERS, 1 + 2}}},
    [HR_ROWWISE_GATHER_SUM] = {2, 1, {NUMBERS_OF_TERMS, TABLE}, {TENSOR}},
    [HR_ROWWISE_COMBINE_BACKWARD] = {4, 2, {NUMBERS_OF_ROWS, TABLE, TENSOR, LOSSES}, {TENSOR, LOSSES}},
    [HR_ROWWISE_GATE_BACKWARD] = {3, 2, {TENSOR, TENSOR, GATES}, {TENSOR, GATES}},
};

bool hr_rowwise_adds_before_norm(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_RESIDUAL_LAYER_NORM || operation == HR_ROWWISE_RESIDUAL_RMS_NORM;
}

bool hr_rowwise_trains(hr_rowwise_operation operation)
{
  return (operation >= HR_ROWWISE_SOFTMAX_BACKWARD && operation <= HR_ROWWISE_ADAMW) ||
         operation >= HR_ROWWISE_GELU_TANH_BACKWARD;
}

/* Weights of 32 bits or more are their own fp32 copy. */
hr_rowwise_operands hr_rowwise_operands_of(const hr_rowwise *rows)
{
  hr_rowwise_operands of = operands[rows->operation];
  if (rows->operation == HR_ROWWISE_ADAMW && hr_dtype_bytes(rows->dtype) >= 4)
    of.outputs--;
  return of;
}

const hr_rowwise_operand *hr_rowwise_output_of(const hr_rowwise *rows, int output)
{
  return &operands[rows->operation].output[output];
}

/* Rows of a table that a row of the result is made of. */
static int64_t terms_of(const hr_rowwise *rows)
{
  const bool adds = rows->operation == HR_ROWWISE_COMBINE || rows->operation == HR_ROWWISE_GATHER_SUM;
  return adds ? rows->group : 1;
}

/* Rows of a group may share one of z. */
static hr_checked64 part_elements(const hr_rowwise *rows)
{
  return hr_times(hr_checked(rows->z_row > 0 ? rows->rows : rows->rows / rows->group), rows->rotated);
}

hr_checked64 hr_rowwise_elements(const hr_rowwise *rows, const hr_rowwise_operand *operand)
{
  switch (operand->extent) {
  case HR_EXTENT_STRIDED: return hr_times(hr_checked(rows->rows), hr_rowwise_x_columns(rows));
  case HR_EXTENT_PART: return part_elements(rows);
  case HR_EXTENT_ROW: return hr_checked(rows->columns);
  case HR_EXTENT_COLUMN: return hr_checked(rows->rows);
  case HR_EXTENT_TERMS: return hr_times(hr_checked(rows->rows), rows->group);
  case HR_EXTENT_HEADS: return hr_checked(rows->group);
  case HR_EXTENT_ANGLES: return hr_times(hr_checked(rows->period), hr_rowwise_rotated(rows));
  case HR_EXTENT_TABLE: return hr_times(hr_times(hr_checked(rows->rows), rows->columns), terms_of(rows));
  case HR_EXTENT_SUMS: return hr_times(hr_checked(rows->period), rows->columns);
  default: return hr_times(hr_checked(rows->rows), rows->columns);
  }
}

hr_checked64 hr_rowwise_span(const hr_rowwise *rows, const hr_rowwise_operand *operand)
{
  switch (operand->extent) {
  case HR_EXTENT_STRIDED: return hr_checked(hr_rowwise_x_span(rows));
  case HR_EXTENT_RESULT: return hr_checked(hr_rowwise_y_at(rows, rows->rows - 1) + rows->columns);
  case HR_EXTENT_PART: return hr_checked(hr_rowwise_z_at(rows, rows->rows - 1) + rows->rotated);
  case HR_EXTENT_TABLE: return hr_times(hr_checked(rows->period), rows->columns);
  default: return hr_rowwise_elements(rows, operand);
  }
}

int64_t hr_rowwise_element_bytes(const hr_rowwise *rows, const hr_rowwise_operand *operand)
{
  return operand->content == HR_CONTENT_NUMBERS ? (int64_t)hr_dtype_bytes(rows->dtype) : 4;
}

hr_adamw hr_adamw_of(const hr_rowwise *rows, int64_t at_step)
{
  const double step = (double)(at_step > 0 ? at_step : rows->step > 0 ? rows->step : 1);
  return (hr_adamw){.decay = 1 - rows->learning_rate * rows->weight_decay,
                    .beta1 = rows->beta1,
                    .beta2 = rows->beta2,
                    .rate = rows->learning_rate / (1 - pow(rows->beta1, step)),
                    .root = 1 / sqrt(1 - pow(rows->beta2, step)),
                    .epsilon = rows->epsilon > 0 ? rows->epsilon : USUAL_EPSILON,
                    .max_norm = rows->max_norm};
}

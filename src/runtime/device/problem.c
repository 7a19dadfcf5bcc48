/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/problem.h"

#include "base/names.h"

const char *hr_operation_name(hr_operation operation)
{
  static const char *const names[HR_OPERATION_COUNT] = {"gemm", "attention", "rowwise"};
  return hr_name_of(names, HR_OPERATION_COUNT, (int)operation);
}

/* x; weights, a table or a second x; the result. */
static hr_operands rowwise_operands(const hr_rowwise *r)
{
  size_t row = (size_t)r->columns * hr_dtype_bytes(r->dtype), tensor = (size_t)r->rows * row;
  switch (r->operation) {
  case HR_ROWWISE_LAYER_NORM: return (hr_operands){4, {tensor, row, row, tensor}};
  case HR_ROWWISE_RMS_NORM: return (hr_operands){3, {tensor, row, tensor}};
  case HR_ROWWISE_ROTARY: return (hr_operands){3, {tensor, (size_t)r->period * row, tensor}};
  case HR_ROWWISE_SWIGLU:
  case HR_ROWWISE_RESIDUAL: return (hr_operands){3, {tensor, tensor, tensor}};
  case HR_ROWWISE_SOFTMAX:
  case HR_ROWWISE_GELU:
  case HR_ROWWISE_COUNT: break;
  }
  return (hr_operands){2, {tensor, tensor}};
}

/* Bytes of an operand, gaps between strides included. An empty operand counts one element: buffers are not empty. */
static size_t attention_operand(const hr_attention *a, hr_attention_operand operand)
{
  int64_t elements = 0;
  if (hr_attention_span(a, operand, &elements) != HR_OK || elements == 0)
    elements = 1;
  return (size_t)elements * hr_dtype_bytes(a->dtype);
}

static hr_operands attention_operands(const hr_attention *a)
{
  size_t q = attention_operand(a, HR_OPERAND_Q), k = attention_operand(a, HR_OPERAND_K);
  size_t v = attention_operand(a, HR_OPERAND_V), o = attention_operand(a, HR_OPERAND_O);
  if (a->alibi)
    return (hr_operands){5, {q, k, v, (size_t)a->q_heads * sizeof(float), o}};
  return (hr_operands){4, {q, k, v, o}};
}

hr_problem hr_gemm_problem(const hr_gemm *gemm)
{
  return (hr_problem){.operation = HR_OPERATION_GEMM, .dtype = gemm->dtype, .gemm = *gemm};
}

hr_problem hr_attention_problem(const hr_attention *attention)
{
  return (hr_problem){.operation = HR_OPERATION_ATTENTION, .dtype = attention->dtype, .attention = *attention};
}

hr_problem hr_rowwise_problem(const hr_rowwise *rows)
{
  return (hr_problem){.operation = HR_OPERATION_ROWWISE, .dtype = rows->dtype, .rows = *rows};
}

hr_operands hr_problem_operands(const hr_problem *problem)
{
  size_t element = hr_dtype_bytes(problem->dtype);
  if (problem->operation == HR_OPERATION_ROWWISE)
    return rowwise_operands(&problem->rows);
  if (problem->operation == HR_OPERATION_ATTENTION)
    return attention_operands(&problem->attention);
  const hr_gemm *g = &problem->gemm;
  return (hr_operands){3,
                       {element * (size_t)hr_gemm_a(g).elements, element * (size_t)hr_gemm_b(g).elements,
                        element * (size_t)hr_gemm_c(g).elements}};
}

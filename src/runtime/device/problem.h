/* One problem of any operation, and the operands that it has. */
#ifndef HR_RUNTIME_DEVICE_PROBLEM_H
#define HR_RUNTIME_DEVICE_PROBLEM_H

#include <headroom/attention.h>
#include <headroom/gemm.h>
#include <headroom/rowwise.h>

typedef enum hr_operation {
  HR_OPERATION_GEMM,
  HR_OPERATION_ATTENTION,
  HR_OPERATION_ROWWISE,
  HR_OPERATION_COUNT
} hr_operation;

/** One problem of any kind; `operation` says which member holds. */
typedef struct hr_problem {
  hr_operation operation;
  hr_dtype dtype;
  hr_gemm gemm;
  hr_attention attention;
  hr_rowwise rows;
} hr_problem;

/** The problem of a product, of an attention call, of an operation on rows. */
hr_problem hr_gemm_problem(const hr_gemm *gemm);
hr_problem hr_attention_problem(const hr_attention *attention);
hr_problem hr_rowwise_problem(const hr_rowwise *rows);

#define HR_OPERANDS_MAX 5

/** Operands of a problem, inputs first, the output last: A, B, C or Q, K, V, O, with ALiBi Q, K, V, slopes, O, or what
 *  an operation on rows has. `bytes` reach from the first element to behind the last, with the gaps that strides leave.
 *  The problem has been checked, so that the sizes fit. Attention of variable lengths, whose offsets are of no number
 *  format, has no operands here. */
typedef struct hr_operands {
  size_t count;
  size_t bytes[HR_OPERANDS_MAX];
} hr_operands;
hr_operands hr_problem_operands(const hr_problem *problem);

#endif

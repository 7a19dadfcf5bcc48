/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the operator list of a step. Every multiplication of sizes is checked; nothing is allocated. */
#ifndef HR_ANALYSIS_MODEL_OPERATOR_BUILDER_H
#define HR_ANALYSIS_MODEL_OPERATOR_BUILDER_H

#include "analysis/model/shard.h"
#include "base/checked.h"

#include <headroom/operators.h>

typedef struct hr_operator_builder {
  const hr_model *model;
  const hr_workload *workload;
  hr_shard shard;
  hr_operators *to;
  int64_t backward_bytes[HR_OPERATORS_MAX]; /* of memory and communication operators, same index as to->items */
  bool overflow;                            /* a figure overflowed, the first one in `overflow_id` */
  hr_operator_id overflow_id;
} hr_operator_builder;

/** A batched GEMM C = A B. `matrices_*` is the number of distinct matrices of each operand, below the batch size where
 *  query heads share a K or V head. */
typedef struct hr_gemm_sizes {
  int64_t m, n, k;
  int64_t matrices_a, matrices_b, matrices_c;
  bool transpose_a, transpose_b;
} hr_gemm_sizes;

/** Appends a GEMM; its batch size is the largest number of matrices. */
void hr_append_gemm(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass, int64_t count,
                    const hr_gemm_sizes *sizes);

/** Appends a memory-bound operator that reads and writes so many elements forward and in its backward pass. */
void hr_append_traffic(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, int64_t count,
                       hr_checked64 forward_elements, hr_checked64 backward_elements);

/** Appends an operator whose figures the caller sets. */
hr_operator *hr_append_operator(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass,
                                int64_t count);

/** Sets *value, a figure of `op`, or records the overflow. */
void hr_set_figure(hr_operator_builder *builder, const hr_operator *op, hr_checked64 figure, int64_t *value);

/** Appends the attention operators: score, softmax and attention over value, or the fused kernel. */
void hr_append_attention(hr_operator_builder *builder);

/** Appends the backward pass of every operator so far, last one first. */
void hr_append_backward(hr_operator_builder *builder);

#endif

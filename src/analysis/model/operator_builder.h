/* Operators under construction: every product of sizes is checked, nothing is allocated, nothing is cleared ahead. */
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
  int64_t backward_bytes[HR_OPERATORS_MAX]; /* of the memory and communication operators, same index as to->items */
  bool overflow;                            /* some figure does not fit, first that of `overflow_id` */
  hr_operator_id overflow_id;
} hr_operator_builder;

/** Appends C = A B. `matrices_*`: how many different matrices each operand has; gemm.batch where no head is shared. */
typedef struct hr_gemm_sizes {
  int64_t m, n, k;
  int64_t matrices_a, matrices_b, matrices_c;
  bool transpose_a, transpose_b;
} hr_gemm_sizes;
void hr_append_gemm(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass, int64_t count,
                    const hr_gemm_sizes *product);

/** Appends an operator without products that moves so many elements forward, and in its backward pass. */
void hr_append_traffic(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, int64_t count,
                       hr_checked64 forward_elements, hr_checked64 backward_elements);

/** Appends an empty operator: its figures are for the caller to fill. */
hr_operator *hr_append_operator(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass,
                                int64_t count);

/** Takes a figure of `op`, or remembers that it does not fit. */
void hr_set_figure(hr_operator_builder *builder, const hr_operator *op, hr_checked64 figure, int64_t *value);

/** Appends the backward pass of every operator so far, last one first. */
void hr_append_backward(hr_operator_builder *builder);

#endif

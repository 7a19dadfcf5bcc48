/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the operator list of a step. Every multiplication of sizes is checked; nothing is allocated. */
#ifndef HR_MODEL_LAYERS_OPERATOR_BUILDER_H
#define HR_MODEL_LAYERS_OPERATOR_BUILDER_H

#include "base/checked.h"
#include "model/layers/shard.h"

#include <headroom/operators.h>

/** hr_operators_list() of a model and a workload that have been checked. */
hr_status hr_list_operators(const hr_model *model, const hr_workload *workload, hr_operators *operators,
                            hr_error *error);

struct hr_held_parameters;

/** Lists the operators of a training step that the numbers of stages, parts and replicas and the ZeRO stage change:
 *  what is sent between stages and replicas, and the optimizer. `held`: hr_parameters_on_device() of the workload;
 *  NULL: they are counted. */
hr_status hr_list_operators_between(const hr_model *model, const hr_workload *workload,
                                    const struct hr_held_parameters *held, hr_operators *operators, hr_error *error);

/** What the backward pass of a forward operator needs beside the operator. */
typedef struct hr_backward_facts {
  int64_t bytes;      /* of a memory or communication operator's backward pass */
  int64_t matrices_b; /* of a GEMM: distinct matrices of the second operand */
} hr_backward_facts;

typedef struct hr_operator_builder {
  const hr_model *model;
  const hr_workload *workload;
  const hr_layer_group *layer; /* the group whose operators are appended: the device's share of a layer; NULL outside */
  size_t group;                /* its number; undefined outside */
  uint64_t written;            /* bit i: hr_step_tensor i has been written and may be read */
  uint64_t weights[2];         /* bit i: there is a weight of the role i, in the group or outside */
  hr_shard shard;
  const struct hr_held_parameters *held; /* NULL: not counted yet */
  hr_operators *to;
  hr_backward_facts backward[HR_OPERATORS_MAX]; /* same index as to->items */
  bool full;                                    /* more operators than the list holds */
  bool overflow;                                /* a figure overflowed, the first one in `overflow_id` */
  hr_operator_id overflow_id;
} hr_operator_builder;

/** A batched GEMM C = A B. `matrices_*` is the number of distinct matrices of each operand, below the batch size where
 *  query heads share a K or V head. */
typedef struct hr_gemm_sizes {
  int64_t m, n, k;
  int64_t matrices_a, matrices_b, matrices_c;
  bool transpose_a, transpose_b;
} hr_gemm_sizes;

/* Each function appends one operator, executed in every layer of builder->layer, once outside of layers. */

/** A GEMM; its batch size is the largest number of matrices. */
void hr_append_gemm(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass,
                    const hr_gemm_sizes *sizes);

/** The format of an operator's weights, NULL for the workload's. Q, K and V of several formats are computed as one GEMM
 *  with unquantized weights. `layer`: of the model; NULL: outside of layers. */
const hr_weight_format *hr_format_of_operator(const hr_model *model, const hr_layer_group *layer, hr_operator_id id);

/** Whether it computes linear layers that may have a format of their own: not the router, nor logits. */
bool hr_has_linear_layers(hr_operator_id id);

/** Whether the operator before it has the same input. */
bool hr_shares_input(hr_operator_id id);

/** A linear layer y = x Wᵀ over `rows` rows. Here and below its weights are read in their own format. */
void hr_append_linear(hr_operator_builder *builder, hr_operator_id id, int64_t rows, int64_t outputs, int64_t inputs);

/** A linear layer of each of so many groups of columns, as one batched GEMM. */
void hr_append_group_linear(hr_operator_builder *builder, hr_operator_id id, int64_t rows, int64_t groups,
                            int64_t outputs, int64_t inputs);

/** The last operator reads `cached` elements of a KV cache, in decode in the cache's own format. */
void hr_read_cache(hr_operator_builder *builder, hr_checked64 cached);

/** A linear layer of so many experts over `rows` rows together, listed as equal GEMMs of ⌈rows / experts⌉ rows. */
void hr_append_grouped_linear(hr_operator_builder *builder, hr_operator_id id, int64_t rows, int64_t experts,
                              int64_t outputs, int64_t inputs);

/** The backward pass of a grouped GEMM. */
void hr_append_grouped_gradients(hr_operator_builder *builder, const hr_operator *forward);

/** A collective between devices with so many elements. Backward an all-gather is a reduce-scatter and the other way
 *  round; the others stay. Its stride is 1. */
void hr_append_communication(hr_operator_builder *builder, hr_operator_id id, hr_collective_kind collective,
                             int64_t devices, hr_checked64 forward_elements, hr_checked64 backward_elements);

/** Sets the stride of the last operator, a collective; beyond the largest size of a workload it is that. */
void hr_set_stride(hr_operator_builder *builder, hr_checked64 stride);

/** A memory-bound or communication operator that reads and writes so many elements forward and in its backward pass;
 *  `columns` is the length of a row. */
void hr_append_traffic(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, int64_t columns,
                       hr_checked64 forward_elements, hr_checked64 backward_elements);

/** A memory-bound operator over `rows` × `columns` elements that reads or writes each so many times. */
void hr_append_rowwise(hr_operator_builder *builder, hr_operator_id id, hr_checked64 rows, int64_t columns,
                       int64_t forward_moves, int64_t backward_moves);

/** A norm: reads x, writes y; backward reads x and dy, writes dx. The weights are negligible. */
void hr_append_norm(hr_operator_builder *builder, hr_operator_id id, hr_checked64 rows, int64_t columns);

/** Dropout, if the step has it: reads x, writes y; backward the same with gradients. The mask is computed again from
 *  the seed; what a framework's masks add, hr_apply_framework() does. */
void hr_append_dropout(hr_operator_builder *builder, hr_operator_id id, hr_checked64 rows, int64_t columns);

/** An operator whose figures the caller sets. */
hr_operator *hr_append_operator(hr_operator_builder *builder, hr_operator_id id, hr_operator_kind kind, hr_pass pass);

/** Sets *value, a figure of `op`, or records the overflow. */
void hr_set_figure(hr_operator_builder *builder, const hr_operator *op, hr_checked64 figure, int64_t *value);

/** Records that a figure of this operator overflowed. */
void hr_record_overflow(hr_operator_builder *builder, hr_operator_id id);

/** Merges the operators from `first` on into those before them: equal ones add up, others go behind the last one whose
 *  id is not larger, so that the list stays in execution order. */
void hr_merge_operators(hr_operator_builder *builder, size_t first);

/** Appends the backward pass of every operator so far, last one first; before it what the workload recomputes. */
void hr_append_backward(hr_operator_builder *builder);

/** Appends what devices with the same weights send each other in a training step, and the update of a device's weights,
 *  once a step. Errors of hr_count_replicas() and hr_parameters_on_device(). */
hr_status hr_append_updates(hr_operator_builder *builder, hr_error *error);

/** False for what a step does once or beside its passes: communication between replicas and the optimizer. */
bool hr_runs_with_microbatches(hr_operator_id id);

/** Microbatches of a step with which communication between replicas runs: 1 if it is once a step. */
int64_t hr_replica_runs(hr_operator_id id, const hr_workload *workload);

#endif

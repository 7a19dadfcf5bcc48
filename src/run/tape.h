/* SPDX-License-Identifier: Apache-2.0 */
/* What the forward pass of a training step has launched, for its gradients. */
#ifndef HR_RUN_TAPE_H
#define HR_RUN_TAPE_H

#include "run/lower.h"

/** A launch of attention. */
typedef struct hr_tape_attention {
  hr_attention call;
  hr_run_view q, k, v, lse;
  int64_t v_head; /* elements from a head of V to the next */
} hr_tape_attention;

/** A choice of experts, whose output are the weights of the experts. */
typedef struct hr_tape_route {
  hr_route_arguments how;
  hr_run_view logits, of[HR_ROUTE_COUNT];
} hr_tape_route;

/** GEMMs of experts' copies. */
typedef struct hr_tape_grouped {
  hr_grouped_arguments how;
  hr_run_view a;
} hr_tape_grouped;

typedef enum hr_tape_kind {
  HR_TAPE_ROWWISE,
  HR_TAPE_GEMM,
  HR_TAPE_ATTENTION,
  HR_TAPE_ROUTE,
  HR_TAPE_GROUPED,
  HR_TAPE_SCATTERED, /* of a sum of ranks the rank's rows */
  HR_TAPE_GATHERED   /* rows of all ranks */
} hr_tape_kind;

/** A launch of the forward pass. */
typedef struct hr_tape_entry {
  hr_tape_kind kind;
  size_t op;     /* of the program's list */
  int64_t layer; /* −1: outside of layers */
  hr_run_view output;
  union {
    struct {
      hr_rowwise problem;
      hr_input_operand inputs[4];
    } rows;
    struct {
      hr_run_view x;
      const void *weight, *bias;
    } gemm;
    hr_tape_attention attention;
    hr_tape_route route;
    hr_tape_grouped grouped;
    hr_run_view sent; /* to other ranks */
  };
} hr_tape_entry;

/** The last launch of a gradient, of the weight at this element of all. */
typedef struct hr_written_gradient {
  int64_t element;
  int launch;
} hr_written_gradient;

/** A value that ranks add up, and the value of the sum, by number: both have the same gradient. */
typedef struct hr_summed_value {
  int part, sum;
} hr_summed_value;

struct hr_tape {
  hr_tape_entry *entries;
  int count, room;
  bool keeps;             /* what is launched */
  hr_run_view *gradients; /* [gradient_room], by value; value −1: none yet */
  bool *partial;          /* the same: of several ranks, a gradient is the rank's part of a sum */
  int gradient_room;
  hr_summed_value *sums;
  int sum_count, sum_room;
  hr_written_gradient *written; /* of weights, in the order of launches */
  int written_count, written_room;
  hr_run_view *starts;  /* [layers + 1]: the residual stream before each layer, and behind the last */
  hr_run_view received; /* the gradient of the last of these, of a stage that has another behind it */
};

/** An entry for what the operator has launched, to be filled; NULL if the tape keeps nothing and after a failure. */
hr_tape_entry *hr_keep(hr_lowering *l, hr_tape_kind kind, hr_run_view output);

void hr_keep_rowwise(hr_lowering *l, const hr_rowwise *problem, const hr_input_operand *inputs, hr_run_view output);
void hr_keep_gemm(hr_lowering *l, hr_run_view x, const void *weight, const void *bias, hr_run_view output);
void hr_keep_route(hr_lowering *l, hr_run_view logits);              /* of the last launch */
void hr_keep_sum(hr_lowering *l, hr_run_view part, hr_run_view sum); /* of ranks */
void hr_keep_exchange(hr_lowering *l, hr_tape_kind kind, hr_run_view sent, hr_run_view output);
void hr_keep_grouped(hr_lowering *l, const hr_grouped_arguments *how, hr_run_view a, hr_run_view output);

#endif

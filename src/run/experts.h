/* SPDX-License-Identifier: Apache-2.0 */
/* Routed experts: each token's experts and their weights, the copies of tokens in the order of their experts, and a
 * GEMM for each expert. All sizes are known before the step; how many copies an expert has is known on the device
 * alone, so that nothing waits for it. Thread safety: pure functions of their arguments. */
#ifndef HR_RUN_EXPERTS_H
#define HR_RUN_EXPERTS_H

#include "runtime/operation/operation.h"

#include <headroom/model.h>

#define HR_RUN_EXPERTS_MAX 1024

typedef struct hr_launch_place hr_launch_place; /* run/program.h */

/** Chooses the experts of each token. A copy of a token has a place among those of all, sorted by expert. */
typedef struct hr_route_arguments {
  hr_router how;
  int64_t tokens, experts, active, groups, active_groups; /* groups 0: none */
  hr_dtype dtype;                                         /* of logits */
  const void *logits;                                     /* [tokens, experts] */
  const float *bias;                                      /* [experts], for the choice alone; NULL: none */
  float *weights;                                         /* [tokens, active], as the next */
  int32_t *places;
  int32_t *copied;     /* [tokens · active]: the token in each place, as the next */
  int32_t *experts_of; /* its expert */
  int32_t *offsets;    /* [experts + 1]: each expert's first place */
} hr_route_arguments;

/** C = A Bᵀ of each expert's copies. A plan has `rows` of them, a power of two: an expert's copies are cut into such
 *  numbers, each of which has a launch. */
typedef struct hr_grouped_arguments {
  int64_t experts, rows, n, k;
  size_t element_bytes;
  const void *a, *b;      /* [copies, k], [experts, n, k] */
  void *c;                /* [copies, n] */
  const int32_t *offsets; /* as hr_route_arguments */
} hr_grouped_arguments;

/** Both run in the memory of the host. `arguments` are those above. */
hr_status hr_run_route(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at, hr_error *error);
hr_status hr_run_grouped(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                         hr_error *error);

#endif

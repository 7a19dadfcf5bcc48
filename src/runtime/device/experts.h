/* SPDX-License-Identifier: Apache-2.0 */
/* Routed experts: each token's experts and their weights, the copies of tokens in the order of their experts, and a
 * GEMM for each expert. All sizes are known before; how many copies an expert has is known on the device alone, so that
 * nothing waits for it. Thread safety: as runs of plans. */
#ifndef HR_RUNTIME_DEVICE_EXPERTS_H
#define HR_RUNTIME_DEVICE_EXPERTS_H

#include "base/private.h"
#include "runtime/device/linear.h"

#include <headroom/plan.h>
#include <stdbool.h>
#include <stdint.h>

#define HR_EXPERTS_MAX 1024

/** Chooses the experts of each token. A copy of a token has a place among those of all, sorted by expert and token.
 *  Where devices share the experts, the sort begins with those of the device: as many as `held`, from `first` on, which
 *  are experts 0 to held − 1 of offsets and experts_of. Copies of others are behind theirs, which nothing computes. */
typedef struct hr_route_arguments {
  bool sigmoid;     /* scores are sigmoids of the logits; else their softmax */
  bool normalized;  /* the weights of a token are divided by their sum */
  bool group_pairs; /* the best groups have the largest sums of two scores; else the largest score */
  double scale;     /* of the weights; 0: 1 */
  int64_t tokens, experts, active, groups, active_groups; /* groups 0: none */
  int64_t first, held;                                    /* held 0: all */
  hr_dtype dtype;                                         /* of logits */
  const void *logits;                                     /* [tokens, experts] */
  const float *bias;                                      /* [experts], for the choice alone; NULL: none */
  float *weights;                                         /* [tokens, active], as the next two */
  int32_t *chosen;                                        /* experts */
  int32_t *places;                                        /* −1 of copies of other devices' experts */
  int32_t *copied;                                        /* [tokens · active]: the token in each place, as the next */
  int32_t *experts_of;                                    /* its expert; −1 as above */
  int32_t *offsets;                                       /* [experts + 1]: each expert's first place */
  float *weights_of; /* [tokens · active]: the weight of the copy in each place; NULL: for none to read */
} hr_route_arguments;

/** The experts of few tokens from their hidden states: a router's linear layer with the norm before it, and the choice
 *  by its results. */
typedef struct hr_router_arguments {
  hr_route_arguments route; /* logits are linear.y */
  hr_linear_arguments linear;
  void *normed; /* [tokens, k]: the norm's results; NULL without one */
} hr_router_arguments;

/** The gradient of the logits of a choice, through the experts that were chosen: which they are has none. */
typedef struct hr_route_backward_arguments {
  bool sigmoid, normalized; /* as hr_route_arguments, whose results the next three are */
  double scale;
  int64_t tokens, experts, active;
  hr_dtype dtype;         /* of logits */
  const void *logits;     /* [tokens, experts] */
  const float *weights;   /* [tokens, active], as the next two */
  const int32_t *chosen;  /* experts */
  const int32_t *places;  /* −1: a weight without a gradient */
  const float *d_weights; /* [tokens · active], by places */
  void *d_logits;         /* [tokens, experts] */
} hr_route_backward_arguments;

/** C = A Bᵀ of each expert's copies, or with `back` C = A B: gradients of copies from those of results. */
typedef struct hr_grouped_arguments {
  bool back;
  int64_t experts, copies, n, k;
  int64_t most;           /* copies of one expert */
  int64_t mean;           /* the same as expected, at least 1 */
  int64_t rows;           /* where a plan multiplies: of that plan, a power of two. An expert's copies are cut into such
                             numbers, each of which has a launch */
  hr_dtype dtype;         /* fp32, fp16 or bf16 */
  const void *a, *b;      /* [copies, k]; [experts, n, k], with `back` [experts, k, n] */
  void *c;                /* [copies, n] */
  const int32_t *offsets; /* as hr_route_arguments */
} hr_grouped_arguments;

/** dW = dYᵀ X over each expert's copies: gradients of weights, zeros where an expert has none. */
typedef struct hr_grouped_gradient_arguments {
  int64_t experts, copies, n, k;
  int64_t rows;           /* where a plan multiplies: of that plan, a power of two. It is that of experts with up to so
                             many copies and more than half of them */
  hr_dtype dtype;         /* fp32, fp16 or bf16 */
  const void *dy, *x;     /* [copies, n], [copies, k] */
  void *dw;               /* [experts, n, k] */
  const int32_t *offsets; /* as hr_route_arguments */
  void *padded_dy, *padded_x; /* room of a plan: [rows, n], [rows, k] */
} hr_grouped_gradient_arguments;

/** hr_backend.route, or hr_host_route() where the backend has none. */
HR_PRIVATE hr_status hr_device_route(hr_device *device, const hr_route_arguments *route, void *stream, hr_error *error);

/** hr_backend.multiply_groups; with a plan (NULL: none) those experts' copies that have an odd number of grouped->rows,
 *  the plan's, where the host reads the offsets. */
HR_PRIVATE hr_status hr_device_multiply_groups(hr_device *device, const hr_grouped_arguments *grouped,
                                               const hr_plan *plan, void *workspace, void *stream, hr_error *error);

/** hr_backend.route in the memory of the host, in float64. */
void hr_host_route(const hr_route_arguments *route);

/** The same of hr_backend.route_backward. */
HR_PRIVATE void hr_host_route_backward(const hr_route_backward_arguments *route);

#endif

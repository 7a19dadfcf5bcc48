/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of weights that several ranks have while they share the layers: norms of heads, K and V heads that are
 * fewer than ranks, routers, projections to a rank, and with sequence parallelism
 * norms of rows. They are added up behind the backward pass, so that these ranks keep equal weights. */
#ifndef HR_TRAINING_RANKS_H
#define HR_TRAINING_RANKS_H

#include "run/tape.h"

/** Appends the sums of such gradients, of which each rank has a part. */
void hr_lower_rank_gradients(hr_lowering *l);

/** Appends the squares of all gradients, each weight's once, into x->squares. */
void hr_lower_rank_squares(hr_lowering *l);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* kernels/persistent.cu takes these parts of a decode step, and sees them as here. All functions are pure. */
#ifndef HR_RUNTIME_CUDA_PERSISTENT_PARTS_H
#define HR_RUNTIME_CUDA_PERSISTENT_PARTS_H

#include "base/checked.h"
#include "runtime/cuda/kernels/persistent_layout.h"
#include "runtime/device/persistent.h"

#include <headroom/experimental/decode.h>

#define HR_PART_ALIGNMENT 16 /* bytes */

/** HR_PERSISTENT_IDENTITY and the next; −1: none that the kernel has. */
int hr_persistent_activation(hr_rowwise_operation operation);

/** Layers of experts as those of one token: the rows of its experts follow each other, and behind their activation the
 *  columns. */
hr_linear_arguments hr_persistent_layer(const hr_linear_arguments *linear);

/** HR_PERSISTENT_ELEMENTS and the next. */
static inline int hr_persistent_format(const hr_linear_arguments *x)
{
  return !x->scales ? HR_PERSISTENT_ELEMENTS : x->shares.blocks ? HR_PERSISTENT_FP8_BLOCKS : HR_PERSISTENT_FP8_ROWS;
}

/** Groups of heads of Q that share those of K and V. */
static inline int64_t hr_persistent_groups(const hr_decode *d)
{
  return hr_max64(d->k_heads, d->v_heads);
}

/** Heads of Q of an item, and items with different heads of a group. */
static inline int64_t hr_persistent_heads(int64_t q_each)
{
  return hr_min64(HR_PERSISTENT_GROUP, q_each);
}

static inline int64_t hr_persistent_items(int64_t q_each)
{
  return hr_ceil_div(q_each, hr_persistent_heads(q_each));
}

/** There are as many splits as give each block an item. */
static inline int64_t hr_persistent_splits(const hr_decode *d, int64_t blocks)
{
  const int64_t items = d->batch * hr_persistent_groups(d) * hr_persistent_items(d->q_heads / hr_persistent_groups(d));
  return hr_max64(1, hr_min64(HR_PERSISTENT_SPLITS_MAX, blocks / items));
}

#endif

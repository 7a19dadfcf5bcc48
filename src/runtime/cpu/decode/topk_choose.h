/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the k largest of a query row's scores. */
#ifndef HR_RUNTIME_CPU_DECODE_TOPK_CHOOSE_H
#define HR_RUNTIME_CPU_DECODE_TOPK_CHOOSE_H

#include "runtime/cpu/decode/version.h"

/** Scratch memory for `count` scores. */
typedef struct hr_topk_scratch {
  uint64_t *bits; /* [(count + 63) / 64] */
  uint32_t *keys; /* [count] */
} hr_topk_scratch;

/** Writes the indices of the k largest of `count` scores to places[0] … places[k − 1], ascending, 1 ≤ k ≤ count: NaN
 *  before +inf, the earlier of equal ones. `places` has room for `count`. Scores can be read up to a multiple of 64. */
void hr_topk_choose(const hr_split_version *version, const float *scores, int64_t count, int64_t k,
                    const hr_topk_scratch *scratch, int32_t *places);

#endif

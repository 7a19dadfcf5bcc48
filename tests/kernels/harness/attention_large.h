/* SPDX-License-Identifier: Apache-2.0 */
/* Attention calls whose operands are too large for a second copy: filled on the device and compared in parts. */
#ifndef HR_HARNESS_ATTENTION_LARGE_H
#define HR_HARNESS_ATTENTION_LARGE_H

#include "attention_call.h"

typedef enum attention_outcome {
  ATTENTION_COMPARED,
  ATTENTION_REFUSED,  /* the kernel does not support the problem */
  ATTENTION_NO_MEMORY /* not enough device memory for operands or workspace */
} attention_outcome;

/** Runs a packed problem of one length on values generated on the device; results and workspace are NaN before.
 *  Compares `parts` ranges of rows of one head with the formula (attention_compare()), among them the first, the last
 *  and those at element 2^31 of O. Fails the test with the first wrong part. */
attention_outcome attention_try_large(hr_device *device, const char *kernel, const hr_attention *attention,
                                      uint64_t seed, int parts);

#endif

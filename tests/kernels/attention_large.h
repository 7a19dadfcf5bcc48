/* Attention calls whose operands are too large to be held twice: made on the device and compared in parts. */
#ifndef HR_TEST_ATTENTION_LARGE_H
#define HR_TEST_ATTENTION_LARGE_H

#include "attention_call.h"

typedef enum attention_outcome {
  ATTENTION_COMPARED,
  ATTENTION_REFUSED,  /* the kernel does not support the problem */
  ATTENTION_NO_MEMORY /* of the device, for operands or workspace */
} attention_outcome;

/** Runs a packed problem of one length on values that the device makes, results and workspace NaN before, and compares
 *  `parts` runs of rows of one head, among them the first, the last and those at element 2^31 of O, with the formula
 *  (attention_compare()). Fails the test with the part that is off. */
attention_outcome attention_try_large(hr_device *device, const char *kernel, const hr_attention *attention,
                                      uint64_t seed, int parts);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Attention computed element by element, in float64 and by a plain program in the precision of the format. */
#ifndef HR_HARNESS_ATTENTION_TRUTH_H
#define HR_HARNESS_ATTENTION_TRUTH_H

#include "attention_call.h"

/** Compares O and the log-sum-exp with the formula. Checks as many rows as take `multiply_adds` multiply-adds (all, if
 *  fewer), always including the first and the last. Two rules: no element's error exceeds the rounding error bound; and
 *  over many elements the largest error is at most twice that of a plain program, which keeps scores, weights and
 *  accumulators in fp32 in sequential order and rounds the weights to the format. Fails the test with the wrong
 *  element. Call after attention_run(); values must be finite. */
void attention_compare(const attention_call *call, const char *kernel, int64_t multiply_adds);

/** Runs and compares; false if the kernel refuses the problem. */
bool attention_try(hr_device *device, const char *kernel, const attention_setup *setup, int64_t multiply_adds);

#endif

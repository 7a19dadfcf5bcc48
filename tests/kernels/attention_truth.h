/* Attention written out element by element, in float64 and as a plain program in the format's precision would have
 * it. */
#ifndef HR_TEST_ATTENTION_TRUTH_H
#define HR_TEST_ATTENTION_TRUTH_H

#include "attention_call.h"

/** Compares O and the log-sum-exp with the formula, in `products` multiply-adds' worth of rows at most (all, if they
 *  are fewer), the first and the last always among them. Two rules: no element is further off than rounding errors can
 *  carry it, and over many elements the largest error is at most twice that of a plain program, which keeps scores,
 *  weights and sums in fp32, one after the other, and rounds the weights to the format. Fails the test with the
 *  element. The call has run; its values are finite. */
void attention_compare(const attention_call *call, const char *kernel, int64_t products);

/** Runs and compares; false where the kernel refuses the problem. */
bool attention_try(hr_device *device, const char *kernel, const attention_asked *asked, int64_t products);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics of samples. docs/notes/measuring-derivations.md describes them. */
#ifndef HR_RUNTIME_STATISTICS_H
#define HR_RUNTIME_STATISTICS_H

#include <headroom/experimental/measure.h>

/** A median with its 95% interval. */
typedef struct hr_median {
  double value, low, high;
} hr_median;

/** The rank r (from 1) such that the r-th smallest and the r-th largest of n samples enclose the median with at least
 *  95% probability for any distribution: the largest r with P(Binomial(n, ½) < r) ≤ 2.5%. 0 below 6 samples,
 *  whose extremes do not reach 95%. */
int64_t hr_median_rank(int64_t n);

/** Sorts `count` samples (at least 1) in place; below 6 samples the interval is from the smallest to the largest. */
hr_median hr_median_of(double *samples, int64_t count);

/** Half-width of the interval relative to the median: the larger of both sides. */
double hr_median_spread(const hr_median *median);

#define HR_SAMPLES_FOR_INTERVAL 6

#endif

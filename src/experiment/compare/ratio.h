/* SPDX-License-Identifier: Apache-2.0 */
/* Ratios of medians and their intervals. docs/notes/compare.md derives them. */
#ifndef HR_EXPERIMENT_COMPARE_RATIO_H
#define HR_EXPERIMENT_COMPARE_RATIO_H

#include <headroom/experimental/compare.h>

/** The median's interval: the stored one, else of its standard deviation; NAN without either. */
void hr_compared_interval(const hr_measurement *measurement, double *low, double *high);

/** Ratio of two medians; its interval is NAN if one of theirs is. */
hr_ratio hr_ratio_of(const hr_compared_row *a, const hr_compared_row *b);

/** Geometric mean of `count` ratios; NAN of none. */
hr_ratio hr_ratio_mean(const hr_ratio *ratios, size_t count);

/** The verdict on an interval; `noisy` if it is NAN. */
hr_verdict hr_ratio_verdict(const hr_ratio *ratio, double tolerance);

/** Quantile 0.975 of Student's t distribution with this many degrees of freedom (at least 1). */
double hr_student_quantile(int64_t degrees);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/compare/ratio.h"

#include <math.h>

#define NORMAL_QUANTILE 1.959963984540054 /* 0.975 */
#define MEDIAN_EFFICIENCY 1.2533141373155 /* √(π/2): standard error of a median over that of a mean, normal samples */

void hr_compared_interval(const hr_measurement *m, double *low, double *high)
{
  *low = m->median_low_ns;
  *high = m->median_high_ns;
  if (isfinite(*low) && isfinite(*high) && *low > 0 && *low <= m->median_ns && *high >= m->median_ns)
    return;
  *low = *high = (double)NAN;
  if (m->samples < 2 || !isfinite(m->stddev_ns))
    return;
  double half = NORMAL_QUANTILE * MEDIAN_EFFICIENCY * m->stddev_ns / sqrt((double)m->samples);
  if (half < m->median_ns) {
    *low = m->median_ns - half;
    *high = m->median_ns + half;
  }
}

/* The interval of a difference of two logarithms from the intervals of both (MOVER: Donner and Zou 2012, "Closed-form
 * confidence intervals for functions of the normal mean and standard deviation", section 2): it keeps each one's
 * asymmetry. */
hr_ratio hr_ratio_of(const hr_compared_row *a, const hr_compared_row *b)
{
  double difference = log(a->median_ns) - log(b->median_ns);
  double a_below = log(a->median_ns / a->low_ns), a_above = log(a->high_ns / a->median_ns);
  double b_below = log(b->median_ns / b->low_ns), b_above = log(b->high_ns / b->median_ns);
  return (hr_ratio){exp(difference), exp(difference - sqrt(a_below * a_below + b_above * b_above)),
                    exp(difference + sqrt(a_above * a_above + b_below * b_below))};
}

/* Abramowitz and Stegun 26.7.5; the first two are exact. */
double hr_student_quantile(int64_t degrees)
{
  const double z = NORMAL_QUANTILE, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  double n = (double)degrees;
  if (degrees <= 1)
    return 12.706204736;
  if (degrees == 2)
    return 4.302652730;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

hr_ratio hr_ratio_mean(const hr_ratio *ratios, size_t count)
{
  double sum = 0, squares = 0, below = 0, above = 0, n = (double)count;
  if (count == 0)
    return (hr_ratio){(double)NAN, (double)NAN, (double)NAN};
  for (size_t i = 0; i < count; i++) {
    sum += log(ratios[i].value);
    below += pow(log(ratios[i].value / ratios[i].low), 2);
    above += pow(log(ratios[i].high / ratios[i].value), 2);
  }
  double mean = sum / n;
  for (size_t i = 0; i < count; i++)
    squares += pow(log(ratios[i].value) - mean, 2);
  /* of the samples within the points, and of the points' scatter; the larger one */
  double scatter = count > 1 ? hr_student_quantile((int64_t)count - 1) * sqrt(squares / (n - 1) / n) : 0;
  return (hr_ratio){exp(mean), exp(mean - fmax(sqrt(below) / n, scatter)), exp(mean + fmax(sqrt(above) / n, scatter))};
}

hr_verdict hr_ratio_verdict(const hr_ratio *ratio, double tolerance)
{
  double most = 1 + tolerance, least = 1 / most;
  if (!isfinite(ratio->low) || !isfinite(ratio->high))
    return HR_VERDICT_NOISY;
  if (ratio->low > most)
    return HR_VERDICT_FASTER;
  if (ratio->high < least)
    return HR_VERDICT_SLOWER;
  return ratio->low >= least && ratio->high <= most ? HR_VERDICT_SAME : HR_VERDICT_NOISY;
}

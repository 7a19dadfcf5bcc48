/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/statistics.h"

#include "base/sort.h"

#include <math.h>
#include <stdlib.h>

int64_t hr_median_rank(int64_t n)
{
  double log_mass = -(double)n * log(2.0), below = 0; /* log of the mass of i, and Σ of the masses before i */
  for (int64_t i = 0; i < n; i++) {
    below += exp(log_mass);
    if (below > 0.025)
      return i;
    log_mass += log((double)(n - i) / (double)(i + 1));
  }
  return 0;
}

/* The k-th smallest, k from 1. */
static double ranked(const double *sorted, int64_t k)
{
  return sorted[k - 1];
}

static hr_median median_of_sorted(const double *sorted, int64_t n)
{
  int64_t rank = hr_median_rank(n);
  if (rank < 1)
    rank = 1;
  double middle = n % 2 ? ranked(sorted, n / 2 + 1) : (ranked(sorted, n / 2) + ranked(sorted, n / 2 + 1)) / 2;
  return (hr_median){middle, ranked(sorted, rank), ranked(sorted, n + 1 - rank)};
}

hr_median hr_median_of(double *samples, int64_t count)
{
  qsort(samples, (size_t)count, sizeof *samples, hr_compare_numbers);
  return median_of_sorted(samples, count);
}

double hr_median_spread(const hr_median *median)
{
  return fmax(median->high - median->value, median->value - median->low) / median->value;
}

/* The smallest sample such that at least `share` of all samples are not above it. */
static double quantile(const double *sorted, int64_t n, double share)
{
  int64_t k = (int64_t)ceil(share * (double)n);
  return ranked(sorted, k < 1 ? 1 : k);
}

void hr_statistics(double *samples, int64_t n, hr_measurement *m)
{
  hr_median median = hr_median_of(samples, n);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; i++)
    sum += samples[i];
  double mean = sum / (double)n;
  for (int64_t i = 0; i < n; i++)
    squares += (samples[i] - mean) * (samples[i] - mean);
  m->samples = n;
  m->min_ns = ranked(samples, 1);
  m->p10_ns = quantile(samples, n, 0.1);
  m->median_ns = median.value;
  m->mean_ns = mean;
  m->p90_ns = quantile(samples, n, 0.9);
  m->max_ns = ranked(samples, n);
  m->stddev_ns = n > 1 ? sqrt(squares / (double)(n - 1)) : (double)NAN;
  m->median_low_ns = median.low;
  m->median_high_ns = median.high;
}

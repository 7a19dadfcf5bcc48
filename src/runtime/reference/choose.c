/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/reference/reference.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool is_larger(double a, double b)
{
  return isnan(a) ? !isnan(b) : a > b;
}

static void exchange(double *a, double *b)
{
  double kept = *a;
  *a = *b;
  *b = kept;
}

/* The k-th largest, by quickselect with three parts; reorders the numbers. */
static double kth_largest(double *numbers, int64_t count, int64_t k)
{
  int64_t first = 0, end = count;
  for (;;) {
    double pivot = numbers[first + (end - first) / 2];
    int64_t larger = first, equal_end = first, smaller = end; /* larger | equal | not seen | smaller */
    while (equal_end < smaller) {
      if (is_larger(numbers[equal_end], pivot))
        exchange(&numbers[larger++], &numbers[equal_end++]);
      else if (is_larger(pivot, numbers[equal_end]))
        exchange(&numbers[equal_end], &numbers[--smaller]);
      else
        equal_end++;
    }
    if (k <= larger)
      end = larger;
    else if (k <= smaller)
      return pivot;
    else
      first = smaller;
  }
}

double hr_reference_choose(const double *scores, int64_t count, int64_t k, double *places)
{
  memcpy(places, scores, (size_t)count * sizeof *places);
  double kth = kth_largest(places, count, k);
  int64_t larger = 0, chosen = 0;
  for (int64_t i = 0; i < count; i++)
    larger += is_larger(scores[i], kth);
  int64_t equal = k - larger;
  for (int64_t i = 0; i < count; i++) {
    bool same = !is_larger(scores[i], kth) && !is_larger(kth, scores[i]);
    if (is_larger(scores[i], kth) || (same && equal > 0)) {
      equal -= same;
      places[chosen++] = (double)i;
    }
  }
  return kth;
}

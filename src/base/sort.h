/* SPDX-License-Identifier: Apache-2.0 */
/* Orders for qsort(). */
#ifndef HR_BASE_SORT_H
#define HR_BASE_SORT_H

/** Ascending, of doubles or of structs that begin with one. */
static inline int hr_compare_numbers(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

#endif

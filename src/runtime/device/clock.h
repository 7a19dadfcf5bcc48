/* SPDX-License-Identifier: Apache-2.0 */
/* The host's clock. */
#ifndef HR_RUNTIME_CLOCK_H
#define HR_RUNTIME_CLOCK_H

#include <time.h>

/** Nanoseconds since an arbitrary start, at the rate of the machine's oscillator; adjustments of the date do not change
 *  it. */
static inline double hr_clock_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "report/measurement.h"

#include <math.h>

#define SAMPLES_FOR_INTERVAL 6 /* docs/measuring.md */

void hr_clear_times(hr_measurement *m)
{
  m->min_ns = m->p10_ns = m->median_ns = m->mean_ns = m->p90_ns = m->max_ns = m->stddev_ns = (double)NAN;
  m->median_low_ns = m->median_high_ns = m->latency_ns = (double)NAN;
  m->flops_per_s = m->bytes_per_s = (double)NAN;
  m->conditions.clock_hz = m->conditions.memory_clock_hz = (double)NAN;
  m->conditions.power_w = m->conditions.temperature_c = (double)NAN;
}

hr_measurement hr_known_measurement(const hr_measurement *measurement)
{
  hr_measurement known = *measurement;
  if (known.choice == 0)
    known.choice_speedup = (double)NAN;
  if (known.samples == 0)
    hr_clear_times(&known);
  return known;
}

const char *hr_interval_words(const hr_measurement *measurement)
{
  return measurement->samples < SAMPLES_FOR_INTERVAL ? "all from" : "95% interval";
}

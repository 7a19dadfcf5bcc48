/* SPDX-License-Identifier: Apache-2.0 */
#include "report/measurement.h"

#include <math.h>

#define SAMPLES_FOR_INTERVAL 6 /* docs/measuring.md */

void hr_clear_times(hr_measurement *m)
{
  m->min_ns = m->p10_ns = m->median_ns = m->mean_ns = m->p90_ns = m->max_ns = m->stddev_ns = (double)NAN;
  m->median_low_ns = m->median_high_ns = m->latency_ns = (double)NAN;
  m->flops_per_s = m->bytes_per_s = (double)NAN;
  m->energy_j = m->sustained_ns = m->sustained_power_w = m->sustained_clock_hz = (double)NAN;
  m->conditions.clock_hz = m->conditions.memory_clock_hz = (double)NAN;
  m->conditions.power_w = m->conditions.temperature_c = (double)NAN;
}

hr_measurement hr_known_measurement(const hr_measurement *measurement)
{
  hr_measurement known = *measurement;
  if (known.choice == 0)
    known.choice_speedup = (double)NAN;
  if (!(known.energy_j > 0)) /* also a caller's struct that it has zeroed */
    known.energy_j = known.sustained_ns = known.sustained_power_w = known.sustained_clock_hz = (double)NAN;
  if (known.samples == 0)
    hr_clear_times(&known);
  return known;
}

double hr_joules_per_tflop(const hr_measurement *m)
{
  double flops = m->flops_per_s * m->median_ns * 1e-9; /* of one run */
  return flops > 0 ? m->energy_j / flops * 1e12 : (double)NAN;
}

const char *hr_interval_words(const hr_measurement *measurement)
{
  return measurement->samples < SAMPLES_FOR_INTERVAL ? "all from" : "95% interval";
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements in reports. */
#ifndef HR_REPORT_MEASUREMENT_H
#define HR_REPORT_MEASUREMENT_H

#include <headroom/experimental/measure.h>

/** Sets to NAN what follows from samples: statistics, rates and conditions. */
void hr_clear_times(hr_measurement *measurement);

/** A copy in which numbers that were not measured are NAN. */
hr_measurement hr_known_measurement(const hr_measurement *measurement);

/** Energy of 10^12 FLOPs; NAN if unknown. */
double hr_joules_per_tflop(const hr_measurement *measurement);

/** What median_low_ns and median_high_ns are the ends of: "95% interval", or with few samples "all from". */
const char *hr_interval_words(const hr_measurement *measurement);

#endif

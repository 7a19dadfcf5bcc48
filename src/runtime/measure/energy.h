/* SPDX-License-Identifier: Apache-2.0 */
/* The energy of a run on a device that does nothing else. */
#ifndef HR_RUNTIME_MEASURE_ENERGY_H
#define HR_RUNTIME_MEASURE_ENERGY_H

#include "runtime/measure/runner.h"

/** Repeats a runner that has been timed (measurement->median_ns) until the power cap has settled, then for as long as
 *  the device's counter needs, and fills energy_j, sustained_ns, sustained_power_w and sustained_clock_hz. These stay
 *  NAN without a counter. HR_ERROR_INTERRUPTED as `options` say; errors of the runs. */
hr_status hr_measure_energy(hr_runner *runner, const hr_measure_options *options, hr_measurement *measurement,
                            hr_error *error);

#endif

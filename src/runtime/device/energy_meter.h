/* SPDX-License-Identifier: Apache-2.0 */
/* Power and clock of a device under a load that the caller keeps up, read beside it by a thread. */
#ifndef HR_RUNTIME_DEVICE_ENERGY_METER_H
#define HR_RUNTIME_DEVICE_ENERGY_METER_H

#include "runtime/device/device.h"

/** Steps of the counter to wait under a load until the power cap has settled, and to measure for. */
#define HR_ENERGY_SETTLE_STEPS 5
#define HR_ENERGY_STEPS 8

typedef struct hr_energy_meter hr_energy_meter;

/** Whether the device has an energy counter. */
bool hr_energy_is_counted(const hr_device *device);

/** Starts to read. HR_ERROR_UNSUPPORTED without a counter, HR_ERROR_OUT_OF_MEMORY, HR_ERROR_UNAVAILABLE without a
 *  thread. */
hr_status hr_energy_meter_start(const hr_device *device, hr_energy_meter **meter, hr_error *error);

/** Stops, and frees the meter; NULL is allowed. *power_w is the mean between the counter's first and last step, NAN
 *  with fewer than two steps; *clock_hz is the mean over the steps, NAN if unknown. Either may be NULL. */
void hr_energy_meter_stop(hr_energy_meter *meter, double *power_w, double *clock_hz);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks: bringing a device to the clock that it can sustain, and noticing when it falls below. */
#ifndef HR_RUNTIME_MEASURE_SETTLE_H
#define HR_RUNTIME_MEASURE_SETTLE_H

#include "runtime/device/device.h"

#include <headroom/experimental/measure.h>

/** Keeps the device busy for settle_ns, until its clock stays the same; at most once after it was opened, and only on
 *  devices that need it. HR_ERROR_INTERRUPTED as `options` say; other failures are left to the measurement that
 *  follows. */
hr_status hr_device_settle(hr_device *device, const hr_measure_options *options, hr_error *error);

/** Whether the chip now throttles its clock by more than 5% below the settled one. A power cap alone counts only
 *  against the clock that the same work had at the end of its warm-up (`warm`): some kernels draw more power than the
 *  one that the chip settled with. */
bool hr_device_throttled(const hr_device *device, const hr_conditions *warm, const hr_conditions *now);

#endif

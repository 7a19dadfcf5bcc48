/* SPDX-License-Identifier: Apache-2.0 */
/* Calibrations of this machine's devices, in the user's data folder. */
#ifndef HR_RESOLVE_CALIBRATION_H
#define HR_RESOLVE_CALIBRATION_H

#include <headroom/hardware.h>

/** Replaces the figures of a device of this machine by those of its calibration, if there is one of the same product
 *  with as many multiprocessors; what the machine itself says stays: name, memory, placement, ceilings, power limit.
 *  Errors of reading the file; *hardware is then untouched. */
hr_status hr_use_calibration(hr_hardware *hardware, hr_error *error);

#endif

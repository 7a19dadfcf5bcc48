/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/device.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_DEVICE_H
#define HEADROOM_EXPERIMENTAL_DEVICE_H

#include <headroom/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Opens a device in process `part` of `parts` processes that measure on this machine at the same time. A CPU device
 *  gets cores / parts threads, at least one. If the process's affinity mask holds the whole machine, the calling thread
 *  and the threads that it starts afterwards are bound to cores of their own; processes share cores if there are more
 *  processes than cores. Other devices are opened as hr_device_open() does. HR_ERROR_INVALID unless 0 ≤ part < parts;
 *  errors of hr_device_open(). */
HR_API hr_status hr_device_open_part(const char *name, int part, int parts, hr_device **device, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

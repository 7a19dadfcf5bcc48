/* SPDX-License-Identifier: Apache-2.0 */
/* Device files: data/hardware, docs/hardware.md.
 *
 * Thread safety: pure functions. */
#ifndef HEADROOM_DEVICE_FILE_H
#define HEADROOM_DEVICE_FILE_H

#include <headroom/hardware.h>
#include <headroom/input.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Reads a device file. Errors: HR_ERROR_UNREADABLE, HR_ERROR_INVALID naming the field. *hardware is written only on
 *  HR_OK. */
HR_API hr_status hr_hardware_from_json(const hr_input *input, hr_hardware *hardware, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

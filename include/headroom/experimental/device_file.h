/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/device_file.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_DEVICE_FILE_H
#define HEADROOM_EXPERIMENTAL_DEVICE_FILE_H

#include <headroom/device_file.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Whether a device file lists `name` among its "aliases", ignoring case. False if the text is not a device file. */
HR_API bool hr_hardware_has_alias(const char *text, size_t length, const char *name);

#ifdef __cplusplus
}
#endif
#endif

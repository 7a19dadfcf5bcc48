/* SPDX-License-Identifier: Apache-2.0 */
/* A device as the JSON of its file. */
#ifndef HR_ANALYSIS_CALIBRATE_DEVICE_JSON_H
#define HR_ANALYSIS_CALIBRATE_DEVICE_JSON_H

#include <headroom/hardware.h>
#include <jansson.h>

/** What a prediction of GEMMs, attention and decode needs, under the names of a device file; NULL without memory. */
json_t *hr_device_json(const hr_hardware *hardware);

/** The text of a device file: one member a line, and of a list of objects one object a line. The caller frees it; NULL
 *  without memory. */
char *hr_device_json_text(const json_t *root);

#endif

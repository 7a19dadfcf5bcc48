/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of kernels in a device file: objects of numbers. */
#ifndef HR_ANALYSIS_HARDWARE_COSTS_H
#define HR_ANALYSIS_HARDWARE_COSTS_H

#include "base/json.h"

#include <headroom/hardware.h>

/** Reads those that the file has. HR_ERROR_INVALID naming the field. */
hr_status hr_hardware_read_costs(const hr_json_reader *reader, hr_hardware *hardware);

/** Adds those that are known, those whose first number is above 0, to the object of a device file. */
void hr_hardware_put_costs(const hr_hardware *hardware, json_t *json);

/** HR_ERROR_INVALID for one that a prediction cannot use, naming it. */
hr_status hr_hardware_check_costs(const hr_hardware *hardware, hr_error *error);

#endif

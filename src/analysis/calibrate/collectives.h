/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of collectives that a device's file lacks. */
#ifndef HR_ANALYSIS_CALIBRATE_COLLECTIVES_H
#define HR_ANALYSIS_CALIBRATE_COLLECTIVES_H

#include <headroom/experimental/validate.h>

/** Gives the device a rate for each library, collective and number of devices that it has none of and at least `least`
 *  of the rows measure, from the shortest time and the highest rate among them, as far as the list has room. */
void hr_collectives_begin(hr_hardware *hardware, const hr_validated_row *rows, size_t count, int64_t least);

#endif

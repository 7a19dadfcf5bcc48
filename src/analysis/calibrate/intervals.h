/* SPDX-License-Identifier: Apache-2.0 */
/* Where nine of ten measured times lie, by kind and size of prediction. */
#ifndef HR_ANALYSIS_CALIBRATE_INTERVALS_H
#define HR_ANALYSIS_CALIBRATE_INTERVALS_H

#include <headroom/experimental/validate.h>

/** Which rows of a kind, by their order. */
typedef enum hr_row_choice { HR_ROWS_EVEN, HR_ROWS_ODD, HR_ROWS_BOTH } hr_row_choice;

/** Replaces the intervals of each kind that has 20 of the chosen rows, of GEMMs of 32 bits and more of each kind and
 *  number format; others keep theirs. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_fit_intervals(const hr_validated_row *rows, size_t count, hr_row_choice choice, hr_hardware *hardware,
                           hr_error *error);

/** Whether the row's measured time lies in the interval of its predicted one, or in the band. */
bool hr_interval_covers(const hr_hardware *hardware, const hr_validated_row *row);

#endif

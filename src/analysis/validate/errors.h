/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_ANALYSIS_VALIDATE_ERRORS_H
#define HR_ANALYSIS_VALIDATE_ERRORS_H

#include <headroom/experimental/validate.h>

/** Fills groups and worst rows from the rows. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_validation_sum_up(hr_validation *validation, hr_error *error);

#endif

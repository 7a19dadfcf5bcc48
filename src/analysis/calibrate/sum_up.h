/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of a fit by kind and size, the band and the intervals. */
#ifndef HR_ANALYSIS_CALIBRATE_SUM_UP_H
#define HR_ANALYSIS_CALIBRATE_SUM_UP_H

#include <headroom/experimental/calibrate.h>

/** Rows that take less are mostly launch and the library's choice of a kernel. */
#define HR_CALIBRATED_SHORT_NS 30e3

/** Fills the kinds of a result, and the band and the intervals of its hardware, from the same rows predicted before the
 *  fit, by the fit, and (result->held_out) by fits to other rows. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_calibrate_sum_up(const hr_validation *before, const hr_validation *fitted, hr_calibrate_result *result,
                              hr_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing a kernel's result with the float64 reference. */
#ifndef HR_RUNTIME_MEASURE_CHECK_H
#define HR_RUNTIME_MEASURE_CHECK_H

#include "runtime/measure/runner.h"

/** Runs set 0 and compares a sample of rows with the reference. Fills rows_checked, max_error and peak_bytes of
 *  *measurement. HR_ERROR_WRONG_RESULT names the first element outside the error bound. */
hr_status hr_runner_check(hr_runner *runner, uint64_t seed, hr_measurement *measurement, hr_error *error);

/** The index-th of the `count` rows (at most 16) that are compared, of a result of `rows` rows. */
int64_t hr_sampled_row(int64_t rows, int64_t count, int64_t index, uint64_t seed);

#endif

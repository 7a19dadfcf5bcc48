/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of decode calls with top_k. Operands are readable by the host; rows of O are sequences by queries by heads;
 * `scratch` is hr_reference_decode_scratch() doubles and 2 · v_dim more. */
#ifndef HR_RUNTIME_MEASURE_SELECTION_H
#define HR_RUNTIME_MEASURE_SELECTION_H

#include "runtime/measure/runner.h"
#include "runtime/reference/reference.h"

/** Writes swapped[v_dim]: how much each element of a row may change because either of two scores that are equal within
 *  their rounding errors may be chosen. */
void hr_selection_swaps(const hr_runner *runner, const void *const *operands, int64_t row,
                        const hr_reference_query *query, double *scratch, double *swapped);

/** hr_measurement.selection_error of `count` rows. */
double hr_selection_error(const hr_runner *runner, const void *const *operands, const int64_t *rows, int64_t count,
                          double *scratch);

#endif

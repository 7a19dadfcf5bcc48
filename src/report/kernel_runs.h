/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of reports on one call that was measured by several kernels. */
#ifndef HR_REPORT_KERNEL_RUNS_H
#define HR_REPORT_KERNEL_RUNS_H

#include "report/document.h"
#include "report/json.h"

#include <headroom/attention.h>

/** Why kernels have no time, or a doubtful one; a field for each reason. */
void hr_print_reasons(const hr_document *document, const hr_kernel_measurement *runs, size_t count);

/** The value of a COUNT column: a double that is a whole number, or NAN. */
void hr_whole_cell(const void *number, hr_cell *cell);

/** Adds the object `key` with batch, row and head. */
void hr_json_put_strides(hr_json json, const char *key, const hr_strides *strides);

#endif

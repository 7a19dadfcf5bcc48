/* SPDX-License-Identifier: Apache-2.0 */
/* The problem and the date of a row as text. */
#ifndef HR_RUNTIME_STORE_RESULT_H
#define HR_RUNTIME_STORE_RESULT_H

#include <headroom/experimental/store.h>

/** Writes the canonical text of a GEMM, an attention call or a decode call to `problem`; leaves that of other rows. */
void hr_result_name_problem(hr_result *result);

/** Whether the text is a date as rows have it ("2026-01-31T23:59:59.123Z") or, unless `whole`, the beginning of one, at
 *  least the year. */
bool hr_is_date(const char *text, bool whole);

#endif

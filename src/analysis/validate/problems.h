/* SPDX-License-Identifier: Apache-2.0 */
/* The problem of a record, by its kind. */
#ifndef HR_ANALYSIS_VALIDATE_PROBLEMS_H
#define HR_ANALYSIS_VALIDATE_PROBLEMS_H

#include "csv/csv.h"

#include <headroom/experimental/validate.h>

#define HR_PROBLEM_KINDS "gemm, bmm, attention, decode, latent, latent_prefill, experts, scan and collectives"

/** Sets kind and problem of `row`, whose number format is set. HR_ERROR_INVALID with the line and column. */
typedef hr_status (*hr_read_problem_fn)(const hr_csv_record *record, hr_validated_row *row);

/** Chooses by the kind of the record, or without one by its problem, as rows of `headroom sweep --format csv` have it:
 *  those of collectives alone say all that a prediction needs. NULL: others, and kinds that have no prediction. */
hr_read_problem_fn hr_problem_reader(const hr_csv_record *record);

#endif

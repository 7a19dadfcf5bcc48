/* SPDX-License-Identifier: Apache-2.0 */
/* Measured rows and their predictions. */
#ifndef HR_ANALYSIS_VALIDATE_ROWS_H
#define HR_ANALYSIS_VALIDATE_ROWS_H

#include "csv/csv.h"

#include <headroom/experimental/validate.h>

#define HR_PROBLEM_KINDS "gemm, bmm, attention, decode, latent, latent_prefill, experts, scan and collectives"

/** Sets kind and problem of `row`, whose number format is set. HR_ERROR_INVALID with the line and column. */
typedef hr_status (*hr_read_problem_fn)(const hr_csv_record *record, hr_validated_row *row);

/** Chooses by the kind of the record, or without one by its problem, as rows of `headroom sweep --format csv` have it:
 *  those of collectives alone say all that a prediction needs. NULL: others, and kinds that have no prediction. */
hr_read_problem_fn hr_problem_reader(const hr_csv_record *record);

/** Tokens of a layer and its experts on all devices. */
typedef struct hr_expert_loads {
  int64_t tokens, top_k, experts, devices;
  double exponent; /* of the power law that the experts' loads are drawn from, above 1 */
} hr_expert_loads;

/** Sets rows and experts of the call to those of the device with the most tokens, in the mean of several draws. Leaves
 *  the call as it is where the devices' experts are not as many, or are too many. */
void hr_expert_loads_take(const hr_expert_loads *loads, hr_expert_call *call);

/** The caller of a long loop over rows, who may want to stop. */
typedef struct hr_row_poll {
  hr_progress_fn progress; /* may be NULL */
  void *context;
  double done; /* of the whole work, for `progress` */
  size_t rows; /* so far */
} hr_row_poll;

/** Asks the caller. HR_ERROR_INTERRUPTED: to stop. */
hr_status hr_row_poll_now(const hr_row_poll *poll, hr_error *error);

/** Counts a row, and asks the caller at some of them. */
hr_status hr_row_poll_next(hr_row_poll *poll, hr_error *error);

/** hr_validate_rows() for a caller who may want to stop. */
hr_status hr_validate_rows_polled(const hr_hardware *hardware, const hr_validated_row *rows, size_t count,
                                  hr_row_poll *poll, hr_validation **validation, hr_error *error);

/** Predicts the problem of a row for the row's clock, cache and framework, which are set in *hardware; sets the members
 *  from `prediction` on, and the exact kind of a GEMM. Errors of hr_predict_operator(); HR_ERROR_UNSUPPORTED for a
 *  format that the device does not have. */
hr_status hr_validated_row_predict(hr_hardware *hardware, hr_validated_row *row, hr_error *error);

/** Whether the row is a call of attention, with one or several queries. */
bool hr_validated_row_is_attention(const hr_validated_row *row);

/** The kind whose interval the row's prediction has: that of the row, or of the same calls by Headroom's kernels. */
hr_interval_kind hr_validated_row_interval(const hr_validated_row *row);

/** Counts a row that is not compared. `unit`: "row" or "line", of which `number` tells which. */
void hr_validation_skip(hr_validation *validation, const char *unit, int64_t number, const char *why);

/** Predicts *row, as hr_validated_row_predict() does, and adds it to `validation`, whose rows have space for *capacity;
 *  counts it where it has no prediction. Messages begin with the unit and the row's line. HR_ERROR_OUT_OF_MEMORY,
 *  errors of hr_validated_row_predict(). */
hr_status hr_validation_add(hr_validation *validation, size_t *capacity, hr_hardware *hardware, hr_validated_row *row,
                            const char *unit, hr_error *error);

/** Fills the errors of a group of `count` rows, at least one, but for the correlation of ranks. Sorts them by error. */
void hr_validated_group_fill(hr_validated_group *group, const hr_validated_row **rows, size_t count);

/** Fills groups and worst rows from the rows, again after these changed. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_validation_sum_up(hr_validation *validation, hr_error *error);

#endif

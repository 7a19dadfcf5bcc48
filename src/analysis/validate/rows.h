/* SPDX-License-Identifier: Apache-2.0 */
/* Measured rows and their predictions. */
#ifndef HR_ANALYSIS_VALIDATE_ROWS_H
#define HR_ANALYSIS_VALIDATE_ROWS_H

#include <headroom/experimental/validate.h>

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

/** Adds a copy of a row to `validation`, whose rows have space for *capacity. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_validation_add(hr_validation *validation, size_t *capacity, const hr_validated_row *row, hr_error *error);

#endif

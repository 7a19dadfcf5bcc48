/* SPDX-License-Identifier: Apache-2.0 */
/* Minimizes the error of predictions over a device's figures, and sums up what is left. */
#ifndef HR_ANALYSIS_CALIBRATE_FIT_H
#define HR_ANALYSIS_CALIBRATE_FIT_H

#include "analysis/calibrate/parameters.h"
#include "analysis/validate/rows.h"

/** What a row is to a fit. */
typedef struct hr_fit_row {
  unsigned bits; /* hr_parameter_row_bits() */
  int64_t part;  /* of the cross-validation, from 1 */
  double weight;
} hr_fit_row;

typedef struct hr_fit_problem {
  const hr_hardware *start;
  const hr_validated_row *rows;
  const hr_fit_row *facts; /* of each row */
  size_t count;
  int64_t left_out; /* a part whose rows do not count; 0: none */
  const hr_parameter *parameters;
  size_t parameter_count;
  hr_row_poll *poll; /* with what is done before */
  double done_share; /* of the whole work, that this is */
} hr_fit_problem;

/** How many rows with a weight depend on a figure: their prediction changes by more than 0.1% with it by 10%. */
hr_status hr_fit_count_rows(const hr_fit_problem *problem, const hr_parameter *parameter, int64_t *rows,
                            hr_error *error);

/** The start with the figures that predict the rows best. HR_ERROR_INTERRUPTED, HR_ERROR_OUT_OF_MEMORY, errors of
 *  hr_validated_row_predict(). */
hr_status hr_fit(const hr_fit_problem *problem, hr_hardware *fitted, hr_error *error);

/** Rows that take less are mostly launch and the library's choice of a kernel. */
#define HR_CALIBRATED_SHORT_NS 30e3

/** Fills the kinds of a result, and the band and the intervals of its hardware, from the same rows predicted before the
 *  fit, by the fit, and (result->held_out) by fits to other rows. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_calibrate_sum_up(const hr_validation *before, const hr_validation *fitted, hr_calibrate_result *result,
                              hr_error *error);

#endif

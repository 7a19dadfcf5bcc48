/* SPDX-License-Identifier: Apache-2.0 */
/* Fitting a device's figures to measured times.
 *
 * Thread safety: hr_calibrate() is a pure function of its arguments; a result is read-only once made. */
#ifndef HEADROOM_EXPERIMENTAL_CALIBRATE_H
#define HEADROOM_EXPERIMENTAL_CALIBRATE_H

#include <headroom/experimental/validate.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_calibrate_options {
  size_t struct_size; /* sizeof(hr_calibrate_options), set by hr_calibrate_options_default() */
  int64_t folds;      /* parts of the cross-validation, 2 to 20; 0 (default): 2 from 500 rows on, else 5 */
  /** Polled during the fit, with the share that is done; nonzero ends it with HR_ERROR_INTERRUPTED. May be NULL. */
  hr_progress_fn progress;
  void *context;
} hr_calibrate_options;

/** See the members. */
HR_API void hr_calibrate_options_init(hr_calibrate_options *options, size_t size);
HR_DEFAULT(hr_calibrate_options)

/** A figure of the device file that was fitted. */
typedef struct hr_fitted_figure {
  char name[64];  /* "load_share", "tiles[3].share" */
  char field[32]; /* of the device file: "tiles" */
  double before, after;
  int64_t rows; /* whose prediction depends on it */
} hr_fitted_figure;

/** Sizes of rows by their measured time. */
typedef enum hr_calibrated_size {
  HR_CALIBRATED_ANY,
  HR_CALIBRATED_SHORT, /* below 30 us */
  HR_CALIBRATED_LONG,
  HR_CALIBRATED_SIZE_COUNT
} hr_calibrated_size;

/** Errors of the rows of a kind, all or those of a size. An error is predicted over measured time, or its inverse, less
 *  1; of several the geometric mean of the factors, as hr_validated_group.mean. */
typedef struct hr_calibrated_kind {
  hr_interval_kind kind;
  hr_calibrated_size size;
  int64_t rows;
  double before;   /* by the figures at the start */
  double fitted;   /* by the fitted figures, on the rows that they were fitted to */
  double held_out; /* each row by figures that were fitted to the other parts of the rows */
  double held_out_median, held_out_p90, held_out_bias;
  double coverage; /* of held-out rows that the intervals were not fitted to, by the intervals; NAN without any */
} hr_calibrated_kind;

/** "all", "below 30 us", "30 us and more". Static storage. */
HR_API const char *hr_calibrated_size_name(hr_calibrated_size size);

#define HR_FITTED_FIGURES_MAX 512

typedef struct hr_calibrate_result {
  hr_hardware *hardware; /* as at the start, with the fitted figures, intervals and error_band; owned by the result */
  int64_t rows, skipped, folds;
  char skipped_why[160]; /* as hr_validation.skipped_why */
  size_t figure_count;
  hr_fitted_figure figures[HR_FITTED_FIGURES_MAX];
  size_t kind_count;
  hr_calibrated_kind kinds[HR_INTERVAL_KIND_COUNT * HR_CALIBRATED_SIZE_COUNT]; /* those with rows */
  hr_validation *held_out; /* each row with its held-out prediction */
} hr_calibrate_result;

/** Fewest rows that can be fitted to. */
#define HR_CALIBRATE_ROWS_MIN 20

/** Fits the figures of `start` to `count` measured rows (as hr_validate_rows() takes them): those in a table of the
 *  device file's figures (docs/calibration.md) on which at least 6 rows depend. The mean of |log(predicted / measured)|
 *  is minimized by a pattern search along the axes (Hooke and Jeeves 1961); groups of rows (kind, format, below and
 *  above 30 us) count by the root of their size, and figures that the rows do not determine stay where they were. For
 *  the cross-validation rows with the same n and k (of attention: with the same sizes) are in one part. Errors:
 *  HR_ERROR_INVALID for fewer than HR_CALIBRATE_ROWS_MIN rows; HR_ERROR_INTERRUPTED, HR_ERROR_OUT_OF_MEMORY, those of
 *  hr_validate_rows(). On HR_OK the caller owns *result and frees it with hr_calibrate_result_free(). */
HR_API hr_status hr_calibrate(const hr_hardware *start, const hr_validated_row *rows, size_t count,
                              const hr_calibrate_options *options, hr_calibrate_result **result, hr_error *error);

/** What a device file says about its fit. Texts may be NULL. */
typedef struct hr_calibrate_facts {
  size_t struct_size;             /* sizeof(hr_calibrate_facts), set by hr_calibrate_facts_default() */
  const char *date;               /* of the fit: "2026-01-31" */
  const char *source;             /* of the rows: "measured.csv", "measured on NVIDIA H200" */
  const char *driver, *libraries; /* with which they were measured */
  hr_calibration calibration;     /* default HR_CALIBRATION_MEASURED */
} hr_calibrate_facts;

/** No texts. */
HR_API void hr_calibrate_facts_init(hr_calibrate_facts *facts, size_t size);
HR_DEFAULT(hr_calibrate_facts)

/** Writes the device file of a result (docs/hardware.md): the file `base` of `length` bytes, from which the fit
 *  started, with the fitted figures, their sources, the intervals, error_band, and a member "calibrated" with date,
 *  rows and errors; without `base` (NULL) all figures of result->hardware. The caller frees *text, which ends with NUL,
 *  with free(). HR_ERROR_UNREADABLE if `base` is no JSON object, HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_calibrate_device_file(const hr_calibrate_result *result, const char *base, size_t length,
                                          const hr_calibrate_facts *facts, char **text, hr_error *error);

/** Frees it; NULL is accepted. */
HR_API void hr_calibrate_result_free(hr_calibrate_result *result);

#ifdef __cplusplus
}
#endif
#endif

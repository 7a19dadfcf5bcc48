/* SPDX-License-Identifier: Apache-2.0 */
/* How the operands of each operation are filled and its result is checked: a row of the table in checks.c. */
#ifndef HR_RUNTIME_MEASURE_CHECKS_H
#define HR_RUNTIME_MEASURE_CHECKS_H

#include "runtime/measure/runner.h"
#include "runtime/reference/reference.h"

#define HR_CHECKED_ROWS_MAX 16
#define HR_CHECKED_PRODUCTS_MAX ((int64_t)1 << 23) /* multiply-adds of the reference: 10 ms, and as long to copy B */

/** The sampled part of one output: `count` rows, and in each `ranges` ranges of `width` columns; one range is the whole
 *  row unless that is too much. */
typedef struct hr_sample {
  size_t output;         /* which, from 0; set by hr_runner_check() */
  int64_t rows;          /* of the output */
  int64_t length;        /* of a row */
  int64_t count;         /* sampled rows */
  int64_t ranges, width; /* of a row */
  size_t scratch;        /* doubles of the reference */
  uint64_t seed;
} hr_sample;

/** A part of an operand, in bytes. */
typedef struct hr_operand_part {
  size_t offset, bytes;
} hr_operand_part;

/** The operands of set 0, readable by the host. From a device's own memory only the parts that the sample needs are
 *  copied, each to its offset in a reserved image of the operand: address space is free, copying gigabytes is not. */
typedef struct hr_host_set {
  const void *operands[HR_OPERANDS_MAX];
  void *images[HR_OPERANDS_MAX];         /* NULL if the host can read the device's memory */
  hr_operand_part here[HR_OPERANDS_MAX]; /* the part copied last */
} hr_host_set;

hr_status hr_host_set_begin(const hr_runner *runner, hr_host_set *host, hr_error *error);
void hr_host_set_end(const hr_runner *runner, hr_host_set *host);

/** Copies a part of an operand unless it was copied last. */
hr_status hr_host_set_fetch(const hr_runner *runner, hr_host_set *host, size_t operand, hr_operand_part wanted,
                            hr_error *error);

/** Copies whole inputs, and of the output `of` the row that begins at element `start`. */
hr_status hr_host_set_fetch_row(const hr_runner *runner, hr_host_set *host, const hr_sample *of, int64_t start,
                                hr_error *error);

/** The columns from `column` on of a row of an output. */
typedef struct hr_checked_range {
  const hr_runner *runner;
  const hr_sample *of;
  int64_t row, column;
} hr_checked_range;

typedef struct hr_check {
  /** HR_ERROR_UNSUPPORTED for a problem whose runs cannot be timed. NULL: all can. */
  hr_status (*can_be_timed)(const hr_problem *problem, hr_error *error);
  /** Fills an operand that is not numbers of the problem's dtype: a page table, scales … NULL: has none. */
  void (*make_table)(const hr_problem *problem, hr_operand_kind kind, uint64_t seed, size_t bytes, void *to);
  /** The dtype whose random numbers fill HR_OPERAND_CACHE. NULL: has none. */
  hr_dtype (*cache_dtype)(const hr_problem *problem);
  /** Returns the sample of output `output`, without its number and its seed. */
  hr_sample (*sample)(const hr_problem *problem, size_t output);
  /** Index of the first element of a row of that output. */
  int64_t (*row_start)(const hr_problem *problem, size_t output, int64_t row);
  /** Copies what the reference reads for a range, and the range's row. */
  hr_status (*fetch)(const hr_checked_range *range, hr_host_set *host, hr_error *error);
  /** Writes the reference of a range to query->out and what its bound needs to `query`. */
  void (*reference)(const hr_checked_range *range, const hr_host_set *host, double *scratch, hr_reference_query *query);
  /** How far an element may be off. */
  double (*bound)(const hr_plan *plan, const hr_reference_query *query, int64_t column);
  /** How much more each element of the range may be off, since equal scores may be chosen otherwise. NULL: nothing. */
  void (*swaps)(const hr_checked_range *range, const hr_host_set *host, const hr_reference_query *query,
                double *scratch, double *swapped);
  /** hr_measurement.selection_error of these rows. NULL, or no operation with a selection: none. */
  bool (*selects)(const hr_problem *problem);
  double (*selection_error)(const hr_runner *runner, const hr_host_set *host, const int64_t *rows, int64_t count,
                            double *scratch);
} hr_check;

extern const hr_check hr_check_gemm, hr_check_attention, hr_check_rowwise, hr_check_decode, hr_check_attention_backward;

const hr_check *hr_check_of(hr_operation operation);

/** A sample of whole rows; `products` are the multiply-adds of a row. */
hr_sample hr_sample_of_rows(int64_t rows, int64_t length, int64_t products, size_t scratch);

/** Writes scales with which elements times their scales are of the order of 1. */
void hr_make_scales(hr_kv_format format, uint64_t seed, size_t count, float *to);

/** Index of the first element of a row of attention's or decode's O; rows are sequences by queries by heads. */
int64_t hr_query_start(hr_strides strides, int64_t q_len, int64_t q_heads, int64_t row);

#endif

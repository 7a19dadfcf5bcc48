/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of one side of a comparison: chosen, and one for each point. */
#ifndef HR_EXPERIMENT_COMPARE_ROWS_H
#define HR_EXPERIMENT_COMPARE_ROWS_H

#include <headroom/experimental/compare.h>

/** What a comparison needs of a row. The texts are parts of one allocation. */
typedef struct hr_compare_row {
  char *texts;
  const char *sweep, *series, *axes, *problem, *kernel_asked, *product;
  int64_t threads, autotune, decode_part;
  bool warm;
  double flops_per_s; /* NAN: unknown */
  size_t order;       /* of the date */
  hr_compared_row measured;
} hr_compare_row;

typedef struct hr_compare_rows {
  hr_compare_row *rows;
  size_t count, capacity;
} hr_compare_rows;

/** What of a row identifies its point besides its problem. */
typedef struct hr_compare_key {
  bool product, threads;
} hr_compare_key;

/** Reads the rows of a side, oldest first, and what they were measured with. Errors of hr_compare_stores(). */
hr_status hr_compare_read(hr_store *store, const hr_compare_side *side, hr_compare_rows *rows,
                          hr_compared_origin *origin, hr_error *error);
void hr_compare_rows_free(hr_compare_rows *rows);

/** Whether a row has another product, another number of threads than the first one. */
hr_compare_key hr_compare_varies(const hr_compare_rows *rows);

/** Order of two rows by their points; 0: one point. */
int hr_compare_points(const hr_compare_row *a, const hr_compare_row *b, hr_compare_key key);

/** Sorts by point and keeps the latest row of each. */
void hr_compare_latest(hr_compare_rows *rows, hr_compare_key key);

#endif

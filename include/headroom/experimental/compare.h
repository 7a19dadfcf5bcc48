/* SPDX-License-Identifier: Apache-2.0 */
/* Two sets of stored measurements compared point by point: two stores, devices, library versions or dates.
 *
 * docs/notes/compare.md derives the intervals. Thread safety: a result is immutable. */
#ifndef HEADROOM_EXPERIMENTAL_COMPARE_H
#define HEADROOM_EXPERIMENTAL_COMPARE_H

#include <headroom/experimental/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hr_verdict {
  HR_VERDICT_SAME,   /* the whole interval of the ratio is within the tolerance */
  HR_VERDICT_FASTER, /* the whole interval is above it: B is faster than A */
  HR_VERDICT_SLOWER, /* the whole interval is below it */
  HR_VERDICT_NOISY,  /* the interval contains an end of the tolerance, or a measurement is doubtful */
  HR_VERDICT_COUNT
} hr_verdict;

/** "same", "faster", "slower", "noisy". Static storage. */
HR_API const char *hr_verdict_name(hr_verdict verdict);

/** Time of A over time of B with its 95% confidence interval: above 1, B is faster. NAN if unknown. */
typedef struct hr_ratio {
  double value, low, high;
} hr_ratio;

/** The rows of one side. Texts are parts of the row's text, ignoring the case of ASCII letters; NULL: every row. */
typedef struct hr_compare_side {
  size_t struct_size; /* sizeof(hr_compare_side), set by hr_compare_side_default() */
  const char *name;   /* for reports */
  const char *sweep;  /* the whole name */
  const char *device; /* "cuda:0", or a part of the product's name */
  const char *dtype;  /* "bf16": the whole name, in the problem */
  const char *libraries, *driver, *program, *host, *kernel;
  const char *since, *until; /* a date or its beginning; `until` includes what begins with it */
  hr_store *store;           /* where the rows are */
} hr_compare_side;

/** Every row; no store. */
HR_API void hr_compare_side_init(hr_compare_side *side, size_t size);
HR_DEFAULT(hr_compare_side)

/** The measurement of a point in one side: its latest row. */
typedef struct hr_compared_row {
  char date[25];
  hr_status status;
  const char *reason; /* "" if there is none */
  int64_t samples;
  double median_ns, low_ns, high_ns; /* NAN without a time; the interval is NAN if the row has no spread */
} hr_compared_row;

/** A point with a row in A and in B, and a time in A. */
typedef struct hr_compared_point {
  const char *sweep, *series, *axes, *problem, *product; /* of the row in A; "" if it has none */
  hr_compared_row a, b;
  hr_ratio ratio; /* NAN unless both have a time */
  hr_verdict verdict;
  bool lost; /* A has a time, B only a status such as out_of_memory or wrong_result */
} hr_compared_point;

/** Numbers of points, and their geometric mean. */
typedef struct hr_compared_sum {
  int64_t points, lost;
  int64_t verdicts[HR_VERDICT_COUNT]; /* of the points that are not lost */
  hr_ratio ratio;                     /* over the points that are neither lost nor doubtful */
  hr_verdict verdict;
} hr_compared_sum;

/** A sweep: `count` points from `first`. */
typedef struct hr_compared_sweep {
  const char *name; /* "" for single measurements */
  size_t first, count;
  hr_compared_sum sum;
} hr_compared_sweep;

/** What was measured with what, of the rows of one side. Lists are separated by "; " and cut if too long. */
typedef struct hr_compared_origin {
  char name[256];
  int64_t rows;
  char products[256], libraries[512], drivers[128], programs[128], hosts[256];
  char first[25], last[25]; /* dates */
  int64_t alone;            /* points that the other side lacks */
} hr_compared_origin;

/** The result; texts live as long as it. */
typedef struct hr_compare_result {
  hr_compared_origin a, b;
  double tolerance;
  hr_compared_point *points; /* by sweep, series and axes, numbers in numerical order */
  size_t count;
  hr_compared_sweep *sweeps;
  size_t sweep_count;
  hr_compared_sum total;
  void *rows_a, *rows_b; /* private */
} hr_compare_result;

#define HR_COMPARE_TOLERANCE 0.02

/** Compares the rows of two stores, which may be one. A point is a sweep, series, axes, problem, kernel asked for,
 *  number of autotuned configurations, warm or cold; also a product and a number of threads if one side has several.
 *  `tolerance` (0 … 1): a ratio from 1 / (1 + tolerance) to 1 + tolerance counts as no difference. The caller frees
 *  *result with hr_compare_free(); it may have no point. HR_ERROR_INVALID: tolerance, dtype or date; errors of
 *  hr_store_query(); HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_compare_stores(const hr_compare_side *a, const hr_compare_side *b, double tolerance,
                                   hr_compare_result **result, hr_error *error);

/** NULL is allowed. */
HR_API void hr_compare_free(hr_compare_result *result);

/** Whether B is worse: the verdict of a sweep or of the total is `slower`, or a point is lost. With `strict` also if
 *  a single point is slower. */
HR_API bool hr_compare_is_worse(const hr_compare_result *result, bool strict);

#ifdef __cplusplus
}
#endif
#endif

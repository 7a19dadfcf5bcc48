/* SPDX-License-Identifier: Apache-2.0 */
/* Problems that are measured so that predictions can be fitted to them or held against them.
 *
 * Thread safety: as hr_measure_gemm() and hr_store_append(). */
#ifndef HEADROOM_EXPERIMENTAL_POINTS_H
#define HEADROOM_EXPERIMENTAL_POINTS_H

#include <headroom/experimental/store.h>
#include <headroom/experimental/sweep.h>
#include <headroom/experimental/validate.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A problem. Attention is measured with Headroom's fused kernels, decode with those of split-KV on pages of 16
 *  tokens. */
typedef struct hr_point {
  hr_interval_kind kind;  /* HR_INTERVAL_GEMM (batched and narrow, too), HR_INTERVAL_ATTENTION, HR_INTERVAL_DECODE */
  hr_gemm gemm;           /* of the first */
  hr_attention attention; /* of the others; decode has one query per sequence */
} hr_point;

/** `count` problems. */
typedef struct hr_point_list {
  const hr_point *points;
  size_t count;
} hr_point_list;

typedef struct hr_points_options {
  size_t struct_size;            /* sizeof(hr_points_options), set by hr_points_options_default() */
  const char *sweep;             /* of the rows in the store, by which they are found again; default "points" */
  const char *series;            /* the same, within the sweep; default "" */
  double budget_ns;              /* no point is begun after this time; 0 (default): no limit */
  double time_limit_ns;          /* of the sampling of one point; default 0.2 s */
  bool again;                    /* also measure points that have a row; default false */
  bool warm;                     /* warm caches; default false */
  uint64_t seed;                 /* of the data; default 1 */
  hr_sweep_progress_fn progress; /* as of a sweep, which never is probing here */
  void *context;                 /* of `progress`, which may be NULL */
} hr_points_options;

/** See the members. */
HR_API void hr_points_options_init(hr_points_options *options, size_t size);
HR_DEFAULT(hr_points_options)

/** Measures the points that have no row on this device, or a noisy one, in their order, and appends a row for each: a
 *  process that is killed loses at most the point at hand, and the same call goes on. A point that cannot be measured
 *  gets a row with that status. `outcome` (may be NULL) is filled in every case. HR_ERROR_INTERRUPTED: stopped by
 *  `progress`, which may be NULL; errors of the store. */
HR_API hr_status hr_points_measure(hr_device *device, hr_store *store, const hr_point_list *list,
                                   const hr_points_options *options, hr_sweep_progress *outcome, hr_error *error);

/** The latest time of each point that hr_points_measure() with these options stored for this device, as rows without a
 *  prediction: at the settled clock, `line` the number of the point, from 1. Points without a time, or with a noisy
 *  one, have no row. The caller frees *rows (*row_count of them) with free(). Errors of hr_store_query(),
 *  HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_points_rows(const hr_device *device, hr_store *store, const hr_point_list *list,
                                const hr_points_options *options, hr_validated_rows *rows, hr_error *error);

/** The points to which `headroom calibrate` fits a device: GEMMs, batched GEMMs, attention and decode of aligned and
 *  odd sizes, spread evenly over the logarithms of their sizes, in the formats that the device has rates for. The same
 *  device always gets the same list, and each beginning of it has all kinds. No point computes or moves more than a GPU
 *  does in 15 ms by its datasheet; a CPU's have at most 2 GFLOP a core and 200 MB. The caller frees *points with
 *  free(). Errors of hr_hardware_check(), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_points_design(const hr_hardware *hardware, hr_point **points, size_t *count, hr_error *error);

#define HR_POINTS_DRAWN_MAX 100000 /* which measure for hours */

typedef struct hr_points_draw_options {
  size_t struct_size; /* sizeof(hr_points_draw_options), set by hr_points_draw_options_default() */
  uint64_t seed;      /* default 1 */
  unsigned kinds;     /* bit i: hr_interval_kind i, of gemm, bmm, attention and decode; default all of these */
  int64_t count;      /* 1 to HR_POINTS_DRAWN_MAX; default 200 */
  hr_dtype dtype;     /* default bf16 */
} hr_points_draw_options;

/** See the members. */
HR_API void hr_points_draw_options_init(hr_points_draw_options *options, size_t size);
HR_DEFAULT(hr_points_draw_options)

/** Random points, to hold predictions against. Half are GEMMs, a quarter batched ones, an eighth each attention and
 *  decode, or these shares among options->kinds. Sizes of GEMMs and lengths of attention are log-uniform from 16 to
 *  32768: of every third point of a kind none is a multiple of 8, of the others all are. Batches are log-uniform, too:
 *  of GEMMs from 2 to 1024, of attention to 64, of decode to 256. Transposes are those of a linear layer's forward pass
 *  and of its two gradients; in fp8 all GEMMs are of forward passes, with multiples of 16. Heads have 64 or 128
 *  elements two times of three, otherwise 80, 96, 192 or 256; up to 8 query heads share K and V; three of four
 *  attention calls are causal. Larger points than a GPU computes or moves in 25 ms by its datasheet, and on a CPU than
 *  2 GFLOP a core or 200 MB, are drawn again.
 *
 *  The n-th point of a kind depends on seed, dtype and these limits alone, so that a longer list, or one of fewer
 *  kinds, has the same points. The caller frees *points with free(). HR_ERROR_INVALID for another count and for no or
 *  other kinds; HR_ERROR_UNSUPPORTED if the limits exclude everything; errors of hr_hardware_check();
 *  HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_points_draw(const hr_hardware *hardware, const hr_points_draw_options *options, hr_point **points,
                                size_t *count, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

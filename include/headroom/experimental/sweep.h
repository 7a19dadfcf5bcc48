/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps: figures as data, with axes, the problem of each point, and the series of the picture.
 *
 * docs/sweeps.md describes the file format. Thread safety: an hr_sweep is immutable; one run at a time per device. */
#ifndef HEADROOM_EXPERIMENTAL_SWEEP_H
#define HEADROOM_EXPERIMENTAL_SWEEP_H

#include <headroom/attention.h>
#include <headroom/decode.h>
#include <headroom/device.h>
#include <headroom/experimental/collective.h>
#include <headroom/experimental/store.h>
#include <headroom/gemm.h>
#include <headroom/hardware.h>
#include <headroom/input.h>
#include <headroom/model.h>
#include <headroom/workload.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_SWEEP_AXES_MAX 24
#define HR_SWEEP_POINTS_MAX 100000

/** The kinds of points: enumerator, name in a sweep file. */
#define HR_SWEEP_KIND_LIST(ROW)                                         \
  ROW(HR_SWEEP_GEMM, "gemm")                                            \
  ROW(HR_SWEEP_BMM, "bmm")                                              \
  ROW(HR_SWEEP_ATTENTION, "attention")                                  \
  ROW(HR_SWEEP_DECODE, "decode")                                        \
  ROW(HR_SWEEP_LAYER, "layer") /* a whole transformer layer, forward */ \
  ROW(HR_SWEEP_STEP, "step")   /* a whole model that runs */            \
  ROW(HR_SWEEP_COLLECTIVE, "collective")

typedef enum hr_sweep_kind {
#define HR_SWEEP_KIND_ENUM(enumerator, name) enumerator,
  HR_SWEEP_KIND_LIST(HR_SWEEP_KIND_ENUM)
#undef HR_SWEEP_KIND_ENUM
      HR_SWEEP_KIND_COUNT
} hr_sweep_kind;

/** "gemm", "bmm", "attention", "decode", "layer", "step", "collective". Static storage. */
HR_API const char *hr_sweep_kind_name(hr_sweep_kind kind);

/** What a picture of a sweep shows over its x axis. Enumerator, name in a sweep file. */
#define HR_VIEW_LIST(ROW)                                                                    \
  ROW(HR_VIEW_RATE, "rate")               /* TFLOP/s */                                      \
  ROW(HR_VIEW_TIME, "time")               /* of one run */                                   \
  ROW(HR_VIEW_HEATMAP, "heatmap")         /* time of one run, a row for each series */       \
  ROW(HR_VIEW_SCALING, "scaling")         /* time, both axes logarithmic, with the slopes */ \
  ROW(HR_VIEW_GAIN, "gain")               /* time of the sweep's baseline over the time */   \
  ROW(HR_VIEW_SHARES, "shares")           /* parts of a layer's time */                      \
  ROW(HR_VIEW_GEMM_SHARES, "gemm-shares") /* the same, each GEMM by itself */

typedef enum hr_view {
#define HR_VIEW_ENUM(enumerator, name) enumerator,
  HR_VIEW_LIST(HR_VIEW_ENUM)
#undef HR_VIEW_ENUM
      HR_VIEW_COUNT
} hr_view;

/** "rate", "time", … Static storage. */
HR_API const char *hr_view_name(hr_view view);

/** Reads a name of hr_view_name(). HR_ERROR_NOT_FOUND for any other; *view is then untouched. */
HR_API hr_status hr_view_parse(const char *name, hr_view *view);

typedef struct hr_sweep hr_sweep;

/** The description of a sweep. Texts live as long as the sweep and are "" if the file has none. The library returns
 *  pointers to its own, which later releases may end with further members. */
typedef struct hr_sweep_about {
  const char *name;   /* "fig24" */
  const char *figure; /* its number in the source: "24" */
  const char *title;
  const char *source; /* source of the figure */
  const char *note;   /* choices where the source leaves something open */
  const char *x;      /* the axis of the picture */
  const char *x_label, *y_label;
  const char *baseline; /* the case that the other cases are compared with */
  hr_view view;         /* of the original picture */
  bool x_log2;          /* that axis has a logarithmic scale */
  hr_sweep_kind kind;
  size_t point_count;
  size_t series_count; /* lines of the picture; a single one has no name */
} hr_sweep_about;

/** Reads a sweep of a sweep file. `which` is the sweep's name if the file has several (NULL: the only one). With
 *  `small`, the section "cpu" replaces the rest: sizes for a few cores. The caller owns *sweep. HR_ERROR_UNREADABLE;
 *  HR_ERROR_INVALID naming the field or the point; HR_ERROR_OVERFLOW; HR_ERROR_NOT_FOUND: no such sweep in the file;
 *  HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_sweep_from_json(const hr_input *input, const char *which, bool small, hr_sweep **sweep,
                                    hr_error *error);

/** Reads a sweep of the catalogue ("fig24"), of a file ("my.json", any name with '/' or ending in ".json"), or one of
 *  several in a file ("my.json#wide"). HR_ERROR_NOT_FOUND with near names; errors of hr_sweep_from_json(). The
 *  caller owns *sweep. */
HR_API hr_status hr_sweep_load(const char *what, bool small, hr_sweep **sweep, hr_error *error);

/** Frees a sweep; NULL is allowed. */
HR_API void hr_sweep_free(hr_sweep *sweep);

/** The description of a sweep. Never NULL; valid as long as the sweep. */
HR_API const hr_sweep_about *hr_sweep_describe(const hr_sweep *sweep);

/** All sweeps of the catalogue, in the order of their figures. The caller owns *sweeps and its elements and frees
 *  them with hr_sweep_catalog_free(). HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_sweep_catalog(bool small, hr_sweep ***sweeps, size_t *count, hr_error *error);

/** Frees the result of hr_sweep_catalog(); NULL is allowed. */
HR_API void hr_sweep_catalog_free(hr_sweep **sweeps, size_t count);

/** One point. */
typedef struct hr_sweep_point {
  size_t index; /* in the order of the file, from 0 */
  hr_sweep_kind kind;
  hr_gemm gemm;           /* gemm and bmm; of a collective the number format */
  hr_attention attention; /* attention */
  hr_decode decode;       /* decode */
  hr_model model;         /* layer, step: the short form's, under `workload`; a layer's has one */
  hr_workload workload;
  int decode_part; /* decode: hr_measure_options.decode_part */
  char kernel[64]; /* attention, decode: a family of kernels ("attention_flash"); "": the best */
  int64_t x;       /* the value on the axis of the picture */
  char x_name[48]; /* the same for people: a case by its name */
  size_t series_index;
  char series[128];  /* "h/a = 8"; "" if there is only one line */
  char axes[512];    /* every axis in canonical form: "a=20 b=4 power=8 head_dim=72 h=1440" */
  char problem[512]; /* as hr_result.problem; of a layer "layer h=2560 a=20 b=4 s=2048 t=1 …" */
  int64_t output;    /* step: hr_step_options.output, and no_graph */
  bool no_graph;
  hr_collective collective; /* collective */
  bool backward;            /* attention: its gradients, as hr_measure_attention_backward() measures them by default */
} hr_sweep_point;

/** The point of an index below point_count, in a number format; HR_ERROR_INVALID for a larger index. */
HR_API hr_status hr_sweep_point_at(const hr_sweep *sweep, size_t index, hr_dtype dtype, hr_sweep_point *point,
                                   hr_error *error);

/** The choice and order of points. */
typedef struct hr_sweep_choice {
  size_t struct_size;    /* sizeof(hr_sweep_choice), set by hr_sweep_choice_default() */
  int64_t points;        /* number, spread evenly over each series; 0: all */
  int64_t shard, shards; /* the part of one of several workers, 1 … shards; together the parts are all points */
  uint64_t seed;         /* of the random order, so that drift of the machine does not look like a trend. Default 1 */
} hr_sweep_choice;

/** All points, one worker, seed 1. */
HR_API void hr_sweep_choice_init(hr_sweep_choice *choice, size_t size);
HR_DEFAULT(hr_sweep_choice)

/** The indices of the chosen points in the order in which they are to be measured; the same choice always gives the
 *  same. The caller frees *indices with free(). HR_ERROR_INVALID for a shard that is not 1 … shards. */
HR_API hr_status hr_sweep_order(const hr_sweep *sweep, const hr_sweep_choice *choice, size_t **indices, size_t *count,
                                hr_error *error);

/** Predicted time of one run of a point in ns, of a layer with everything in it. Errors of hr_predict_gemm() and
 *  hr_predict_step(). */
HR_API hr_status hr_sweep_predict(const hr_hardware *hardware, const hr_sweep_point *point, double *time_ns,
                                  hr_error *error);

/** Estimated time to measure the chosen points on a device, in ns: preparation, warm-up, check and samples. Points that
 *  the device does not support cost nothing; NAN if no point can be predicted. Errors of hr_sweep_order(). */
HR_API hr_status hr_sweep_estimate(const hr_sweep *sweep, const hr_sweep_choice *choice, const hr_hardware *hardware,
                                   hr_dtype dtype, double *time_ns, hr_error *error);

/** Progress of a run. total = points chosen; done = skipped + measured. */
typedef struct hr_sweep_progress {
  int64_t total, done;
  int64_t skipped;  /* had a row, or got one from another process meanwhile */
  int64_t measured; /* got a row */
  int64_t failed;   /* of the measured: without a time */
  int64_t noisy;    /* of the measured: with a noisy time */
  const char *what; /* the current problem, as in its row; lives until the function returns */
  bool probing;     /* the device is being probed */
  bool storing;     /* the current problem is measured, its row is written next */
} hr_sweep_progress;

/** Called before each point, between samples and before a row is written. A result other than 0 stops the run;
 *  measured rows are kept. */
typedef int (*hr_sweep_progress_fn)(void *context, const hr_sweep_progress *progress);

typedef struct hr_sweep_options {
  size_t struct_size;     /* sizeof(hr_sweep_options), set by hr_sweep_options_default() */
  hr_sweep_choice choice; /* its seed is also that of the data and part of every row */
  hr_dtype dtype;         /* default bf16; hr_hardware_usual_dtype() has the device's */
  bool again;             /* also measure points that have a row; both rows are kept */
  bool warm;              /* warm caches: the same data in every run */
  bool probe;             /* measure the ceilings first, so that rows have their share of them */
  hr_hardware *rates;     /* cache of the probe for several sweeps on one device, empty before the first; owned by the
                             caller. NULL: each run probes */
  double time_limit_ns;   /* of the sampling of one point; 0: 2 s */
  const char *kernel;     /* as hr_plan_gemm()'s, for points that name none; NULL: the best */
  int64_t autotune;       /* of GEMMs: hr_measure_options.autotune; such rows are separate rows */
  int64_t memory_limit_bytes; /* as in hr_measure_options */
  hr_sweep_progress_fn progress;
  void *context; /* of `progress`, which may be NULL */
} hr_sweep_options;

/** All points, one worker, bf16, cold caches, no probe. */
HR_API void hr_sweep_options_init(hr_sweep_options *options, size_t size);
HR_DEFAULT(hr_sweep_options)

/** Measures the chosen points without a row and appends a row for each. A point that cannot be measured (out of memory,
 *  unsupported, timeout, wrong result, noisy) gets a row with that status, and the run continues. `outcome` (may be
 *  NULL) is filled in every case. HR_ERROR_INTERRUPTED: stopped by options->progress; HR_ERROR_NOT_FOUND:
 *  no such kernel; HR_ERROR_OUTPUT and other errors of the store. After an error the earlier rows are kept, and the
 *  same call resumes. Several processes may run the same sweep into one store at once on devices of one kind: each
 *  point gets one row, and a process skips points that another is measuring. */
HR_API hr_status hr_sweep_run(const hr_sweep *sweep, hr_device *device, hr_store *store,
                              const hr_sweep_options *options, hr_sweep_progress *outcome, hr_error *error);

/** The latest row of a point in the store. */
typedef struct hr_sweep_row {
  bool found;
  char date[25];
  hr_measurement measurement;
  double ceiling_share; /* of the instruction ceiling; NAN: unknown */
} hr_sweep_row;

/** The latest row of every point of the sweep that a run with these options on this device would have written,
 *  regardless of the choice of points. The caller frees *rows (point_count
 *  of them) with free(). Errors of hr_store_query(), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_sweep_rows(const hr_sweep *sweep, const hr_device *device, hr_store *store,
                               const hr_sweep_options *options, hr_sweep_row **rows, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* Sweeps: figures as data. Axes, the problem that each point of them is, and the lines of the picture.
 *
 * docs/sweeps.md says how a sweep file is written. Thread safety: an hr_sweep is not changed after it was read; one run
 * at a time for a device. */
#ifndef HEADROOM_SWEEP_H
#define HEADROOM_SWEEP_H

#include <headroom/attention.h>
#include <headroom/device.h>
#include <headroom/gemm.h>
#include <headroom/hardware.h>
#include <headroom/model.h>
#include <headroom/store.h>
#include <headroom/workload.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_SWEEP_AXES_MAX 24
#define HR_SWEEP_POINTS_MAX 100000

/** What a point is. One row a kind: enumerator, name as in a sweep file. */
#define HR_SWEEP_KIND_LIST(ROW)        \
  ROW(HR_SWEEP_GEMM, "gemm")           \
  ROW(HR_SWEEP_BMM, "bmm")             \
  ROW(HR_SWEEP_ATTENTION, "attention") \
  ROW(HR_SWEEP_LAYER, "layer") /* a whole transformer layer, forward */

typedef enum hr_sweep_kind {
#define HR_SWEEP_KIND_ENUM(enumerator, name) enumerator,
  HR_SWEEP_KIND_LIST(HR_SWEEP_KIND_ENUM)
#undef HR_SWEEP_KIND_ENUM
      HR_SWEEP_KIND_COUNT
} hr_sweep_kind;

/** "gemm", "bmm", "attention", "layer". Static storage. */
HR_API const char *hr_sweep_kind_name(hr_sweep_kind kind);

typedef struct hr_sweep hr_sweep;

/** What a sweep says about itself. Texts live as long as the sweep and are "" where the file says nothing. */
typedef struct hr_sweep_about {
  const char *name;   /* "fig24" */
  const char *figure; /* its number in the source: "24" */
  const char *title;
  const char *source; /* where the figure is from */
  const char *note;   /* what the source leaves open, and what was chosen */
  const char *x;      /* the axis along the picture */
  const char *x_label, *y_label;
  bool x_log2; /* that axis has a logarithmic scale */
  hr_sweep_kind kind;
  size_t point_count;
  size_t series_count; /* lines of the picture; 1 for a single one, which has no name */
} hr_sweep_about;

/** Reads a sweep of a sweep file. `which` is the sweep's name where the file has several (NULL: the only one). With
 *  `small`, what the file says under "cpu" replaces the rest: sizes that end in reasonable time on a few cores. `input`
 *  is how messages call the text. The caller owns *sweep. HR_ERROR_UNREADABLE; HR_ERROR_INVALID naming the field or the
 *  point; HR_ERROR_OVERFLOW; HR_ERROR_NOT_FOUND: no such sweep in the file; HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_sweep_from_json(const char *text, size_t length, const char *input, const char *which, bool small,
                                    hr_sweep **sweep, hr_error *error);

/** Reads a sweep of the catalogue ("fig24"), of a file ("my.json", any name with '/' or ending in ".json"), or one of
 *  the several of a file ("my.json#wide"). HR_ERROR_NOT_FOUND with near names; errors of hr_sweep_from_json(). The
 *  caller owns *sweep. */
HR_API hr_status hr_sweep_load(const char *what, bool small, hr_sweep **sweep, hr_error *error);

/** Frees a sweep; NULL is allowed. */
HR_API void hr_sweep_free(hr_sweep *sweep);

/** What the sweep says about itself. */
HR_API hr_sweep_about hr_sweep_describe(const hr_sweep *sweep);

/** All sweeps of the catalogue, in the order of their figures. The caller owns *sweeps and its elements and gives them
 *  back with hr_sweep_catalog_free(). HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_sweep_catalog(bool small, hr_sweep ***sweeps, size_t *count, hr_error *error);

/** Frees what hr_sweep_catalog() gave; NULL is allowed. */
HR_API void hr_sweep_catalog_free(hr_sweep **sweeps, size_t count);

/** One point. */
typedef struct hr_sweep_point {
  size_t index; /* in the order of the file, from 0 */
  hr_sweep_kind kind;
  hr_gemm gemm;           /* gemm and bmm */
  hr_attention attention; /* attention */
  hr_model model;         /* layer: one layer of the short form's model, in the step that `workload` says */
  hr_workload workload;
  char kernel[64]; /* attention: a family of kernels that the point is of ("attention_flash"); "": the best */
  int64_t x;       /* the value of the axis along the picture */
  char x_name[48]; /* the same as people read it: a case by its name */
  size_t series_index;
  char series[128];  /* "h/a = 8"; "" where there is only one line */
  char axes[512];    /* every axis, in one fixed way: "a=20 b=4 power=8 head_dim=72 h=1440" */
  char problem[512]; /* as hr_result.problem; of a layer "layer h=2560 a=20 b=4 s=2048 t=1 …" */
} hr_sweep_point;

/** The point of an index below point_count, in a number format. Errors only for an index beyond: HR_ERROR_INVALID. */
HR_API hr_status hr_sweep_point_at(const hr_sweep *sweep, size_t index, hr_dtype dtype, hr_sweep_point *point,
                                   hr_error *error);

/** Which points, and in which order. */
typedef struct hr_sweep_choice {
  size_t struct_size;    /* sizeof(hr_sweep_choice), set by hr_sweep_choice_default() */
  int64_t points;        /* so many, spread evenly over each series; 0: all */
  int64_t shard, shards; /* the share of one of several workers, 1 … shards; together the shares are everything */
  uint64_t seed;         /* of the order, so that drift of the machine does not look like a trend. Default 1 */
} hr_sweep_choice;

/** All points, one worker, seed 1. */
HR_API hr_sweep_choice hr_sweep_choice_default(void);

/** The indices of the chosen points in the order in which they are to be measured; the same choice always gives the
 *  same. The caller frees *indices with free(). HR_ERROR_INVALID for a shard that is not 1 … shards. */
HR_API hr_status hr_sweep_order(const hr_sweep *sweep, const hr_sweep_choice *choice, size_t **indices, size_t *count,
                                hr_error *error);

/** Predicted time of one run of a point in ns, of a layer with everything in it. Errors of hr_predict_gemm() and
 *  hr_predict_step(). */
HR_API hr_status hr_sweep_predict(const hr_hardware *hardware, const hr_sweep_point *point, double *time_ns,
                                  hr_error *error);

/** About how long measuring the chosen points takes on a device, in ns: preparing, warming up, checking and sampling
 *  each. Points that the device does not support cost nothing; NAN if no point can be predicted. Errors of
 *  hr_sweep_order(). */
HR_API hr_status hr_sweep_estimate(const hr_sweep *sweep, const hr_sweep_choice *choice, const hr_hardware *hardware,
                                   hr_dtype dtype, double *time_ns, hr_error *error);

typedef struct hr_sweep_options {
  size_t struct_size;     /* sizeof(hr_sweep_options), set by hr_sweep_options_default() */
  hr_sweep_choice choice; /* its seed is also that of the data, and every row has it */
  hr_dtype dtype;         /* default bf16; hr_hardware_usual_dtype() has the device's */
  bool again;             /* measure what has a row already, too; both rows are kept */
  bool warm;              /* the same data again and again, rather than cold caches */
  bool probe;             /* measure the ceilings first, of which rows then have their share */
  hr_hardware *rates;     /* where that is kept from one sweep to the next of the same device, zeroed before the first;
                             owned by the caller. NULL: each run measures it */
  double time_limit_ns;   /* of the sampling of one point; 0: 2 s */
  const char *kernel;     /* as hr_plan_gemm()'s, for points that name none; NULL: the best */
  int64_t autotune;       /* of products: hr_measure_options.autotune; rows with it are rows of their own */
  int64_t memory_limit_bytes; /* as hr_measure_options has it */
} hr_sweep_options;

/** All points, one worker, bf16, cold, nothing probed. */
HR_API hr_sweep_options hr_sweep_options_default(void);

/** How far a run is. total = points chosen; done = skipped + measured. */
typedef struct hr_sweep_progress {
  int64_t total, done;
  int64_t skipped;  /* had a row already, or got one from another process in the meantime */
  int64_t measured; /* got a row */
  int64_t failed;   /* of the measured: without a time */
  int64_t noisy;    /* of the measured: with a doubtful one */
  const char *what; /* the problem at hand, as in its row; lives until the function returns */
  bool probing;     /* the device is probed first, which is no point's time */
} hr_sweep_progress;

/** Called before each point and between samples. Not 0: stop; what is measured stays. */
typedef int (*hr_sweep_progress_fn)(void *context, const hr_sweep_progress *progress);

/** Measures the chosen points that have no row yet and appends a row for each as soon as it is measured. What cannot be
 *  measured (out of memory, unsupported, timeout, wrong result, noisy) is a row with that status, and the run goes on.
 *  `outcome` (may be NULL) is filled however the run ends. HR_ERROR_INTERRUPTED: stopped by `progress`, which may be
 *  NULL; HR_ERROR_NOT_FOUND: no such kernel; HR_ERROR_OUTPUT and the other errors of the store: the rows before are
 *  kept, and the same call goes on where this one ended. Several processes may run the same sweep into one store at
 *  once, on devices of one kind: each point gets one row, and who meets another at a point goes on elsewhere. */
HR_API hr_status hr_sweep_run(const hr_sweep *sweep, hr_device *device, hr_store *store,
                              const hr_sweep_options *options, hr_sweep_progress_fn progress, void *context,
                              hr_sweep_progress *outcome, hr_error *error);

/** What the store has of a point. */
typedef struct hr_sweep_row {
  bool found;
  char date[25];
  hr_measurement measurement;
  double ceiling_share; /* of the instruction ceiling; NAN: not known */
} hr_sweep_row;

/** The last row of every point of the sweep, as a run with these options on this device would have written it; all
 *  points, whatever is chosen. *found is how many have one. The caller frees *rows (point_count of them) with
 *  free(). Errors of hr_store_query(), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_sweep_rows(const hr_sweep *sweep, const hr_device *device, hr_store *store,
                               const hr_sweep_options *options, hr_sweep_row **rows, int64_t *found, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Results of measurements, one row each, in an SQLite file.
 *
 * A row is on disk when hr_store_append() returns, also if the power is lost then; a process that is killed loses at
 * most the row that it was writing. Several processes may write to one file. docs/results.md describes the columns.
 * Thread safety: one thread at a time may use an hr_store; two handles on one file are independent. */
#ifndef HEADROOM_EXPERIMENTAL_STORE_H
#define HEADROOM_EXPERIMENTAL_STORE_H

#include <headroom/attention.h>
#include <headroom/decode.h>
#include <headroom/experimental/measure.h>
#include <headroom/gemm.h>
#include <headroom/rowwise.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What was measured: a GEMM, an attention call, a decode call, or something described by its text only (a softmax, a
 *  layer). */
typedef enum hr_result_kind {
  HR_RESULT_GEMM,
  HR_RESULT_ATTENTION,
  HR_RESULT_DECODE,
  HR_RESULT_OTHER,
  HR_RESULT_KIND_COUNT
} hr_result_kind;

/** "gemm", "attention", "decode", "other". Static storage. */
HR_API const char *hr_result_kind_name(hr_result_kind kind);

/** One row. Texts are UTF-8. What is unknown is "" in texts, NAN in numbers and 0 in counts. */
typedef struct hr_result {
  size_t struct_size; /* sizeof(hr_result), set by hr_result_default() */
  char id[33];        /* 32 random hexadecimal digits, which identify the row when stores are merged */
  char date[25];      /* of the measurement, UTC: "2026-01-31T23:59:59.123Z" */
  char sweep[64];     /* "fig24"; "" for a single measurement */
  char series[128];   /* the line of the sweep's figure */
  char axes[512];     /* the sweep's axes at this point, in the sweep's canonical form */

  hr_result_kind kind;
  hr_gemm gemm;           /* valid if kind is HR_RESULT_GEMM */
  hr_attention attention; /* valid if kind is HR_RESULT_ATTENTION */
  hr_decode decode;       /* valid if kind is HR_RESULT_DECODE */
  /* canonical text: "gemm m=1 n=1 k=1 batch=1 dtype=bf16 ta=0 tb=1", then strides that are not packed: " lda=8".
   * Derived from the members above; for HR_RESULT_OTHER the caller writes it */
  char problem[512];

  char device[32];            /* as opened: "cuda:0" */
  char product[96];           /* "NVIDIA H200" */
  char parts[1024];           /* of a sweep's layer: its operators and the median of each alone in ns,
                                 "qkv_transform=81920 softmax=1000"; "" for others */
  int64_t threads;            /* cores used; 0 on a GPU */
  char kernel_asked[64];      /* the kernel requested by name; "": the best one */
  int64_t autotune;           /* hr_measure_options.autotune */
  int64_t decode_part;        /* hr_measure_options.decode_part */
  hr_measurement measurement; /* its status and reason are the row's */
  double ceiling_share,
      library_share; /* rate over the probed instruction ceiling, over the library's best GEMM; 0 … 1 */

  char driver[96];     /* "550.54.15" */
  char libraries[256]; /* "cuBLASLt 12.4.5, NVRTC 12.4" */
  uint64_t seed;       /* of the data */
  char host[64];
  char program[32]; /* Headroom's version */
  bool backward;    /* of an attention call: its gradients were measured, with the defaults of hr_attention_backward */
} hr_result;

/** A GEMM of 1 × 1 × 1 of which nothing is known: no times, numbers NAN. */
HR_API void hr_result_init(hr_result *result, size_t size);
HR_DEFAULT(hr_result)

/** Sets kind, gemm and problem. */
HR_API void hr_result_set_gemm(hr_result *result, const hr_gemm *gemm);

/** Sets kind, attention and problem. */
HR_API void hr_result_set_attention(hr_result *result, const hr_attention *attention);

/** Sets kind, attention and problem to the gradients of this call, as hr_measure_attention_backward() measures them by
 *  default. */
HR_API void hr_result_set_attention_backward(hr_result *result, const hr_attention *forward);

/** Sets kind, decode and problem. */
HR_API void hr_result_set_decode(hr_result *result, const hr_decode *decode);

/** Sets kind (HR_RESULT_OTHER) and problem: "rows softmax rows=1 columns=1 dtype=bf16". */
HR_API void hr_result_set_rowwise(hr_result *result, const hr_rowwise *rows);

/** Sets device, product, threads, driver and libraries. `hardware` is from hr_device_detect() or hr_device_probe().
 *  Reading the libraries' versions takes a few ms; once per sweep is enough. */
HR_API void hr_result_set_device(hr_result *result, const hr_device *device, const hr_hardware *hardware);

/** Sets measurement and, if `hardware` (NULL: unknown) was probed, its shares of the rates. Call it after setting the
 *  problem and the device. */
HR_API void hr_result_set_measurement(hr_result *result, const hr_measurement *measurement,
                                      const hr_hardware *hardware);

/** Sets id, date, host and program; once per measurement. HR_ERROR_BACKEND if the system has no random bytes. */
HR_API hr_status hr_result_stamp(hr_result *result, hr_error *error);

typedef struct hr_store hr_store;

typedef enum hr_store_mode {
  HR_STORE_READ,   /* the file must exist; a file of an older version is not changed */
  HR_STORE_WRITE,  /* creates the file, but not its folder; a file of an older version is brought up to date */
  HR_STORE_SCRATCH /* an empty, private and temporary store; the path is for messages only */
} hr_store_mode;

typedef struct hr_store_options {
  size_t struct_size;              /* sizeof(hr_store_options), set by hr_store_options_default() */
  int patience_ms;                 /* how long to wait for another process that has locked the file; default 10 s */
  int (*cancelled)(void *context); /* polled in work on the file: reading, importing, merging, deleting, waiting for a
                                      lock. Nonzero ends it with HR_ERROR_INTERRUPTED and changes nothing; a row that is
                                      appended is still written if no lock stands against it. Default NULL */
  void *context;
} hr_store_options;

/** The defaults above. */
HR_API void hr_store_options_init(hr_store_options *options, size_t size);
HR_DEFAULT(hr_store_options)

/** The default path: $XDG_DATA_HOME/headroom/results.db, or $HOME/.local/share/headroom/results.db. Creates nothing.
 *  HR_ERROR_INVALID if neither variable is an absolute path or the path does not fit `size`. */
HR_API hr_status hr_store_default_path(char *path, size_t size, hr_error *error);

/** Opens a store. `path` NULL: the default path, whose folder HR_STORE_WRITE creates (mode 0700). The caller owns
 *  *store. HR_ERROR_NOT_FOUND: no such file (reading). HR_ERROR_UNREADABLE: a directory, not a database, a database of
 *  another program, a store with added views, triggers, tables, constraints, computed columns or indices of
 *  expressions, an empty file (reading), a damaged file. HR_ERROR_UNSUPPORTED: written by a newer Headroom.
 *  HR_ERROR_OUTPUT: cannot be created or written; then no new file is left. Messages begin with the path. */
HR_API hr_status hr_store_open(const char *path, hr_store_mode mode, hr_store **store, hr_error *error);

/** hr_store_open() with options. HR_ERROR_INTERRUPTED: options->cancelled() returned nonzero. */
HR_API hr_status hr_store_open_with(const char *path, hr_store_mode mode, const hr_store_options *options,
                                    hr_store **store, hr_error *error);

/** Closes a store; NULL is allowed. */
HR_API void hr_store_close(hr_store *store);

/** Closes a store and removes its file if this handle created it and it has no row. Another handle that has the file
 *  open for writing creates it again with its first row. NULL is allowed. */
HR_API void hr_store_abandon(hr_store *store);

/** The path as passed to hr_store_open(). Valid until the store is closed. */
HR_API const char *hr_store_path(const hr_store *store);

/** Sets how long a writer waits for another process that has locked the file; 10 s by default. */
HR_API void hr_store_set_patience(hr_store *store, int milliseconds);

/** Adds a row and commits it. If *result has no id, it is stamped first (hr_result_stamp()). Bytes that are not UTF-8
 *  become '?', infinities NAN. HR_ERROR_OUTPUT: disk full, read-only, or locked by another process for too long;
 *  earlier rows are kept, and the call may be repeated. HR_ERROR_INVALID: a row of this id exists, a text is not
 *  terminated, or a value is invalid, such as a negative time. */
HR_API hr_status hr_store_append(hr_store *store, hr_result *result, hr_error *error);

/** Whether the point of `result` has a row, whatever its status: the same sweep, series, axes, problem, product,
 *  threads, kernel_asked, autotune and measurement.warm. Other members are ignored. HR_ERROR_UNREADABLE if the file
 *  cannot be read, HR_ERROR_INVALID for invalid members. */
HR_API hr_status hr_store_has(hr_store *store, const hr_result *result, bool *found, hr_error *error);

/** Adds a row unless hr_store_has() finds one, in one transaction: of several processes that measure the same point at
 *  the same time one adds its row, and *added is false in the others. Errors of hr_store_has() and
 *  hr_store_append(). */
HR_API hr_status hr_store_append_new(hr_store *store, hr_result *result, bool *added, hr_error *error);

/** Selects rows; a member that is NULL or 0 selects all. */
typedef struct hr_result_filter {
  size_t struct_size; /* sizeof(hr_result_filter), set by hr_result_filter_default() */
  const char *id;     /* or its beginning, at least 4 digits */
  const char *sweep;
  const char *device; /* "cuda:0", or a part of the product's name, ignoring case: "h200" */
  const char *since;  /* a date or its beginning: "2026-01", "2026-01-31T12:00" */
  bool only_status;   /* only rows of `status` */
  hr_status status;
  int64_t last; /* only this many of the latest */
} hr_result_filter;

/** All rows. */
HR_API void hr_result_filter_init(hr_result_filter *filter, size_t size);
HR_DEFAULT(hr_result_filter)

/** HR_OK, or HR_ERROR_INVALID for an invalid id, date or count. */
HR_API hr_status hr_result_filter_check(const hr_result_filter *filter, hr_error *error);

/** Receives one row, valid during the call. Must not use the store. Nonzero stops the query with
 *  HR_ERROR_INTERRUPTED. */
typedef int (*hr_result_fn)(void *context, const hr_result *result);

/** Calls `each` for the rows of `filter` (NULL: all) by date, oldest first. HR_ERROR_INVALID: an invalid filter.
 *  HR_ERROR_UNREADABLE: the file cannot be read, or another process keeps it locked for too long. */
HR_API hr_status hr_store_query(hr_store *store, const hr_result_filter *filter, hr_result_fn each, void *context,
                                hr_error *error);

/** Counts the rows that `filter` (NULL: all) selects. Errors of hr_store_query(). */
HR_API hr_status hr_store_count(hr_store *store, const hr_result_filter *filter, int64_t *count, hr_error *error);

/** Deletes the rows of `filter` (NULL: all), all or none; *deleted (may be NULL) is their number. Errors of
 *  hr_store_query(), and HR_ERROR_OUTPUT if the file cannot be written. */
HR_API hr_status hr_store_delete(hr_store *store, const hr_result_filter *filter, int64_t *deleted, hr_error *error);

/** The result of a merge or an import. */
typedef struct hr_store_change {
  int64_t added;
  int64_t present; /* rows whose id existed already; they are not changed */
} hr_store_change;

/** Copies the rows of `from` whose ids `store` lacks, all or none. `from` is only read. *change may be NULL. Errors of
 *  hr_store_append(). */
HR_API hr_status hr_store_copy(hr_store *store, hr_store *from, hr_store_change *change, hr_error *error);

/** The same with the store at the path `from`. Also errors of hr_store_open(); HR_ERROR_INVALID if both are one
 *  file. */
HR_API hr_status hr_store_merge(hr_store *store, const char *from, hr_store_change *change, hr_error *error);

typedef enum hr_store_format { HR_STORE_CSV, HR_STORE_JSON_LINES } hr_store_format;

/** Writes the rows of `filter` (NULL: all) with every column; hr_store_import() restores them exactly. CSV: RFC 4180
 *  with a head of column names. JSON Lines: one object per line. HR_ERROR_OUTPUT if the stream fails, also because a
 *  signal interrupted a write (SA_RESTART prevents that); errors of hr_store_query(). */
HR_API hr_status hr_store_export(hr_store *store, const hr_result_filter *filter, hr_store_format format, FILE *out,
                                 hr_error *error);

/** Reads what hr_store_export() wrote, in either format, and adds the rows whose ids the store lacks, all or none.
 *  Columns may be missing or in another order; a row without an id gets one. Lines of CSV that begin with # outside a
 *  quoted field are skipped. `name` is the input's name in messages. *change may be NULL. Signals that interrupt a read
 *  do not end it, unless the store's options say so. HR_ERROR_UNREADABLE names the line and the
 *  column; errors of hr_store_append(). */
HR_API hr_status hr_store_import(hr_store *store, FILE *in, const char *name, hr_store_change *change, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

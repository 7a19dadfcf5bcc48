/* Results that nothing can lose: one row a measurement, in one SQLite file.
 *
 * A row is on the disk when hr_store_append() returns; a process that is killed loses at most the row it was writing.
 * Several processes may write to one file. docs/results.md says what each column is. Thread safety: an hr_store belongs
 * to one thread at a time; two handles on one file are independent. */
#ifndef HEADROOM_STORE_H
#define HEADROOM_STORE_H

#include <headroom/attention.h>
#include <headroom/gemm.h>
#include <headroom/measure.h>
#include <headroom/rowwise.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What was measured: a product, an attention call, or something that only its text describes (a softmax, a layer). */
typedef enum hr_result_kind {
  HR_RESULT_GEMM,
  HR_RESULT_ATTENTION,
  HR_RESULT_OTHER,
  HR_RESULT_KIND_COUNT
} hr_result_kind;

/** "gemm", "attention", "other". Static storage. */
HR_API const char *hr_result_kind_name(hr_result_kind kind);

/** One row. Texts are UTF-8, "" where nothing is known; numbers that are not known are NAN, counts 0. */
typedef struct hr_result {
  size_t struct_size; /* sizeof(hr_result), set by hr_result_default() */
  char id[33];        /* 32 hexadecimal digits, random: the identity of the row when stores are merged */
  char date[25];      /* of the measurement, UTC: "2026-01-31T23:59:59.123Z" */
  char sweep[64];     /* "fig24"; "" for a single measurement */
  char series[128];   /* which line of the sweep's picture */
  char axes[512];     /* the sweep's axes at this point, written by the sweep in one fixed way */

  hr_result_kind kind;
  hr_gemm gemm;           /* holds when kind is HR_RESULT_GEMM */
  hr_attention attention; /* holds when kind is HR_RESULT_ATTENTION */
  /* canonical: "gemm m=1 n=1 k=1 batch=1 dtype=bf16 ta=0 tb=1", and what is not packed: " lda=8"; made from the members
     above but for HR_RESULT_OTHER, where the caller writes it */
  char problem[512];

  char device[32];                     /* as opened: "cuda:0" */
  char product[96];                    /* "NVIDIA H200" */
  int64_t threads;                     /* cores used; 0 on a GPU */
  char kernel_asked[64];               /* a kernel asked for by name; "": the best was taken */
  int64_t autotune;                    /* configurations asked to be timed for the fastest; 0: the first was taken */
  hr_measurement measurement;          /* its status and reason are the row's */
  double ceiling_share, library_share; /* of the probed instruction ceiling, of the library's best product; 0 … 1 */

  char driver[96];     /* "550.54.15" */
  char libraries[256]; /* "cuBLASLt 12.4.5, NVRTC 12.4" */
  uint64_t seed;       /* of the data */
  char host[64];
  char program[32]; /* Headroom's version */
} hr_result;

/** Nothing known: a product of 1 × 1 × 1, no times, every unknown number NAN. */
HR_API hr_result hr_result_default(void);

/** Sets kind, gemm and problem. */
HR_API void hr_result_set_gemm(hr_result *result, const hr_gemm *gemm);

/** Sets kind, attention and problem. */
HR_API void hr_result_set_attention(hr_result *result, const hr_attention *attention);

/** Sets kind (HR_RESULT_OTHER) and problem: "rows softmax rows=1 columns=1 dtype=bf16". */
HR_API void hr_result_set_rowwise(hr_result *result, const hr_rowwise *rows);

/** Sets device, product, threads, driver and libraries. `hardware` is what hr_device_detect() or hr_device_probe()
 *  says of `device`. Asks the libraries for their versions, which takes some ms: once for a sweep is enough. */
HR_API void hr_result_set_device(hr_result *result, const hr_device *device, const hr_hardware *hardware);

/** Sets measurement, and what share it is of what `hardware` can do, if that has been probed (NULL: not known). After
 *  the problem and the device. */
HR_API void hr_result_set_measurement(hr_result *result, const hr_measurement *measurement,
                                      const hr_hardware *hardware);

/** Sets id, date, host and program: once for each measurement. HR_ERROR_BACKEND if the system gives no random bytes. */
HR_API hr_status hr_result_stamp(hr_result *result, hr_error *error);

typedef struct hr_store hr_store;

typedef enum hr_store_mode {
  HR_STORE_READ,   /* the file must be there; an older version is read as it is */
  HR_STORE_WRITE,  /* created where there is none, in a folder that exists; an older version is brought up to date */
  HR_STORE_SCRATCH /* an empty one of the handle's own, gone when it is closed; the path is only for messages */
} hr_store_mode;

/** Where the store is when nobody says otherwise: $XDG_DATA_HOME/headroom/results.db, or below $HOME/.local/share.
 *  HR_ERROR_INVALID when neither variable is an absolute path, or the path does not fit. Creates nothing. */
HR_API hr_status hr_store_default_path(char *path, size_t size, hr_error *error);

/** Opens a store. `path` NULL: the default one, whose folder HR_STORE_WRITE creates (mode 0700). The caller owns
 *  *store. HR_ERROR_NOT_FOUND: no such file (reading). HR_ERROR_UNREADABLE: a directory, no database, a database of
 *  another program, an empty file (reading), damaged. HR_ERROR_UNSUPPORTED: written by a newer Headroom.
 *  HR_ERROR_OUTPUT: cannot be created or written; no new file is then left behind. Messages begin with the path. */
HR_API hr_status hr_store_open(const char *path, hr_store_mode mode, hr_store **store, hr_error *error);

/** Closes a store; NULL is allowed. */
HR_API void hr_store_close(hr_store *store);

/** Closes a store as hr_store_close() does, and removes its file where this handle made it and it has no row; for a
 *  store that was made for rows that did not come. Another handle that has the file open for writing makes it anew with
 *  its first row, of whatever origin. NULL is allowed. */
HR_API void hr_store_abandon(hr_store *store);

/** The file, as opened. Lives as long as the store. */
HR_API const char *hr_store_path(const hr_store *store);

/** How long a writer waits for another process before it gives up; 10 s unless set. */
HR_API void hr_store_set_patience(hr_store *store, int milliseconds);

/** Adds a row and commits it. A row without an id is stamped first, in *result too. Bytes that are not UTF-8 become
 *  '?', infinities NAN. HR_ERROR_OUTPUT: disk full, read-only, locked by another process for too long: the rows before
 *  are kept and the call may be tried again. HR_ERROR_INVALID: a row of this id is there, a text has no end, or a value
 *  cannot be, such as a negative time. */
HR_API hr_status hr_store_append(hr_store *store, hr_result *result, hr_error *error);

/** Whether the point of `result` has a row, whatever its status: the same sweep, series, axes, problem, product,
 *  threads, kernel_asked, autotune and measurement.warm. The other members do not matter. HR_ERROR_UNREADABLE where
 *  the file cannot be read, HR_ERROR_INVALID for a text without an end. */
HR_API hr_status hr_store_has(hr_store *store, const hr_result *result, bool *found, hr_error *error);

/** hr_store_has() and, where the point has no row, hr_store_append(), in one step: of several processes that have
 *  measured one point at the same time one adds its row, and *added is false in the others. Errors of both. */
HR_API hr_status hr_store_append_new(hr_store *store, hr_result *result, bool *added, hr_error *error);

/** Which rows; a member that is NULL or 0 lets all pass. */
typedef struct hr_result_filter {
  size_t struct_size; /* sizeof(hr_result_filter), set by hr_result_filter_default() */
  const char *id;     /* or the beginning of one, at least 4 digits */
  const char *sweep;
  const char *device; /* "cuda:0", or a part of the product's name, case ignored: "h200" */
  const char *since;  /* the beginning of a date: "2026-01", "2026-01-31T12:00" */
  bool only_status;   /* only rows of `status` */
  hr_status status;
  int64_t last; /* only the last so many */
} hr_result_filter;

/** All rows. */
HR_API hr_result_filter hr_result_filter_default(void);

/** HR_OK, or HR_ERROR_INVALID for an id, a date or a count that cannot be. */
HR_API hr_status hr_result_filter_check(const hr_result_filter *filter, hr_error *error);

/** Called for each row, which lives until it returns; not 0 stops the query with HR_ERROR_INTERRUPTED. It must not use
 *  the store. */
typedef int (*hr_result_fn)(void *context, const hr_result *result);

/** Calls `each` for the rows of `filter` (NULL: all) by date, oldest first. HR_ERROR_INVALID: a filter that cannot
 *  be. HR_ERROR_UNREADABLE: the file cannot be read, or another process keeps it locked for too long. */
HR_API hr_status hr_store_query(hr_store *store, const hr_result_filter *filter, hr_result_fn each, void *context,
                                hr_error *error);

/** How many rows `filter` (NULL: all) lets pass. Errors of hr_store_query(). */
HR_API hr_status hr_store_count(hr_store *store, const hr_result_filter *filter, int64_t *count, hr_error *error);

/** Deletes the rows of `filter` (NULL: all), at once or not at all; *deleted (may be NULL) is how many.
 *  Errors of hr_store_query(), and HR_ERROR_OUTPUT where the file cannot be written. */
HR_API hr_status hr_store_delete(hr_store *store, const hr_result_filter *filter, int64_t *deleted, hr_error *error);

/** What a merge or an import did. */
typedef struct hr_store_change {
  int64_t added;
  int64_t present; /* rows whose id was there already; they stay as they were */
} hr_store_change;

/** Copies the rows of `from` that are not there yet, all or none. `from` is only read. Errors of hr_store_append().
 *  *change may be NULL. */
HR_API hr_status hr_store_copy(hr_store *store, hr_store *from, hr_store_change *change, hr_error *error);

/** The same with the store at `from`. Errors of hr_store_open(), too; HR_ERROR_INVALID where both are one file. */
HR_API hr_status hr_store_merge(hr_store *store, const char *from, hr_store_change *change, hr_error *error);

typedef enum hr_store_format { HR_STORE_CSV, HR_STORE_JSON_LINES } hr_store_format;

/** Writes the rows of `filter` (NULL: all) with every column, so that hr_store_import() gives the same rows, exactly.
 *  CSV: RFC 4180, a head with the columns' names. JSON Lines: an object a line. HR_ERROR_OUTPUT if the stream fails. */
HR_API hr_status hr_store_export(hr_store *store, const hr_result_filter *filter, hr_store_format format, FILE *out,
                                 hr_error *error);

/** Reads what hr_store_export() wrote, in either form, and adds the rows that are not there yet, all or none. Columns
 *  may be missing or in another order; a row without an id gets one. `name` is how messages call the input.
 *  HR_ERROR_UNREADABLE and HR_ERROR_INVALID name the line and the column. *change may be NULL. */
HR_API hr_status hr_store_import(hr_store *store, FILE *in, const char *name, hr_store_change *change, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of faults: stores whose rows are known by the m of their GEMM, from 0 to 63. */
#ifndef HEADROOM_TEST_STORED_H
#define HEADROOM_TEST_STORED_H

#include "unit/store.h"

#include <headroom/experimental/sweep.h>
#include <sqlite3.h>

#define ROW(m) ((uint64_t)1 << (m))
#define ROWS(from, to) ((((uint64_t)1 << ((to) - (from)) << 1) - 1) << (from)) /* both included; at most 63 of them */

/** Points with m = 40 … 43. */
#define SWEEP_FIRST 40
#define SWEEP_POINTS 4

static inline int add_to_rows(void *context, const hr_result *result)
{
  uint64_t *rows = context;
  if (result->kind != HR_RESULT_GEMM || result->gemm.m > 63 || (*rows & ROW(result->gemm.m)))
    return 1;
  *rows |= ROW(result->gemm.m);
  return 0;
}

/** Opens a store that was left behind for reading; NULL if there is none, or an empty one. Fails the test where it
 *  cannot be opened. */
static inline hr_store *open_left(const char *path)
{
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  if (access(path, F_OK) != 0)
    return NULL;
  hr_status status = hr_store_open(path, HR_STORE_READ, &store, &error);
  if (status != HR_OK && (status != HR_ERROR_UNREADABLE || !strstr(error.message, "is empty")))
    fail_msg("%s", error.message);
  return store;
}

/** The rows that a store has, each once; none if there is no store. Fails the test where it cannot be read. */
static inline uint64_t rows_of(const char *path)
{
  hr_store *store = open_left(path);
  hr_error error = {.status = HR_OK};
  hr_status status = HR_OK;
  uint64_t rows = 0;
  if (store)
    status = hr_store_query(store, NULL, add_to_rows, &rows, &error);
  hr_store_close(store);
  if (status != HR_OK)
    fail_msg("%s", error.message);
  return rows;
}

/** Fails the test unless SQLite finds the file whole. */
static inline void assert_integrity(const char *path, const char *what)
{
  sqlite3 *database;
  sqlite3_stmt *statement;
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  int code = sqlite3_prepare_v2(database, "PRAGMA integrity_check", -1, &statement, NULL);
  code = code == SQLITE_OK ? sqlite3_step(statement) : code;
  const char *found = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : sqlite3_errmsg(database);
  if (strcmp(found, "ok") != 0)
    fail_msg("%s: %s", what, found);
  sqlite3_finalize(statement);
  sqlite3_close(database);
}

/** Appends a row, with a status: for calls that may fail. */
static inline hr_status try_row(hr_store *store, int64_t m, hr_error *error)
{
  hr_result row = some_result(m);
  return hr_store_append(store, &row, error);
}

/** Rows first … last as the text of an export, in memory that the caller frees. */
static inline char *exported_rows(const char *folder, int64_t first, int64_t last, size_t *size)
{
  char path[512], *text = NULL;
  hr_error error = {.status = HR_OK};
  snprintf(path, sizeof path, "%s/exported.db", folder);
  hr_store *store = open_store(path, HR_STORE_WRITE);
  for (int64_t m = first; m <= last; m++)
    append_row(store, m);
  FILE *out = open_memstream(&text, size);
  assert_ok(hr_store_export(store, NULL, HR_STORE_CSV, out, &error), error);
  fclose(out);
  hr_store_close(store);
  unlink(path);
  return text;
}

static inline hr_sweep *small_sweep(void)
{
  static const char text[] = "{\"name\":\"small\",\"x\":\"m\",\"axes\":{\"m\":[40,41,42,43]},"
                             "\"series\":\"all\",\"problem\":{\"kind\":\"gemm\",\"m\":\"m\",\"n\":4,\"k\":4}}";
  hr_sweep *sweep = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_from_json(&(hr_input){.text = text, .length = sizeof text - 1, .name = "sweep.json"}, NULL, false,
                               &sweep, &error),
            error);
  return sweep;
}

static inline hr_sweep_options small_options(void)
{
  hr_sweep_options options = hr_sweep_options_default();
  options.time_limit_ns = 1e5;
  options.dtype = HR_FP32;
  return options;
}

/** A folder in memory, since every row waits for the disk; remove_folder() deletes it. */
static inline int make_folder_in_memory(void **state)
{
  char *folder = strdup(access("/dev/shm", W_OK) == 0 ? "/dev/shm/headroom-XXXXXX" : "/tmp/headroom-XXXXXX");
  assert_non_null(folder);
  assert_non_null(mkdtemp(folder));
  *state = folder;
  return 0;
}

#endif

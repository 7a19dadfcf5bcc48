/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite database of a store: its handle, errors, statements and transactions.
 *
 * The journal is a rollback journal rather than a write-ahead log: the latter needs memory shared by all processes that
 * have the file open, which network file systems do not offer, and leaves two more files without which a copy lacks
 * rows. The price is two or three fsyncs per row, some milliseconds beside a measurement of a hundred. */
#ifndef HR_RUNTIME_STORE_DATABASE_H
#define HR_RUNTIME_STORE_DATABASE_H

#include "runtime/store/cancelled.h"
#include "runtime/store/fields.h"

#include <sqlite3.h>

struct hr_store {
  sqlite3 *database;
  char *path;
  int version;                     /* of the file; less than HR_STORE_VERSION only when reading */
  int patience_ms, waited_ms;      /* for a lock: at most, so far */
  int (*cancelled)(void *context); /* may be NULL */
  void *context;
  bool finishing;             /* what is being written is complete, and kept even if the caller stops */
  bool created;               /* by this handle */
  bool no_known_rows;         /* opened for writing, and this handle has not seen a row in the file */
  bool unended;               /* there was no memory to end the last transaction */
  sqlite3_stmt *rollback;     /* prepared when opened: ending a transaction should need no memory */
  sqlite3_stmt *insert, *has; /* prepared at first use */
};

/** Turns SQLite's last error `code` into a status and a message that begins with the path. */
hr_status hr_store_fail(const hr_store *store, int code, bool writing, hr_error *error);

/** Executes statements without results. */
hr_status hr_store_execute(hr_store *store, const char *sql, bool writing, hr_error *error);

/** Prepares a statement; the caller finalizes it. */
hr_status hr_store_prepare(hr_store *store, const char *sql, sqlite3_stmt **statement, hr_error *error);

/** Begins a transaction that writes. */
hr_status hr_store_transaction_begin(hr_store *store, hr_error *error);

/** Commits if `status` is HR_OK, else rolls back. Returns `status`, or why the commit failed. */
hr_status hr_store_transaction_end(hr_store *store, hr_status status, hr_error *error);

/** Ends a transaction, if there is one, without writing anything. HR_ERROR_OUT_OF_MEMORY: it goes on. */
hr_status hr_store_rollback(hr_store *store, hr_error *error);

/** Does so now for a transaction that went on: what is written next would be part of it and never committed. */
hr_status hr_store_end_unended(hr_store *store, hr_error *error);

/** The text of a statement; `failed` once memory ran out. The caller frees `text`. */
typedef struct hr_sql {
  char *text;
  size_t length, capacity;
  bool failed;
} hr_sql;
void hr_sql_add(hr_sql *sql, const char *format, ...) HR_PRINTF(2, 3);

#endif

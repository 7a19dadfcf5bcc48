/* The store's SQLite file: what its parts share.
 *
 * A rollback journal and not a write-ahead log: a log needs memory shared by all who have the file open, which a home
 * directory on a network file system does not have, and leaves two files beside the store, without which a copy lacks
 * rows. The journal's price is two or three fsyncs a row, milliseconds next to a measurement of a hundred. */
#ifndef HR_RUNTIME_STORE_DATABASE_H
#define HR_RUNTIME_STORE_DATABASE_H

#include "runtime/store/fields.h"

#include <sqlite3.h>

struct hr_store {
  sqlite3 *database;
  char *path;
  int version; /* of the file; below HR_STORE_VERSION only when reading */
  int patience_ms;
  bool made;                  /* the file by this handle: there was none */
  bool no_row_seen;           /* opened for writing, and this handle has seen no row in it */
  sqlite3_stmt *insert, *has; /* prepared at first use */
};

/** Whether the file that the handle has was removed before it had a row that the handle knows of, as
 *  hr_store_abandon() does in another process; and the one that is there now instead, or a new one. */
bool hr_store_is_abandoned(const hr_store *store);
hr_status hr_store_make_anew(hr_store *store, hr_error *error);

/** Turns the last failure of SQLite into a message with the path. `writing` says what was tried. */
hr_status hr_store_failed(const hr_store *store, int code, bool writing, hr_error *error);

/** Runs statements that give no rows. */
hr_status hr_store_execute(hr_store *store, const char *sql, bool writing, hr_error *error);

/** Prepares a statement, kept for long; the caller finalizes it. */
hr_status hr_store_prepare(hr_store *store, const char *sql, sqlite3_stmt **statement, hr_error *error);

/** Begins a transaction that writes, and ends it: commits when `status` is HR_OK, else takes everything back. Returns
 *  `status`, or why it could not be committed. */
hr_status hr_store_begin(hr_store *store, hr_error *error);
hr_status hr_store_end(hr_store *store, hr_status status, hr_error *error);

/** Looks at what the file is, and when `writing` creates the tables or brings them up to date. Sets store->version. */
hr_status hr_store_prepare_tables(hr_store *store, bool writing, hr_error *error);

/** Stamps, checks, normalises and inserts a row of an import or a merge, and counts it. */
hr_status hr_store_take(hr_store *store, hr_result *result, hr_store_change *change, hr_error *error);

/** SQL text that grows; `failed` when memory ran out. */
typedef struct hr_sql {
  char *text;
  size_t length, capacity;
  bool failed;
} hr_sql;
void hr_sql_add(hr_sql *sql, const char *format, ...) HR_PRINTF(2, 3);

#endif

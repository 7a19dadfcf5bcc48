/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a store, and bringing those of an older version up to date. */
#include "runtime/store/schema.h"

#include "base/error.h"
#include "runtime/store/defence.h"

#include <stdlib.h>

/* "Hres": distinguishes stores from the SQLite files of other programs. */
#define APPLICATION_ID 0x48726573

static const char *column_type(const hr_field *field)
{
  switch (field->kind) {
  case HR_FIELD_TEXT: return "TEXT NOT NULL DEFAULT ''";
  case HR_FIELD_NUMBER:
  case HR_FIELD_CELSIUS:
  case HR_FIELD_SINGLE: return "REAL";
  case HR_FIELD_COUNT:
  case HR_FIELD_SEED:
  case HR_FIELD_FLAG: return "INTEGER";
  default: return "TEXT";
  }
}

static void add_creation(hr_sql *sql)
{
  hr_sql_add(sql, "CREATE TABLE results (");
  for (size_t i = 0; i < HR_FIELDS; i++)
    hr_sql_add(sql, "%s%s %s%s", i > 0 ? ", " : "", hr_fields[i].name, column_type(&hr_fields[i]),
               i == HR_FIELD_id ? " PRIMARY KEY" : "");
  hr_sql_add(sql,
             "); CREATE INDEX results_by_point ON results (sweep, problem);"
             "CREATE INDEX results_by_date ON results (date); PRAGMA application_id = %d;",
             APPLICATION_ID);
}

/* Adds the columns of every later version. A change that is more than new columns belongs here, too. */
static void add_migration(hr_sql *sql, int from)
{
  for (int version = from + 1; version <= HR_STORE_VERSION; version++) {
    for (size_t i = 0; i < HR_FIELDS; i++) {
      if (hr_fields[i].since == version)
        hr_sql_add(sql, "ALTER TABLE results ADD COLUMN %s %s;", hr_fields[i].name, column_type(&hr_fields[i]));
    }
  }
}

static hr_status read_integer(hr_store *store, const char *sql, int *value, hr_error *error)
{
  sqlite3_stmt *statement;
  HR_TRY(hr_store_prepare(store, sql, &statement, error));
  int code = sqlite3_step(statement);
  if (code == SQLITE_ROW)
    *value = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  return code == SQLITE_ROW ? HR_OK : hr_store_fail(store, code, false, error);
}

/* Reads the version. *empty: the database has no tables, as a killed creation leaves it. */
static hr_status read_version(hr_store *store, bool *empty, hr_error *error)
{
  int application = 0, tables = 0;
  HR_TRY(read_integer(store, "PRAGMA user_version", &store->version, error));
  HR_TRY(read_integer(store, "PRAGMA application_id", &application, error));
  HR_TRY(read_integer(store, "SELECT count(*) FROM sqlite_master", &tables, error));
  *empty = store->version == 0 && application == 0 && tables == 0;
  if (!*empty && (application != APPLICATION_ID || store->version < 1))
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is a database of another program", store->path);
  if (store->version > HR_STORE_VERSION)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "%s: has version %d, written by a newer Headroom; this one reads up to %d", store->path,
                   store->version, HR_STORE_VERSION);
  return *empty ? HR_OK : hr_store_check_objects(store, error);
}

/* Reads in one transaction, since another process may be creating the tables. */
static hr_status read_version_at_once(hr_store *store, bool *empty, hr_error *error)
{
  HR_TRY(hr_store_execute(store, "BEGIN", false, error));
  hr_status status = read_version(store, empty, error);
  hr_status ended = hr_store_rollback(store, status == HR_OK ? error : NULL); /* nothing was written */
  return status == HR_OK ? ended : status;
}

/* Called inside a transaction, so that of two processes one creates the tables and the other finds them. */
static hr_status create_or_migrate(hr_store *store, hr_error *error)
{
  bool empty;
  HR_TRY(read_version(store, &empty, error));
  if (!empty && store->version == HR_STORE_VERSION)
    return HR_OK;
  hr_sql sql = {.text = NULL};
  if (empty)
    add_creation(&sql);
  else
    add_migration(&sql, store->version);
  hr_sql_add(&sql, "PRAGMA user_version = %d", HR_STORE_VERSION);
  hr_status status = sql.failed ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", store->path)
                                : hr_store_execute(store, sql.text, true, error);
  free(sql.text);
  return status;
}

hr_status hr_store_prepare_tables(hr_store *store, bool writing, hr_error *error)
{
  bool empty;
  HR_TRY(read_version_at_once(store, &empty, error));
  if (!writing && empty)
    return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is empty; nothing is stored there yet", store->path);
  if (!writing || (!empty && store->version == HR_STORE_VERSION))
    return HR_OK;
  HR_TRY(hr_store_transaction_begin(store, error));
  HR_TRY(hr_store_transaction_end(store, create_or_migrate(store, error), error));
  store->version = HR_STORE_VERSION;
  return HR_OK;
}

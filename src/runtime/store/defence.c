/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/defence.h"

#include "base/error.h"

#include <string.h>
#include <time.h>

/* A row has some 130 columns and less than 16 KiB; no statement here is longer or deeper. */
static const struct {
  int limit, value;
} limits[] = {
    {SQLITE_LIMIT_LENGTH, 1000000},      {SQLITE_LIMIT_SQL_LENGTH, 100000},  {SQLITE_LIMIT_COLUMN, 500},
    {SQLITE_LIMIT_EXPR_DEPTH, 100},      {SQLITE_LIMIT_COMPOUND_SELECT, 10}, {SQLITE_LIMIT_VDBE_OP, 25000},
    {SQLITE_LIMIT_FUNCTION_ARG, 8},      {SQLITE_LIMIT_ATTACHED, 0},         {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
    {SQLITE_LIMIT_VARIABLE_NUMBER, 500}, {SQLITE_LIMIT_TRIGGER_DEPTH, 1},    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

static const struct {
  int setting, value;
} settings[] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
};

/* ---- waiting and stopping ---- */

#define POLL_STEPS 1000 /* of SQLite's virtual machine: less than a millisecond */
#define SLEEP_MOST_MS 50
#define GRACE_MS \
  250 /* for a lock, once the caller wants to stop: others hold it for milliseconds, a row took seconds */

static int poll_cancelled(void *context)
{
  const hr_store *store = context;
  return !store->finishing && hr_store_is_cancelled(store);
}

/* Called while another process has locked the file. */
static int wait_for_lock(void *context, int tries)
{
  hr_store *store = context;
  if (tries == 0)
    store->waited_ms = 0;
  int patience_ms = store->patience_ms > GRACE_MS && hr_store_is_cancelled(store) ? GRACE_MS : store->patience_ms;
  if (store->waited_ms >= patience_ms)
    return 0;
  int sleep_ms = tries < 5 ? 1 << tries : SLEEP_MOST_MS;
  store->waited_ms += sleep_ms;
  nanosleep(&(struct timespec){.tv_nsec = sleep_ms * 1000000L}, NULL);
  return 1;
}

void hr_store_set_handlers(hr_store *store)
{
  sqlite3_progress_handler(store->database, POLL_STEPS, poll_cancelled, store);
  sqlite3_busy_handler(store->database, wait_for_lock, store);
}

/* synchronous = EXTRA syncs the folder once the journal is gone, which is the commit. With FULL, SQLite's default, the
 * journal may be back after a loss of power, and a row that was reported as stored is rolled back. */
hr_status hr_store_defend(hr_store *store, hr_error *error)
{
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    sqlite3_db_config(store->database, settings[i].setting, settings[i].value, NULL);
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    sqlite3_limit(store->database, limits[i].limit, limits[i].value);
  hr_store_set_handlers(store);
  return hr_store_execute(
      store,
      "PRAGMA trusted_schema = 0; PRAGMA cell_size_check = 1; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;"
      "PRAGMA synchronous = EXTRA",
      false, error);
}

/* ---- the objects of the file ---- */

/* Objects that no store has. SQLite itself acts on the text of a definition, whatever the other columns say. */
#define FOREIGN_OBJECTS                                                                                         \
  "SELECT type, name FROM sqlite_master WHERE NOT ("                                                            \
  "(type = 'table' AND name = 'results' AND substr(sql, 1, 13) = 'CREATE TABLE ')"                              \
  " OR (type = 'index' AND tbl_name = 'results' AND (sql IS NULL OR substr(sql, 1, 13) = 'CREATE INDEX '))"     \
  " OR (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4') AND substr(sql, 1, 13) = 'CREATE TABLE '))" \
  " LIMIT 1"

/* Indices that refuse or replace rows, and those with expressions, which may run for minutes in a single step. */
#define FOREIGN_INDICES                                                                                         \
  "SELECT 'index', i.name FROM pragma_index_list('results') AS i WHERE i.partial"                               \
  " OR (i.\"unique\" AND i.origin <> 'pk') OR EXISTS (SELECT 1 FROM pragma_index_xinfo(i.name) WHERE cid = -2)" \
  " LIMIT 1"

#define DEFINITION "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'results'"

static hr_status find_none(hr_store *store, const char *sql, hr_error *error)
{
  sqlite3_stmt *statement;
  HR_TRY(hr_store_prepare(store, sql, &statement, error));
  int code = sqlite3_step(statement);
  hr_status status = HR_OK;
  if (code == SQLITE_ROW)
    status =
        hr_fail(error, HR_ERROR_UNREADABLE, "%s: is not a store of results: it has the %.20s \"%.60s\"", store->path,
                (const char *)sqlite3_column_text(statement, 0), (const char *)sqlite3_column_text(statement, 1));
  else if (code != SQLITE_DONE)
    status = hr_store_fail(store, code, false, error);
  sqlite3_finalize(statement);
  return status;
}

/* Goes past `text`, in any case of letters, and white space after it, if it begins the definition. */
static bool skip(const char **definition, const char *text)
{
  size_t length = strlen(text);
  if (sqlite3_strnicmp(*definition, text, (int)length) != 0)
    return false;
  *definition += length;
  *definition += strspn(*definition, " \t\r\n");
  return true;
}

static bool skip_word(const char **definition)
{
  size_t length = strspn(*definition, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
  *definition += length;
  *definition += strspn(*definition, " \t\r\n");
  return length > 0;
}

/* Whether a table is defined as stores are: columns with a type, no constraint but NOT NULL and the primary key, and
 * nothing that says what to do where one is violated. Other constraints and expressions may refuse, replace or delay
 * rows. */
static bool is_plain_table(const char *definition)
{
  if (!skip(&definition, "CREATE TABLE") || !(skip(&definition, "results") || skip(&definition, "\"results\"")) ||
      !skip(&definition, "("))
    return false;
  do {
    if (!skip_word(&definition) ||
        !(skip(&definition, "TEXT") || skip(&definition, "REAL") || skip(&definition, "INTEGER")))
      return false;
    while (skip(&definition, "NOT NULL") || skip(&definition, "DEFAULT ''") || skip(&definition, "PRIMARY KEY"))
      ;
  } while (skip(&definition, ","));
  return skip(&definition, ")") && *definition == '\0';
}

static hr_status check_definition(hr_store *store, hr_error *error)
{
  sqlite3_stmt *statement;
  HR_TRY(hr_store_prepare(store, DEFINITION, &statement, error));
  int code = sqlite3_step(statement);
  const char *sql = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  hr_status status = HR_OK;
  if (code != SQLITE_ROW && code != SQLITE_DONE)
    status = hr_store_fail(store, code, false, error);
  else if (code == SQLITE_ROW && !sql && sqlite3_errcode(sqlite3_db_handle(statement)) == SQLITE_NOMEM)
    status = hr_store_fail(store, SQLITE_NOMEM, false, error);
  else if (sql && !is_plain_table(sql))
    status = hr_fail(error, HR_ERROR_UNREADABLE,
                     "%s: is not a store of results: its table has constraints or expressions of others", store->path);
  sqlite3_finalize(statement);
  return status;
}

hr_status hr_store_check_objects(hr_store *store, hr_error *error)
{
  HR_TRY(find_none(store, FOREIGN_OBJECTS, error));
  HR_TRY(check_definition(store, error));
  return find_none(store, FOREIGN_INDICES, error);
}

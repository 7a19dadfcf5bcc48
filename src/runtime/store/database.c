/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/database.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- failures ---- */

static hr_status fail_with(const hr_store *store, hr_status status, const char *what, hr_error *error)
{
  return hr_fail(error, status, "%s: %s", store->path, what);
}

/* When SQLite cannot create a file, it reports that of its last attempt, to read the file: "no such file". */
static int why_not_created(const char *path)
{
  int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0)
    return errno;
  close(file);
  return ENOENT;
}

/* SQLite's message, or the system's if a system call failed. */
static hr_status fail_by_system(const hr_store *store, hr_status status, const char *what, hr_error *error)
{
  char reason[HR_REASON_SIZE];
  int number = sqlite3_system_errno(store->database);
  if (number == ENOENT && status == HR_ERROR_OUTPUT)
    number = why_not_created(store->path);
  return hr_fail(error, status, "%s: %s: %s", store->path, what,
                 number ? hr_reason(number, reason) : sqlite3_errmsg(store->database));
}

bool hr_store_is_cancelled(const hr_store *store)
{
  return store->cancelled && store->cancelled(store->context) != 0;
}

hr_status hr_store_fail(const hr_store *store, int code, bool writing, hr_error *error)
{
  hr_status status = writing ? HR_ERROR_OUTPUT : HR_ERROR_UNREADABLE;
  switch (code == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : code & 0xFF) {
  case SQLITE_FULL:
    return fail_with(store, HR_ERROR_OUTPUT,
                     store->version > 0 ? "the disk is full; earlier rows are kept" : "the disk is full", error);
  case SQLITE_READONLY:
    return fail_with(store, HR_ERROR_OUTPUT,
                     code == SQLITE_READONLY_DBMOVED ? "was moved or removed while in use" : "is read-only", error);
  case SQLITE_INTERRUPT: return fail_with(store, HR_ERROR_INTERRUPTED, "stopped by the caller", error);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    if (hr_store_is_cancelled(store))
      return fail_with(store, HR_ERROR_INTERRUPTED, "stopped by the caller", error);
    return hr_fail(error, status, "%s: is locked; another process has held it for %g s", store->path,
                   store->patience_ms / 1e3);
  case SQLITE_NOTADB:
    return fail_with(store, HR_ERROR_UNREADABLE, "is not a store of results (`headroom results import` reads CSV)",
                     error);
  case SQLITE_CORRUPT: return fail_with(store, HR_ERROR_UNREADABLE, "is damaged", error);
  case SQLITE_NOMEM: return fail_with(store, HR_ERROR_OUT_OF_MEMORY, "out of memory", error);
  case SQLITE_CANTOPEN:
  case SQLITE_IOERR: return fail_by_system(store, status, writing ? "cannot be written" : "cannot be read", error);
  default: return hr_fail(error, status, "%s: %s", store->path, sqlite3_errmsg(store->database));
  }
}

/* ---- statements ---- */

hr_status hr_store_execute(hr_store *store, const char *sql, bool writing, hr_error *error)
{
  int code = sqlite3_exec(store->database, sql, NULL, NULL, NULL);
  return code == SQLITE_OK ? HR_OK : hr_store_fail(store, code, writing, error);
}

hr_status hr_store_prepare(hr_store *store, const char *sql, sqlite3_stmt **statement, hr_error *error)
{
  int code = sqlite3_prepare_v2(store->database, sql, -1, statement, NULL);
  return code == SQLITE_OK ? HR_OK : hr_store_fail(store, code, false, error);
}

hr_status hr_store_transaction_begin(hr_store *store, hr_error *error)
{
  HR_TRY(hr_store_end_unended(store, error));
  return hr_store_execute(store, "BEGIN IMMEDIATE", true, error);
}

hr_status hr_store_transaction_end(hr_store *store, hr_status status, hr_error *error)
{
  bool before = store->finishing;
  store->finishing = true;
  if (status == HR_OK)
    status = hr_store_execute(store, "COMMIT", true, error);
  if (status != HR_OK)
    hr_store_rollback(store, NULL); /* else before the next transaction */
  store->finishing = before;
  return status;
}

hr_status hr_store_rollback(hr_store *store, hr_error *error)
{
  if (store->rollback && !sqlite3_get_autocommit(store->database)) {
    sqlite3_step(store->rollback);
    sqlite3_reset(store->rollback);
  }
  if (!sqlite3_get_autocommit(store->database)) /* not prepared yet, or to be prepared again */
    sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
  store->unended = !sqlite3_get_autocommit(store->database);
  return store->unended ? hr_store_fail(store, SQLITE_NOMEM, true, error) : HR_OK;
}

hr_status hr_store_end_unended(hr_store *store, hr_error *error)
{
  return store->unended ? hr_store_rollback(store, error) : HR_OK;
}

/* ---- text of statements ---- */

void hr_sql_add(hr_sql *sql, const char *format, ...)
{
  char part[512];
  va_list arguments;
  va_start(arguments, format);
  int length = hr_write_text_v(part, sizeof part, format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof part)
    sql->failed = true;
  if (sql->failed)
    return;
  size_t needed = sql->length + (size_t)length + 1;
  if (needed > sql->capacity) {
    size_t capacity = 2 * needed + 1024;
    char *text = realloc(sql->text, capacity);
    if (!text) {
      sql->failed = true;
      return;
    }
    sql->text = text;
    sql->capacity = capacity;
  }
  memcpy(sql->text + sql->length, part, (size_t)length + 1);
  sql->length += (size_t)length;
}

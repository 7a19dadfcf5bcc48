/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, counting and deleting the rows that a filter selects. */
#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/store/database.h"
#include "runtime/store/result.h"

#include <stdlib.h>
#include <string.h>

void hr_result_filter_init(hr_result_filter *filter, size_t size)
{
  HR_INIT(filter, size, (hr_result_filter){0});
}

#define WHERE                                                                                               \
  " WHERE (?1 IS NULL OR substr(id, 1, length(?1)) = ?1) AND (?2 IS NULL OR sweep = ?2)"                    \
  " AND (?3 IS NULL OR device = ?3 OR instr(lower(product), lower(?3)) > 0) AND (?4 IS NULL OR date >= ?4)" \
  " AND (?5 IS NULL OR status = ?5)"

/* The last ?6 rows (-1: all) of those that match ?1 … ?5. */
#define SELECTED WHERE " ORDER BY date DESC, rowid DESC LIMIT ?6"

static bool is_id(const char *id)
{
  size_t length = strlen(id);
  return length >= 4 && length <= 32 && strspn(id, "0123456789abcdef") == length;
}

hr_status hr_result_filter_check(const hr_result_filter *filter, hr_error *error)
{
  HR_NEED(error, filter);
  HR_TAKE(hr_result_filter, filter, error);
  if (filter->id && !is_id(filter->id))
    return hr_fail(error, HR_ERROR_INVALID, "id: expected 4 to 32 hexadecimal digits, found \"%.40s\"", filter->id);
  if (filter->since && !hr_is_date(filter->since, false))
    return hr_fail(error, HR_ERROR_INVALID,
                   "since: expected a date as in 2026-01-31 or 2026-01-31T23:59, found \"%.40s\"", filter->since);
  if (filter->last < 0)
    return hr_fail(error, HR_ERROR_INVALID, "last: expected a count of at least 0");
  return HR_OK;
}

/* `filter` may be NULL. Its texts must outlive the statement. */
static hr_status prepare_filtered(hr_store *store, const char *sql, const hr_result_filter *filter,
                                  sqlite3_stmt **statement, hr_error *error)
{
  const hr_result_filter all = hr_result_filter_default(), *f = filter ? filter : &all;
  HR_TRY(hr_result_filter_check(f, error));
  HR_TRY(hr_store_prepare(store, sql, statement, error));
  const char *texts[] = {f->id, f->sweep, f->device, f->since, f->only_status ? hr_status_name(f->status) : NULL};
  int code = sqlite3_bind_int64(*statement, 6, f->last > 0 ? f->last : -1);
  for (int i = 0; i < 5 && code == SQLITE_OK; i++)
    code = sqlite3_bind_text(*statement, i + 1, texts[i], -1, SQLITE_STATIC); /* NULL binds NULL */
  if (code == SQLITE_OK)
    return HR_OK;
  sqlite3_finalize(*statement); /* a filter that is not bound selects every row */
  return hr_store_fail(store, code, false, error);
}

/* Runs a filtered statement to its end; *value (may be NULL) is the integer of its only row, if it has one. */
static hr_status run_filtered(hr_store *store, const char *sql, const hr_result_filter *filter, bool writing,
                              int64_t *value, hr_error *error)
{
  sqlite3_stmt *statement;
  HR_TRY(prepare_filtered(store, sql, filter, &statement, error));
  int code = sqlite3_step(statement);
  if (code == SQLITE_ROW && value) {
    *value = sqlite3_column_int64(statement, 0);
    code = sqlite3_step(statement);
  }
  hr_status status = code == SQLITE_DONE ? HR_OK : hr_store_fail(store, code, writing, error);
  sqlite3_finalize(statement);
  return status;
}

hr_status hr_store_count(hr_store *store, const hr_result_filter *filter, int64_t *count, hr_error *error)
{
  HR_NEED(error, store, count);
  HR_TAKE(hr_result_filter, filter, error);
  return run_filtered(store, "SELECT count(*) FROM (SELECT 1 FROM results" SELECTED ")", filter, false, count, error);
}

hr_status hr_store_delete(hr_store *store, const hr_result_filter *filter, int64_t *deleted, hr_error *error)
{
  HR_NEED(error, store);
  HR_TAKE(hr_result_filter, filter, error);
  HR_TRY(run_filtered(store, "DELETE FROM results WHERE rowid IN (SELECT rowid FROM results" SELECTED ")", filter, true,
                      NULL, error));
  if (deleted)
    *deleted = sqlite3_changes(store->database);
  return HR_OK;
}

/* The text is NULL if memory ran out. */
static hr_value column_value(sqlite3_stmt *statement, int at, const hr_field *field)
{
  int type = sqlite3_column_type(statement, at);
  if (type == SQLITE_NULL)
    return (hr_value){.type = HR_VALUE_NONE};
  if (field->kind == HR_FIELD_SEED && type == SQLITE_INTEGER)
    return (hr_value){.type = HR_VALUE_SEED, .integer = sqlite3_column_int64(statement, at)};
  if (type == SQLITE_INTEGER)
    return (hr_value){.type = HR_VALUE_INTEGER, .integer = sqlite3_column_int64(statement, at)};
  if (type == SQLITE_FLOAT)
    return (hr_value){.type = HR_VALUE_NUMBER, .number = sqlite3_column_double(statement, at)};
  return (hr_value){.type = HR_VALUE_TEXT, .text = (const char *)sqlite3_column_text(statement, at)};
}

/* Columns 1 … of the statement are the fields of the file's version, in order. */
static hr_status read_row(hr_store *store, sqlite3_stmt *statement, hr_result *result, hr_error *error)
{
  hr_value values[HR_FIELDS];
  char why[160];
  int at = 1;
  for (size_t i = 0; i < HR_FIELDS; i++) {
    bool present = hr_fields[i].since <= store->version;
    values[i] = present ? column_value(statement, at++, &hr_fields[i]) : (hr_value){.type = HR_VALUE_NONE};
    if (values[i].type == HR_VALUE_TEXT && !values[i].text)
      return hr_store_fail(store, SQLITE_NOMEM, false, error);
  }
  size_t wrong = hr_result_from_values(values, result, why, sizeof why);
  if (wrong == HR_FIELDS)
    return HR_OK;
  return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is damaged: row %lld: %s: %s", store->path,
                 (long long)sqlite3_column_int64(statement, 0), hr_fields[wrong].name, why);
}

/* A query first lists the row numbers and then reads the rows one by one. So it holds no lock while the caller handles
 * a row: a reader that pauses, such as a pager, must not block writers. A row deleted meanwhile is skipped. */
typedef struct row_list {
  int64_t *numbers;
  size_t count, capacity;
} row_list;

static hr_status list_rows(hr_store *store, const hr_result_filter *filter, row_list *list, hr_error *error)
{
  sqlite3_stmt *statement;
  HR_TRY(prepare_filtered(store, "SELECT rowid FROM results" SELECTED, filter, &statement, error));
  hr_status status = HR_OK;
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    if (list->count == list->capacity) {
      list->capacity = list->capacity ? 2 * list->capacity : 1024;
      int64_t *numbers = realloc(list->numbers, list->capacity * sizeof *numbers);
      if (!numbers) {
        status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", store->path);
        break;
      }
      list->numbers = numbers;
    }
    list->numbers[list->count++] = sqlite3_column_int64(statement, 0);
  }
  if (status == HR_OK && code != SQLITE_DONE)
    status = hr_store_fail(store, code, false, error);
  sqlite3_finalize(statement);
  return status;
}

static hr_status prepare_select(hr_store *store, sqlite3_stmt **statement, hr_error *error)
{
  hr_sql sql = {.text = NULL};
  hr_sql_add(&sql, "SELECT rowid");
  for (size_t i = 0; i < HR_FIELDS; i++) {
    if (hr_fields[i].since <= store->version)
      hr_sql_add(&sql, ", %s", hr_fields[i].name);
  }
  hr_sql_add(&sql, " FROM results WHERE rowid = ?");
  hr_status status = sql.failed ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", store->path)
                                : hr_store_prepare(store, sql.text, statement, error);
  free(sql.text);
  return status;
}

hr_status hr_store_query(hr_store *store, const hr_result_filter *filter, hr_result_fn each, void *context,
                         hr_error *error)
{
  HR_NEED(error, store);
  if (!each)
    return hr_fail_null(error, __func__, "each", 0);
  HR_TAKE(hr_result_filter, filter, error);
  row_list list = {.numbers = NULL};
  sqlite3_stmt *statement = NULL;
  hr_status status = list_rows(store, filter, &list, error);
  if (status == HR_OK)
    status = prepare_select(store, &statement, error);
  for (size_t i = list.count; i-- > 0 && status == HR_OK;) { /* the list begins with the last */
    hr_result result;
    sqlite3_bind_int64(statement, 1, list.numbers[i]);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
      status = read_row(store, statement, &result, error);
    else if (code != SQLITE_DONE)
      status = hr_store_fail(store, code, false, error);
    sqlite3_reset(statement);
    if (status == HR_OK && hr_store_is_cancelled(store))
      status = hr_fail(error, HR_ERROR_INTERRUPTED, "%s: stopped by the caller", store->path);
    if (code == SQLITE_ROW && status == HR_OK && each(context, &result) != 0)
      status = hr_fail(error, HR_ERROR_INTERRUPTED, "stopped");
  }
  sqlite3_finalize(statement);
  free(list.numbers);
  return status;
}

/* Rows in and out: append, has, query, count, delete. */
#include "base/error.h"
#include "base/kernel_names.h"
#include "runtime/store/database.h"

#include <stdlib.h>
#include <string.h>

/* ---- in ---- */

static int bind(sqlite3_stmt *statement, int at, const hr_value *value)
{
  switch (value->type) {
  case HR_VALUE_TEXT: return sqlite3_bind_text(statement, at, value->text, -1, SQLITE_STATIC);
  case HR_VALUE_NUMBER: return sqlite3_bind_double(statement, at, value->number);
  case HR_VALUE_INTEGER:
  case HR_VALUE_FLAG:
  case HR_VALUE_SEED: return sqlite3_bind_int64(statement, at, value->integer);
  case HR_VALUE_NONE: break;
  }
  return sqlite3_bind_null(statement, at);
}

/* `sql` begins a statement that takes all columns; what follows is added and the statement prepared. */
static hr_status prepare_insert(hr_store *store, hr_error *error)
{
  hr_sql sql = {.text = NULL};
  hr_sql_add(&sql, "INSERT INTO results (");
  for (size_t i = 0; i < HR_FIELDS; i++)
    hr_sql_add(&sql, "%s%s", i > 0 ? ", " : "", hr_fields[i].name);
  hr_sql_add(&sql, ") VALUES (");
  for (size_t i = 0; i < HR_FIELDS; i++)
    hr_sql_add(&sql, "%s", i > 0 ? ", ?" : "?");
  hr_sql_add(&sql, ") ON CONFLICT (id) DO NOTHING");
  hr_status status = sql.failed ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: memory ran out", store->path)
                                : hr_store_prepare(store, sql.text, &store->insert, error);
  free(sql.text);
  return status;
}

/* Adds a row as it is, inside a transaction or alone; *added is false where the id was there. */
static hr_status insert(hr_store *store, const hr_result *result, bool *added, hr_error *error)
{
  if (!store->insert)
    HR_TRY(prepare_insert(store, error));
  int code = SQLITE_OK;
  for (int i = 0; i < HR_FIELDS && code == SQLITE_OK; i++) {
    hr_value value = hr_field_get(&hr_fields[i], result);
    code = bind(store->insert, i + 1, &value);
  }
  if (code == SQLITE_OK)
    code = sqlite3_step(store->insert);
  *added = code == SQLITE_DONE && sqlite3_changes(store->database) > 0;
  hr_status status = code == SQLITE_DONE ? HR_OK : hr_store_failed(store, code, true, error);
  sqlite3_reset(store->insert);
  sqlite3_clear_bindings(store->insert);
  return status;
}

static hr_status make_fit(hr_result *result, hr_error *error)
{
  if (result->id[0] == '\0')
    HR_TRY(hr_result_stamp(result, error));
  HR_TRY(hr_result_check(result, error));
  hr_result_normalise(result);
  return HR_OK;
}

hr_status hr_store_take(hr_store *store, hr_result *result, hr_store_change *change, hr_error *error)
{
  bool added;
  HR_TRY(make_fit(result, error));
  HR_TRY(insert(store, result, &added, error));
  *(added ? &change->added : &change->present) += 1;
  return HR_OK;
}

/* ---- is it there ---- */

/* What makes two measurements of one point; the columns of hr_store_has(). Those that came
 * after version 1 are counts, which rows from before have as 0. */
static const int point_fields[] = {HR_FIELD_sweep,        HR_FIELD_series,  HR_FIELD_axes,
                                   HR_FIELD_problem,      HR_FIELD_product, HR_FIELD_threads,
                                   HR_FIELD_kernel_asked, HR_FIELD_warm,    HR_FIELD_autotune};
#define POINT_FIELDS (sizeof point_fields / sizeof *point_fields)

static hr_status prepare_has(hr_store *store, hr_error *error)
{
  hr_sql sql = {.text = NULL};
  hr_sql_add(&sql, "SELECT 1 FROM results WHERE ");
  for (size_t i = 0; i < POINT_FIELDS; i++) {
    const hr_field *field = &hr_fields[point_fields[i]];
    const char *and = i > 0 ? " AND " : "";
    if (field->since > store->version)
      hr_sql_add(&sql, "%s0 = ?%zu", and, i + 1);
    else if (point_fields[i] == HR_FIELD_kernel_asked) /* by its present name or its former one */
      hr_sql_add(&sql, "%s%s IN (?%zu, ?%zu)", and, field->name, i + 1, POINT_FIELDS + 1);
    else
      hr_sql_add(&sql, field->kind == HR_FIELD_TEXT ? "%s%s = ?%zu" : "%scoalesce(%s, 0) = ?%zu", and, field->name,
                 i + 1);
  }
  hr_sql_add(&sql, " LIMIT 1");
  hr_status status = sql.failed ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: memory ran out", store->path)
                                : hr_store_prepare(store, sql.text, &store->has, error);
  free(sql.text);
  return status;
}

hr_status hr_store_has(hr_store *store, const hr_result *result, bool *found, hr_error *error)
{
  HR_NEED(error, store, result, found);
  hr_result point = *result;
  HR_TRY(hr_result_check(&point, error));
  hr_result_normalise(&point);
  if (!store->has)
    HR_TRY(prepare_has(store, error));
  int code = SQLITE_OK;
  for (size_t i = 0; i < POINT_FIELDS && code == SQLITE_OK; i++) {
    hr_value value = hr_field_get(&hr_fields[point_fields[i]], &point);
    code = bind(store->has, (int)i + 1, &value);
  }
  char former[HR_KERNEL_NAME_SIZE];
  hr_kernel_former_name(point.kernel_asked, former);
  if (code == SQLITE_OK)
    code = sqlite3_bind_text(store->has, (int)POINT_FIELDS + 1, former, -1, SQLITE_STATIC);
  if (code == SQLITE_OK)
    code = sqlite3_step(store->has);
  hr_status status = HR_OK;
  if (code == SQLITE_ROW || code == SQLITE_DONE)
    *found = code == SQLITE_ROW;
  else
    status = hr_store_failed(store, code, false, error);
  sqlite3_reset(store->has);
  sqlite3_clear_bindings(store->has);
  return status;
}

/* ---- append ---- */

/* One attempt; *found: the point has a row and is to have no second. */
static hr_status try_append(hr_store *store, const hr_result *result, bool only_new, bool *found, bool *added,
                            hr_error *error)
{
  *found = *added = false;
  if (!only_new)
    return insert(store, result, added, error);
  HR_TRY(hr_store_begin(store, error));
  hr_status status = hr_store_has(store, result, found, error);
  if (status == HR_OK && !*found)
    status = insert(store, result, added, error);
  return hr_store_end(store, status, error);
}

static hr_status append(hr_store *store, hr_result *result, bool only_new, bool *added, hr_error *error)
{
  bool found;
  HR_TRY(make_fit(result, error));
  hr_status status = try_append(store, result, only_new, &found, added, error);
  if (status != HR_OK && hr_store_is_abandoned(store)) {
    HR_TRY(hr_store_make_anew(store, error));
    status = try_append(store, result, only_new, &found, added, error);
  }
  HR_TRY(status);
  store->no_row_seen = false;
  return found || *added ? HR_OK
                         : hr_fail(error, HR_ERROR_INVALID, "%s: there is a row %s already", store->path, result->id);
}

hr_status hr_store_append(hr_store *store, hr_result *result, hr_error *error)
{
  HR_NEED(error, store, result);
  bool added;
  return append(store, result, false, &added, error);
}

hr_status hr_store_append_new(hr_store *store, hr_result *result, bool *added, hr_error *error)
{
  HR_NEED(error, store, result, added);
  return append(store, result, true, added, error);
}

/* ---- out ---- */

hr_result_filter hr_result_filter_default(void)
{
  return (hr_result_filter){.struct_size = sizeof(hr_result_filter)};
}

#define WHERE                                                                                               \
  " WHERE (?1 IS NULL OR substr(id, 1, length(?1)) = ?1) AND (?2 IS NULL OR sweep = ?2)"                    \
  " AND (?3 IS NULL OR device = ?3 OR instr(lower(product), lower(?3)) > 0) AND (?4 IS NULL OR date >= ?4)" \
  " AND (?5 IS NULL OR status = ?5)"

/* The rows of ?1 … ?5, of which the last ?6 (-1: all) are taken. */
#define CHOSEN WHERE " ORDER BY date DESC, rowid DESC LIMIT ?6"

static bool is_id(const char *id)
{
  size_t length = strlen(id);
  return length >= 4 && length <= 32 && strspn(id, "0123456789abcdef") == length;
}

hr_status hr_result_filter_check(const hr_result_filter *filter, hr_error *error)
{
  HR_NEED(error, filter);
  HR_TRY(hr_check_struct_size("hr_result_filter", filter->struct_size, sizeof(hr_result_filter), error));
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
  for (int i = 0; i < 5; i++)
    sqlite3_bind_text(*statement, i + 1, texts[i], -1, SQLITE_STATIC); /* NULL binds NULL */
  sqlite3_bind_int64(*statement, 6, f->last > 0 ? f->last : -1);
  return HR_OK;
}

/* Runs a filtered statement to its end; *value is the integer of its only row, if it gives one. */
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
  hr_status status = code == SQLITE_DONE ? HR_OK : hr_store_failed(store, code, writing, error);
  sqlite3_finalize(statement);
  return status;
}

hr_status hr_store_count(hr_store *store, const hr_result_filter *filter, int64_t *count, hr_error *error)
{
  HR_NEED(error, store, count);
  return run_filtered(store, "SELECT count(*) FROM (SELECT 1 FROM results" CHOSEN ")", filter, false, count, error);
}

hr_status hr_store_delete(hr_store *store, const hr_result_filter *filter, int64_t *deleted, hr_error *error)
{
  HR_NEED(error, store);
  HR_TRY(run_filtered(store, "DELETE FROM results WHERE rowid IN (SELECT rowid FROM results" CHOSEN ")", filter, true,
                      NULL, error));
  if (deleted)
    *deleted = sqlite3_changes(store->database);
  return HR_OK;
}

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
  const char *text = (const char *)sqlite3_column_text(statement, at);
  return (hr_value){.type = HR_VALUE_TEXT, .text = text ? text : ""};
}

/* Columns 1 … of the statement are the fields that the file has, in their order. */
static hr_status read_row(hr_store *store, sqlite3_stmt *statement, hr_result *result, hr_error *error)
{
  hr_value values[HR_FIELDS];
  char why[160];
  int at = 1;
  for (size_t i = 0; i < HR_FIELDS; i++) {
    bool there = hr_fields[i].since <= store->version;
    values[i] = there ? column_value(statement, at++, &hr_fields[i]) : (hr_value){.type = HR_VALUE_NONE};
  }
  size_t wrong = hr_result_from_values(values, result, why, sizeof why);
  if (wrong == HR_FIELDS)
    return HR_OK;
  return hr_fail(error, HR_ERROR_UNREADABLE, "%s: is damaged: row %lld: %s: %s", store->path,
                 (long long)sqlite3_column_int64(statement, 0), hr_fields[wrong].name, why);
}

/* The rows are read one by one, and no lock is held while the caller looks at them: a reader that stands still, such
 * as a pager, must not keep writers out. So the row numbers are taken at first; a row deleted meanwhile is passed
 * over. */
typedef struct row_list {
  int64_t *numbers;
  size_t count, capacity;
} row_list;

static hr_status list_rows(hr_store *store, const hr_result_filter *filter, row_list *list, hr_error *error)
{
  sqlite3_stmt *statement;
  HR_TRY(prepare_filtered(store, "SELECT rowid FROM results" CHOSEN, filter, &statement, error));
  hr_status status = HR_OK;
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    if (list->count == list->capacity) {
      list->capacity = list->capacity ? 2 * list->capacity : 1024;
      int64_t *numbers = realloc(list->numbers, list->capacity * sizeof *numbers);
      if (!numbers) {
        status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: memory ran out", store->path);
        break;
      }
      list->numbers = numbers;
    }
    list->numbers[list->count++] = sqlite3_column_int64(statement, 0);
  }
  if (status == HR_OK && code != SQLITE_DONE)
    status = hr_store_failed(store, code, false, error);
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
  hr_status status = sql.failed ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: memory ran out", store->path)
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
  row_list list = {.numbers = NULL};
  sqlite3_stmt *statement = NULL;
  hr_status status = list_rows(store, filter, &list, error);
  if (status == HR_OK)
    status = prepare_select(store, &statement, error);
  for (size_t i = list.count; i-- > 0 && status == HR_OK;) { /* the last is listed first */
    hr_result result;
    sqlite3_bind_int64(statement, 1, list.numbers[i]);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
      status = read_row(store, statement, &result, error);
    else if (code != SQLITE_DONE)
      status = hr_store_failed(store, code, false, error);
    sqlite3_reset(statement);
    if (code == SQLITE_ROW && status == HR_OK && each(context, &result) != 0)
      status = hr_fail(error, HR_ERROR_INTERRUPTED, "stopped");
  }
  sqlite3_finalize(statement);
  free(list.numbers);
  return status;
}

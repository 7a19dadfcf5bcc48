/* SPDX-License-Identifier: Apache-2.0 */
/* Adding rows, and looking whether a point has one. */
#include "runtime/store/append.h"

#include "base/error.h"
#include "base/kernel_names.h"
#include "base/struct_size.h"
#include "runtime/store/open.h"

#include <stdlib.h>

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
  hr_status status = sql.failed ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", store->path)
                                : hr_store_prepare(store, sql.text, &store->insert, error);
  free(sql.text);
  return status;
}

/* Adds a row, inside a transaction or on its own; *added is false if the file has a row of that id. */
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
  hr_status status = code == SQLITE_DONE ? HR_OK : hr_store_fail(store, code, true, error);
  sqlite3_reset(store->insert);
  sqlite3_clear_bindings(store->insert);
  return status;
}

static hr_status make_storable(hr_result *result, hr_error *error)
{
  if (result->id[0] == '\0')
    HR_TRY(hr_result_stamp(result, error));
  HR_TRY(hr_result_check(result, error));
  hr_result_normalise(result);
  return HR_OK;
}

hr_status hr_store_insert(hr_store *store, hr_result *result, hr_store_change *change, hr_error *error)
{
  bool added;
  HR_TRY(make_storable(result, error));
  HR_TRY(insert(store, result, &added, error));
  *(added ? &change->added : &change->present) += 1;
  return HR_OK;
}

/* ---- has ---- */

/* The columns of hr_store_has(): rows with equal values are measurements of one point. Those added after version 1 are
 * counts, which are 0 in older rows. */
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
    else if (point_fields[i] == HR_FIELD_kernel_asked) /* current or former name */
      hr_sql_add(&sql, "%s%s IN (?%zu, ?%zu)", and, field->name, i + 1, POINT_FIELDS + 1);
    else
      hr_sql_add(&sql, field->kind == HR_FIELD_TEXT ? "%s%s = ?%zu" : "%scoalesce(%s, 0) = ?%zu", and, field->name,
                 i + 1);
  }
  hr_sql_add(&sql, " LIMIT 1");
  hr_status status = sql.failed ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", store->path)
                                : hr_store_prepare(store, sql.text, &store->has, error);
  free(sql.text);
  return status;
}

hr_status hr_store_has(hr_store *store, const hr_result *result, bool *found, hr_error *error)
{
  HR_NEED(error, store, result, found);
  HR_TAKE(hr_result, result, error);
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
    status = hr_store_fail(store, code, false, error);
  sqlite3_reset(store->has);
  sqlite3_clear_bindings(store->has);
  return status;
}

/* ---- append ---- */

/* One attempt; *found: the point has a row already and `only_new` forbids a second. */
static hr_status try_append(hr_store *store, const hr_result *result, bool only_new, bool *found, bool *added,
                            hr_error *error)
{
  *found = *added = false;
  if (!only_new) {
    HR_TRY(hr_store_end_unended(store, error));
    return insert(store, result, added, error);
  }
  HR_TRY(hr_store_begin(store, error));
  hr_status status = hr_store_has(store, result, found, error);
  if (status == HR_OK && !*found)
    status = insert(store, result, added, error);
  return hr_store_transaction_end(store, status, error);
}

static hr_status append_anywhere(hr_store *store, const hr_result *result, bool only_new, bool *found, bool *added,
                                 hr_error *error)
{
  hr_status status = try_append(store, result, only_new, found, added, error);
  if (status == HR_OK || !hr_store_was_abandoned(store))
    return status;
  HR_TRY(hr_store_recreate(store, error));
  return try_append(store, result, only_new, found, added, error);
}

static hr_status append(hr_store *store, hr_result *result, bool only_new, bool *added, hr_error *error)
{
  bool found;
  HR_TRY(make_storable(result, error));
  store->finishing = true;
  hr_status status = append_anywhere(store, result, only_new, &found, added, error);
  store->finishing = false;
  HR_TRY(status);
  store->no_known_rows = false;
  return found || *added ? HR_OK
                         : hr_fail(error, HR_ERROR_INVALID, "%s: row %s exists already", store->path, result->id);
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

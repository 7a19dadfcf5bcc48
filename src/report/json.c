/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json.h"

#include "base/error.h"
#include "base/names.h"

#include <headroom/version.h>

#include <math.h>
#include <string.h>

hr_json hr_json_document(const char *name, bool *failed)
{
  *failed = false;
  hr_json json = {json_object(), failed};
  char schema[48];
  snprintf(schema, sizeof schema, "headroom.%s", name);
  hr_json_put_text(json, "schema", schema);
  hr_json_put_text(json, "version", hr_version());
  return json;
}

void hr_json_put(hr_json json, const char *key, json_t *value)
{
  if (json_object_set_new(json.object, key, value) != 0)
    *json.failed = true;
}

void hr_json_put_number(hr_json json, const char *key, double value)
{
  hr_json_put(json, key, isfinite(value) ? json_real(value) : json_null());
}

void hr_json_put_count(hr_json json, const char *key, int64_t value)
{
  hr_json_put(json, key, json_integer(value));
}

void hr_json_put_flag(hr_json json, const char *key, bool value)
{
  hr_json_put(json, key, json_boolean(value));
}

void hr_json_put_text(hr_json json, const char *key, const char *text)
{
  char clean[1024];
  hr_copy_text(clean, sizeof clean, text ? text : "");
  hr_json_put(json, key, text ? json_string(clean) : json_null());
}

hr_json hr_json_put_object(hr_json json, const char *key)
{
  hr_json_put(json, key, json_object());
  return (hr_json){json_object_get(json.object, key), json.failed};
}

hr_json hr_json_append_object(hr_json json, json_t *list)
{
  json_t *object = json_object();
  if (json_array_append_new(list, object) != 0) {
    *json.failed = true;
    object = NULL;
  }
  return (hr_json){object, json.failed};
}

static json_t *value_of(const hr_cell *cell)
{
  switch (cell->type) {
  case HR_CELL_NONE: break;
  case HR_CELL_TEXT: return json_string(cell->text);
  case HR_CELL_COUNT: return json_integer(cell->count);
  case HR_CELL_NUMBER: return json_real(cell->number);
  case HR_CELL_FLAG: return json_boolean(cell->flag);
  }
  return json_null();
}

static void put_cell(hr_json json, const hr_column *column, const hr_cell *cell)
{
  const char *key = column->json ? column->json : column->key;
  if (key)
    hr_json_put(json, key, value_of(cell));
}

void hr_json_put_fields(hr_json json, const hr_column *columns, size_t count, const void *row)
{
  for (size_t i = 0; i < count; i++) {
    hr_cell cell;
    hr_column_read(&columns[i], row, &cell);
    put_cell(json, &columns[i], &cell);
  }
}

void hr_json_put_section(hr_json json, const char *section, const hr_column *columns, size_t count, const void *row)
{
  for (size_t i = 0; i < count; i++) {
    if (columns[i].section && strcmp(columns[i].section, section) == 0)
      hr_json_put_fields(json, &columns[i], 1, row);
  }
}

void hr_json_put_table(hr_json json, const char *key, hr_table *table)
{
  json_t *list = hr_table_is_complete(table) ? json_array() : NULL;
  hr_json_put(json, key, list);
  for (size_t row = 0; list && row < hr_table_rows(table); row++) {
    hr_json object = hr_json_append_object(json, list);
    for (size_t i = 0; i < hr_table_width(table); i++) {
      hr_cell cell;
      hr_table_read(table, row, i, &cell);
      put_cell(object, hr_table_column(table, i), &cell);
    }
  }
  hr_table_free(table);
}

hr_status hr_json_write(FILE *out, hr_json document, hr_error *error)
{
  hr_status status = HR_OK;
  if (*document.failed ||
      (json_dumpf(document.object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0 && !ferror(out)))
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory while writing the report");
  else
    fputc('\n', out);
  json_decref(document.object);
  return status;
}

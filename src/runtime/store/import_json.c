/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "runtime/store/import.h"
#include "json/json.h"

#include <jansson.h>

static hr_status value_of(const hr_import *import, const char *name, const json_t *json, hr_value *value)
{
  char found[48];
  switch (json_typeof(json)) {
  case JSON_NULL: *value = (hr_value){.type = HR_VALUE_NONE}; return HR_OK;
  case JSON_STRING: *value = (hr_value){.type = HR_VALUE_TEXT, .text = json_string_value(json)}; return HR_OK;
  case JSON_INTEGER: *value = (hr_value){.type = HR_VALUE_INTEGER, .integer = json_integer_value(json)}; return HR_OK;
  case JSON_REAL: *value = (hr_value){.type = HR_VALUE_NUMBER, .number = json_real_value(json)}; return HR_OK;
  case JSON_TRUE:
  case JSON_FALSE: *value = (hr_value){.type = HR_VALUE_FLAG, .integer = json_is_true(json)}; return HR_OK;
  default: break;
  }
  hr_json_found(json, found, sizeof found);
  return hr_import_fail(import, "%s: expected one value, found %s", name, found);
}

static hr_status take_object(hr_import *import, json_t *object)
{
  hr_value values[HR_FIELDS] = {{.type = HR_VALUE_NONE}};
  const char *name;
  json_t *json;
  json_object_foreach(object, name, json)
  {
    const hr_field *field = hr_field_find(name);
    if (!field)
      return hr_import_fail(import, "there is no column \"%.60s\"", name);
    HR_TRY(value_of(import, name, json, &values[field - hr_fields]));
  }
  return hr_import_row(import, values);
}

static hr_status take_line(hr_import *import, void *context, const char *line, size_t length)
{
  (void)context;
  json_error_t problem;
  if (length > 0 && line[length - 1] == '\r')
    length--;
  if (length == 0)
    return HR_OK;
  bool out_of_memory;
  json_t *object = hr_json_load(line, length, &problem, &out_of_memory);
  if (out_of_memory)
    return hr_import_no_memory(import);
  if (!object && length == 1 && line[0] == '{')
    return hr_import_fail(import, "is a JSON document of several lines; JSON Lines are imported, a row a line");
  if (!object)
    return hr_import_fail(import, "%s", problem.text);
  hr_status status =
      json_is_object(object) ? take_object(import, object) : hr_import_fail(import, "expected an object");
  json_decref(object);
  return status;
}

hr_status hr_import_json_lines(hr_import *import)
{
  return hr_import_lines(import, take_line, NULL);
}

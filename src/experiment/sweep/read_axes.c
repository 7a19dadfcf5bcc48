/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/sweep/read_axes.h"

#include "base/error.h"
#include "base/names.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 4096
#define CASES_MAX 256

typedef struct reader {
  hr_sweep *sweep;
  const char *input;
  hr_error *error;
} reader;

static hr_status wrong(const reader *r, const char *path, const char *expected, const json_t *value)
{
  char found[64];
  hr_json_found(value, found, sizeof found);
  return hr_fail(r->error, HR_ERROR_INVALID, "%s: %s: expected %s, found %s", r->input, path, expected, found);
}

static hr_status no_memory(const reader *r)
{
  return hr_fail(r->error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", r->input);
}

hr_status hr_read_expression(const hr_sweep *sweep, const json_t *value, const char *input, const char *path,
                             hr_expression *expression, hr_error *error)
{
  const reader r = {.sweep = NULL, .input = input, .error = error};
  if (json_is_integer(value) || json_is_boolean(value)) {
    *expression = hr_expression_number(json_is_integer(value) ? json_integer_value(value) : json_is_true(value));
    return HR_OK;
  }
  if (!json_is_string(value))
    return wrong(&r, path, "an integer or an expression", value);
  const char *names[HR_SWEEP_AXES_MAX];
  char why[HR_EXPRESSION_WHY_SIZE];
  for (size_t i = 0; i < sweep->axis_count; i++)
    names[i] = sweep->axes[i].name;
  hr_status status = hr_expression_parse(json_string_value(value), names, sweep->axis_count, expression, why);
  return status == HR_OK ? HR_OK
                         : hr_fail(error, status, "%s: %s: \"%.80s\": %s", input, path, json_string_value(value), why);
}

static hr_axis *find_axis(const reader *r, const char *name)
{
  for (size_t i = 0; i < r->sweep->axis_count; i++) {
    if (strcmp(r->sweep->axes[i].name, name) == 0)
      return &r->sweep->axes[i];
  }
  return NULL;
}

static hr_status add_axis(const reader *r, const char *name, hr_axis_kind kind, hr_axis **axis)
{
  hr_sweep *sweep = r->sweep;
  if (name[0] < 'a' || name[0] > 'z' || strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789") != strlen(name) ||
      strlen(name) >= HR_AXIS_NAME_SIZE)
    return hr_fail(r->error, HR_ERROR_INVALID,
                   "%s: axes: \"%.40s\" is not a name: small letters, digits and _, a letter first, at most %d",
                   r->input, name, HR_AXIS_NAME_SIZE - 1);
  if (find_axis(r, name))
    return hr_fail(r->error, HR_ERROR_INVALID, "%s: axes.%s: is given twice", r->input, name);
  if (sweep->axis_count == HR_SWEEP_AXES_MAX)
    return hr_fail(r->error, HR_ERROR_INVALID, "%s: axes: more than %d of them", r->input, HR_SWEEP_AXES_MAX);
  *axis = &sweep->axes[sweep->axis_count++];
  hr_copy_text((*axis)->name, sizeof(*axis)->name, name);
  (*axis)->kind = kind;
  return HR_OK;
}

static hr_status allocate(const reader *r, hr_axis *axis, size_t count)
{
  axis->values = calloc(count, sizeof *axis->values);
  axis->count = count;
  return axis->values ? HR_OK : no_memory(r);
}

/* A value that occurs twice would give two points one row. */
static hr_status add_value(const reader *r, hr_axis *axis, const char *path, size_t index, int64_t value)
{
  for (size_t i = 0; i < index; i++) {
    if (axis->values[i] == value)
      return hr_fail(r->error, HR_ERROR_INVALID, "%s: %s: %" PRId64 " is given twice", r->input, path, value);
  }
  axis->values[index] = value;
  return HR_OK;
}

static bool is_case(const hr_sweep *sweep, const char *name, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (strcmp(sweep->case_names[i], name) == 0)
      return true;
  }
  return false;
}

/* One value of every column that the first case names. */
static hr_status read_case(const reader *r, const json_t *one, size_t index)
{
  char path[80];
  snprintf(path, sizeof path, "cases[%zu]", index);
  const char *name = json_string_value(json_object_get(one, "name"));
  if (!name || !name[0])
    return hr_fail(r->error, HR_ERROR_INVALID, "%s: %s: expected an object with a name", r->input, path);
  hr_copy_text(r->sweep->case_names[index], sizeof *r->sweep->case_names, name);
  if (is_case(r->sweep, r->sweep->case_names[index], index))
    return hr_fail(r->error, HR_ERROR_INVALID, "%s: %s: there is a case \"%s\" before", r->input, path,
                   r->sweep->case_names[index]);
  if (json_object_size(one) != r->sweep->axis_count)
    return hr_fail(r->error, HR_ERROR_INVALID, "%s: %s: does not have the same fields as the first case", r->input,
                   path);
  for (size_t i = 1; i < r->sweep->axis_count; i++) {
    hr_axis *axis = &r->sweep->axes[i];
    const json_t *value = json_object_get(one, axis->name);
    snprintf(path, sizeof path, "cases[%zu].%s", index, axis->name);
    if (!json_is_integer(value))
      return wrong(r, path, "an integer", value);
    axis->values[index] = json_integer_value(value);
  }
  return HR_OK;
}

/* The axis "case" numbers the cases; every other field of a case is an axis that it sets. */
static hr_status read_cases(const reader *r, const json_t *cases)
{
  size_t count = json_array_size(cases);
  if (count == 0 || count > CASES_MAX || !json_is_object(json_array_get(cases, 0)))
    return hr_fail(r->error, HR_ERROR_INVALID, "%s: cases: expected a list of 1 to %d objects", r->input, CASES_MAX);
  hr_axis *axis;
  HR_TRY(add_axis(r, "case", HR_AXIS_LIST, &axis));
  HR_TRY(allocate(r, axis, count));
  for (size_t i = 0; i < count; i++)
    axis->values[i] = (int64_t)i;
  const char *key;
  json_t *value;
  json_object_foreach(json_array_get(cases, 0), key, value)
  {
    if (strcmp(key, "name") == 0)
      continue;
    HR_TRY(add_axis(r, key, HR_AXIS_CASE, &axis));
    HR_TRY(allocate(r, axis, count));
    axis->uses = 1; /* the axis "case" */
  }
  r->sweep->case_names = calloc(count, sizeof *r->sweep->case_names);
  if (!r->sweep->case_names)
    return no_memory(r);
  r->sweep->case_count = count;
  for (size_t i = 0; i < count; i++)
    HR_TRY(read_case(r, json_array_get(cases, i), i));
  return HR_OK;
}

static hr_status read_list(const reader *r, hr_axis *axis, const char *path, const json_t *list)
{
  size_t count = json_array_size(list);
  if (count == 0 || count > LIST_MAX)
    return hr_fail(r->error, HR_ERROR_INVALID, "%s: %s: expected 1 to %d values, found %zu", r->input, path, LIST_MAX,
                   count);
  HR_TRY(allocate(r, axis, count));
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_array_get(list, i);
    if (!json_is_integer(value))
      return wrong(r, path, "a list of integers", value);
    HR_TRY(add_value(r, axis, path, i, json_integer_value(value)));
  }
  axis->kind = HR_AXIS_LIST;
  return HR_OK;
}

static hr_status read_range(const reader *r, hr_axis *axis, const char *path, const json_t *range)
{
  static const char *const fields[] = {"from", "to", "step", "factor"};
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)range, key, value)
  {
    int index;
    if (hr_name_find(fields, sizeof fields / sizeof *fields, key, &index) != HR_OK)
      return hr_fail(r->error, HR_ERROR_INVALID, "%s: %s.%.40s: there is no such field", r->input, path, key);
  }
  const json_t *step = json_object_get(range, "step"), *factor = json_object_get(range, "factor");
  if (!step == !factor)
    return hr_fail(r->error, HR_ERROR_INVALID, "%s: %s: expected either a step or a factor", r->input, path);
  axis->kind = HR_AXIS_RANGE;
  axis->factor = factor != NULL;
  const struct {
    const char *field;
    const json_t *value;
    hr_expression *expression;
  } parts[] = {{"from", json_object_get(range, "from"), &axis->from},
               {"to", json_object_get(range, "to"), &axis->to},
               {factor ? "factor" : "step", factor ? factor : step, &axis->step}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    char part_path[96];
    snprintf(part_path, sizeof part_path, "%s.%s", path, parts[i].field);
    HR_TRY(hr_read_expression(r->sweep, parts[i].value, r->input, part_path, parts[i].expression, r->error));
    axis->uses |= parts[i].expression->uses;
  }
  return HR_OK;
}

static hr_status read_axis(const reader *r, hr_axis *axis, const json_t *value)
{
  char path[64];
  snprintf(path, sizeof path, "axes.%s", axis->name);
  if (json_is_array(value))
    return read_list(r, axis, path, value);
  if (json_is_object(value))
    return read_range(r, axis, path, value);
  axis->kind = HR_AXIS_VALUE;
  HR_TRY(hr_read_expression(r->sweep, value, r->input, path, &axis->from, r->error));
  axis->uses = axis->from.uses;
  return HR_OK;
}

/* Names are read first, so that an expression may name a later axis. */
static hr_status add_names(const reader *r, const json_t *const *objects, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const char *key;
    json_t *value;
    if (objects[i] && !json_is_object(objects[i]))
      return wrong(r, "axes", "an object", objects[i]);
    json_object_foreach((json_t *)objects[i], key, value)
    {
      const hr_axis *known = find_axis(r, key);
      hr_axis *axis;
      if (known && (known->kind == HR_AXIS_CASE || strcmp(key, "case") == 0))
        return hr_fail(r->error, HR_ERROR_INVALID, "%s: axes.%.40s: is set by the cases already", r->input, key);
      if (!known)
        HR_TRY(add_axis(r, key, HR_AXIS_VALUE, &axis));
    }
  }
  return HR_OK;
}

hr_status hr_read_axes(hr_sweep *sweep, const json_t *cases, const json_t *const *objects, size_t count,
                       const char *input, hr_error *error)
{
  const reader r = {.sweep = sweep, .input = input, .error = error};
  if (cases)
    HR_TRY(read_cases(&r, cases));
  size_t first = sweep->axis_count; /* after the axes of the cases */
  HR_TRY(add_names(&r, objects, count));
  for (size_t i = first; i < sweep->axis_count; i++) {
    const json_t *value = NULL;
    for (size_t j = 0; j < count; j++) {
      const json_t *later = json_object_get(objects[j], sweep->axes[i].name);
      value = later ? later : value;
    }
    HR_TRY(read_axis(&r, &sweep->axes[i], value));
  }
  return HR_OK;
}

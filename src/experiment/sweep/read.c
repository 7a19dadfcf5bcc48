/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/sweep/read.h"

#include "base/error.h"
#include "base/names.h"
#include "experiment/sweep/read_axes.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The objects that may have a field, by precedence: the CPU's variant, the sweep, the template that it shares with
 * others. */
typedef struct layers {
  const json_t *objects[4];
  const char *input;
  hr_error *error;
} layers;

static const json_t *find(const layers *from, const char *field)
{
  for (size_t i = 0; i < sizeof from->objects / sizeof *from->objects; i++) {
    const json_t *value = json_object_get(from->objects[i], field);
    if (value && !json_is_null(value))
      return value;
  }
  return NULL;
}

static hr_status fail_at(const layers *from, const char *field, const char *expected, const json_t *found_value)
{
  char found[64];
  hr_json_found(found_value, found, sizeof found);
  return hr_fail(from->error, HR_ERROR_INVALID, "%s: %s: expected %s, found %s", from->input, field, expected, found);
}

static hr_status read_text(const layers *from, const char *field, char *to, size_t size)
{
  const json_t *value = find(from, field);
  to[0] = '\0';
  if (!value)
    return HR_OK;
  if (!json_is_string(value))
    return fail_at(from, field, "a string", value);
  if (json_string_length(value) >= size || strlen(json_string_value(value)) != json_string_length(value))
    return hr_fail(from->error, HR_ERROR_INVALID, "%s: %s: is longer than %zu bytes", from->input, field, size - 1);
  hr_copy_text(to, size, json_string_value(value));
  return HR_OK;
}

/* Unknown fields are errors: the file would not mean what its author thinks. */
static hr_status check_fields(const json_t *object, const char *input, const char *path, const char *const *names,
                              size_t count, hr_error *error)
{
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value)
  {
    int index;
    if (hr_name_find(names, count, key, &index) != HR_OK)
      return hr_fail(error, HR_ERROR_INVALID, "%s: %s%.60s: there is no such field", input, path, key);
  }
  return HR_OK;
}

static hr_status check_object(const json_t *object, const char *input, const char *path, hr_error *error)
{
  char found[64];
  hr_json_found(object, found, sizeof found);
  return !object || json_is_object(object)
             ? HR_OK
             : hr_fail(error, HR_ERROR_INVALID, "%s: %s: expected an object, found %s", input, path, found);
}

/* Fields of one sweep, then those that only a file may have, and those below "cpu". */
static const char *const sweep_fields[] = {"name",   "figure",  "title",    "source", "note",    "axes",
                                           "cases",  "problem", "x",        "series", "x_label", "y_label",
                                           "x_log2", "view",    "baseline", "cpu",    "sweeps"};
#define FILE_FIELDS (sizeof sweep_fields / sizeof *sweep_fields)
static const char *const small_fields[] = {"axes", "cases", "note"};

static hr_status check_layer(const json_t *object, const char *input, size_t fields, hr_error *error)
{
  const json_t *small = json_object_get(object, "cpu");
  HR_TRY(check_fields(object, input, "", sweep_fields, fields, error));
  HR_TRY(check_object(small, input, "cpu", error));
  return small ? check_fields(small, input, "cpu.", small_fields, sizeof small_fields / sizeof *small_fields, error)
               : HR_OK;
}

static hr_status read_kind(const layers *from, const json_t *problem, hr_sweep_kind *kind)
{
  const json_t *value = json_object_get(problem, "kind");
  for (int i = 0; json_is_string(value) && i < HR_SWEEP_KIND_COUNT; i++) {
    if (strcmp(json_string_value(value), hr_sweep_kind_name((hr_sweep_kind)i)) == 0) {
      *kind = (hr_sweep_kind)i;
      return HR_OK;
    }
  }
  return fail_at(from, "problem.kind", "\"gemm\", \"bmm\", \"attention\", \"decode\", \"layer\" or \"step\"", value);
}

static hr_status read_problem(const layers *from, hr_sweep *sweep)
{
  const json_t *problem = find(from, "problem");
  if (!json_is_object(problem))
    return fail_at(from, "problem", "an object", problem);
  HR_TRY(read_kind(from, problem, &sweep->kind));
  const hr_problem_field *fields = hr_problem_fields(sweep->kind);
  const char *names[HR_SWEEP_FIELDS_MAX + 1] = {"kind"};
  size_t count = 1;
  for (; fields[count - 1].name; count++)
    names[count] = fields[count - 1].name;
  HR_TRY(check_fields(problem, from->input, "problem.", names, count, from->error));
  for (size_t i = 0; fields[i].name; i++) {
    const json_t *value = json_object_get(problem, fields[i].name);
    char path[64];
    snprintf(path, sizeof path, "problem.%s", fields[i].name);
    if (value)
      HR_TRY(hr_read_expression(sweep, value, from->input, path, &sweep->fields[i], from->error));
    else if (fields[i].required)
      return hr_fail(from->error, HR_ERROR_INVALID, "%s: %s: is missing", from->input, path);
    else
      sweep->fields[i] = hr_expression_number(fields[i].otherwise);
  }
  return HR_OK;
}

static hr_status read_x(const layers *from, hr_sweep *sweep)
{
  char name[HR_AXIS_NAME_SIZE];
  HR_TRY(read_text(from, "x", name, sizeof name));
  if (!name[0])
    return hr_fail(from->error, HR_ERROR_INVALID, "%s: x: expected the name of an axis, found none", from->input);
  for (size_t i = 0; i < sweep->axis_count; i++) {
    if (strcmp(sweep->axes[i].name, name) == 0) {
      sweep->x = i;
      const json_t *log2 = find(from, "x_log2");
      if (log2 && !json_is_boolean(log2))
        return fail_at(from, "x_log2", "true or false", log2);
      sweep->x_log2 = json_is_true(log2);
      return HR_OK;
    }
  }
  return hr_fail(from->error, HR_ERROR_INVALID, "%s: x: there is no axis \"%s\"", from->input, name);
}

static hr_status read_baseline(const layers *from, hr_sweep *sweep)
{
  char name[sizeof *sweep->case_names];
  HR_TRY(read_text(from, "baseline", name, sizeof name));
  for (size_t i = 0; i < sweep->case_count && !sweep->compared; i++) {
    sweep->compared = name[0] && strcmp(sweep->case_names[i], name) == 0;
    sweep->baseline = i;
  }
  if (name[0] && !sweep->compared)
    return hr_fail(from->error, HR_ERROR_INVALID, "%s: baseline: there is no case \"%s\"", from->input, name);
  return HR_OK;
}

static hr_status read_view(const layers *from, hr_sweep *sweep)
{
  const json_t *value = find(from, "view");
  if (value && (!json_is_string(value) || hr_view_parse(json_string_value(value), &sweep->view) != HR_OK))
    return fail_at(from, "view",
                   "\"rate\", \"time\", \"heatmap\", \"scaling\", \"gain\", \"shares\" or \"gemm-shares\"", value);
  return HR_OK;
}

static hr_status read_texts(const layers *from, hr_sweep *sweep)
{
  HR_TRY(read_text(from, "name", sweep->name, sizeof sweep->name));
  if (!find(from, "name"))
    return hr_fail(from->error, HR_ERROR_INVALID, "%s: name: is missing", from->input);
  if (!sweep->name[0] ||
      strspn(sweep->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != strlen(sweep->name))
    return hr_fail(from->error, HR_ERROR_INVALID, "%s: name: expected letters, digits, - _ and ., found \"%s\"",
                   from->input, sweep->name);
  HR_TRY(read_text(from, "figure", sweep->figure, sizeof sweep->figure));
  HR_TRY(read_text(from, "source", sweep->source, sizeof sweep->source));
  HR_TRY(read_text(from, "note", sweep->note, sizeof sweep->note));
  HR_TRY(read_text(from, "x_label", sweep->x_label, sizeof sweep->x_label));
  HR_TRY(read_text(from, "y_label", sweep->y_label, sizeof sweep->y_label));
  return read_text(from, "series", sweep->series_label, sizeof sweep->series_label);
}

/* The title may name axes; it gets their values at the first point. */
static hr_status read_title(const layers *from, hr_sweep *sweep)
{
  char label[sizeof sweep->title], why[HR_EXPRESSION_WHY_SIZE];
  HR_TRY(read_text(from, "title", label, sizeof label));
  hr_status status = hr_sweep_fill_label(sweep, label, sweep->points, sweep->title, sizeof sweep->title, why);
  return status == HR_OK ? HR_OK : hr_fail(from->error, status, "%s: title: %s", from->input, why);
}

/* Makes every point once, so that each point of a sweep that was read is valid. */
static hr_status check_points(const layers *from, const hr_sweep *sweep)
{
  for (size_t i = 0; i < sweep->point_count; i++) {
    hr_sweep_point point;
    hr_error error = {.status = HR_OK};
    hr_status status = hr_sweep_point_at(sweep, i, HR_BF16, &point, &error);
    if (status != HR_OK)
      return hr_fail(from->error, status, "%s: %s: point %zu (%.120s): %.200s", from->input, sweep->name, i + 1,
                     point.axes, error.message);
  }
  return HR_OK;
}

static hr_status read_all(const layers *from, bool small, hr_sweep *sweep)
{
  HR_TRY(read_texts(from, sweep));
  const json_t *axes[] = {json_object_get(from->objects[3], "axes"), json_object_get(from->objects[2], "axes"),
                          json_object_get(from->objects[1], "axes"), json_object_get(from->objects[0], "axes")};
  HR_TRY(hr_read_axes(sweep, find(from, "cases"), axes, small ? 4 : 2, from->input, from->error));
  HR_TRY(read_baseline(from, sweep));
  HR_TRY(read_view(from, sweep));
  HR_TRY(read_x(from, sweep));
  HR_TRY(read_problem(from, sweep));
  HR_TRY(hr_sweep_enumerate(sweep, from->input, from->error));
  HR_TRY(read_title(from, sweep));
  return check_points(from, sweep);
}

size_t hr_sweep_file_count(const json_t *root)
{
  const json_t *sweeps = json_object_get(root, "sweeps");
  return sweeps ? json_array_size(sweeps) : 1;
}

static const json_t *sweep_of(const json_t *root, size_t index)
{
  const json_t *sweeps = json_object_get(root, "sweeps");
  return sweeps ? json_array_get(sweeps, index) : root;
}

const char *hr_sweep_file_name(const json_t *root, size_t index)
{
  return json_string_value(json_object_get(sweep_of(root, index), "name"));
}

static hr_sweep_about about_of(const hr_sweep *sweep)
{
  return (hr_sweep_about){.name = sweep->name,
                          .figure = sweep->figure,
                          .title = sweep->title,
                          .source = sweep->source,
                          .note = sweep->note,
                          .x = sweep->axes[sweep->x].name,
                          .x_label = sweep->x_label,
                          .y_label = sweep->y_label,
                          .baseline = sweep->compared ? sweep->case_names[sweep->baseline] : "",
                          .view = sweep->view,
                          .x_log2 = sweep->x_log2,
                          .kind = sweep->kind,
                          .point_count = sweep->point_count,
                          .series_count = sweep->series_count};
}

hr_status hr_sweep_read(const json_t *root, const char *input, size_t index, bool small, hr_sweep **sweep,
                        hr_error *error)
{
  const json_t *one = sweep_of(root, index);
  char path[48];
  snprintf(path, sizeof path, "sweeps[%zu]", index);
  HR_TRY(check_layer(root, input, FILE_FIELDS, error));
  if (one != root) {
    if (!json_is_object(one))
      return hr_fail(error, HR_ERROR_INVALID, "%s: %s: expected an object", input, path);
    HR_TRY(check_layer(one, input, FILE_FIELDS - 1, error));
  }
  layers from = {.input = input, .error = error, .objects = {NULL, NULL, one != root ? one : NULL, root}};
  if (small) {
    from.objects[0] = one != root ? json_object_get(one, "cpu") : NULL;
    from.objects[1] = json_object_get(root, "cpu");
  }
  hr_sweep *read = calloc(1, sizeof *read);
  if (!read)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", input);
  hr_status status = read_all(&from, small, read);
  if (status != HR_OK) {
    hr_sweep_free(read);
    return status;
  }
  read->about = about_of(read);
  *sweep = read;
  return HR_OK;
}

void hr_sweep_free(hr_sweep *sweep)
{
  if (!sweep)
    return;
  for (size_t i = 0; i < sweep->axis_count; i++)
    free(sweep->axes[i].values);
  free(sweep->case_names);
  free(sweep->points);
  free(sweep->point_series);
  free(sweep->series);
  free(sweep);
}

const hr_sweep_about *hr_sweep_describe(const hr_sweep *sweep)
{
  return &sweep->about;
}

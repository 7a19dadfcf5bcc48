/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the points of the axes: nested loops over the axes, sorted by their dependencies. */
#include "base/error.h"
#include "experiment/sweep/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISITS_MAX 2000000 /* values visited while listing; bounds the time that a file can take */

/* An axis that `from` depends on and that has no place in the order yet. It exists, as `from` has no place either. */
static size_t waits_for(const hr_sweep *sweep, size_t from, uint32_t done)
{
  size_t next = 0;
  while ((sweep->axes[from].uses & ~done & UINT32_C(1) << next) == 0)
    next++;
  return next;
}

/* Names the axes of a dependency cycle. */
static hr_status circle(const hr_sweep *sweep, uint32_t done, const char *input, hr_error *error)
{
  size_t at = 0;
  while (done >> at & 1)
    at++;
  for (size_t i = 0; i < sweep->axis_count; i++)
    at = waits_for(sweep, at, done); /* after so many steps it is within the cycle */
  char path[256] = "";
  size_t start = at, used = 0;
  do {
    used += (size_t)snprintf(path + used, sizeof path - used, "%s needs ", sweep->axes[at].name);
    at = waits_for(sweep, at, done);
  } while (at != start && used + 2 * HR_AXIS_NAME_SIZE < sizeof path);
  return hr_fail(error, HR_ERROR_INVALID, "%s: axes: depend on each other in a cycle: %s%s", input, path,
                 sweep->axes[start].name);
}

static hr_status put_in_order(hr_sweep *sweep, const char *input, hr_error *error)
{
  uint32_t done = 0;
  for (size_t placed = 0; placed < sweep->axis_count; placed++) {
    size_t next = 0;
    while (next < sweep->axis_count && (done >> next & 1 || (sweep->axes[next].uses & ~done)))
      next++;
    if (next == sweep->axis_count)
      return circle(sweep, done, input, error);
    sweep->order[placed] = next;
    done |= UINT32_C(1) << next;
  }
  return HR_OK;
}

typedef struct walk {
  hr_sweep *sweep;
  const char *input;
  hr_error *error;
  int64_t values[HR_SWEEP_AXES_MAX];
  size_t capacity;
  int64_t visits;
} walk;

static hr_status no_memory(const walk *w)
{
  return hr_fail(w->error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory for the points", w->input);
}

static hr_status series_of(walk *w, uint16_t *series)
{
  hr_sweep *sweep = w->sweep;
  char text[sizeof *sweep->series], why[HR_EXPRESSION_WHY_SIZE];
  hr_status status = hr_sweep_fill_label(sweep, sweep->series_label, w->values, text, sizeof text, why);
  if (status != HR_OK)
    return hr_fail(w->error, status, "%s: series: %s", w->input, why);
  size_t i = sweep->series_count;
  while (i > 0 && strcmp(sweep->series[i - 1], text) != 0)
    i--;
  if (i == 0) {
    if (sweep->series_count == HR_SWEEP_SERIES_MAX)
      return hr_fail(w->error, HR_ERROR_INVALID, "%s: series: more than %d of them", w->input, HR_SWEEP_SERIES_MAX);
    memcpy(sweep->series[sweep->series_count++], text, sizeof text);
    i = sweep->series_count;
  }
  *series = (uint16_t)(i - 1);
  return HR_OK;
}

static hr_status keep_point(walk *w)
{
  hr_sweep *sweep = w->sweep;
  if (sweep->point_count == HR_SWEEP_POINTS_MAX)
    return hr_fail(w->error, HR_ERROR_INVALID, "%s: axes: give more than %d points", w->input, HR_SWEEP_POINTS_MAX);
  if (sweep->point_count == w->capacity) {
    size_t capacity = w->capacity ? 2 * w->capacity : 256;
    int64_t *points = realloc(sweep->points, capacity * sweep->axis_count * sizeof *points);
    if (!points)
      return no_memory(w);
    sweep->points = points;
    uint16_t *series = realloc(sweep->point_series, capacity * sizeof *series);
    if (!series)
      return no_memory(w);
    sweep->point_series = series;
    w->capacity = capacity;
  }
  HR_TRY(series_of(w, &sweep->point_series[sweep->point_count]));
  memcpy(sweep->points + sweep->point_count * sweep->axis_count, w->values, sweep->axis_count * sizeof *sweep->points);
  sweep->point_count++;
  return HR_OK;
}

static hr_status visit(walk *w, size_t depth);

/* Visits the remaining axes with this one at `value`. */
static hr_status descend(walk *w, size_t depth, int64_t value)
{
  if (++w->visits > VISITS_MAX)
    return hr_fail(w->error, HR_ERROR_INVALID, "%s: axes: take too long to list", w->input);
  w->values[w->sweep->order[depth]] = value;
  return visit(w, depth + 1);
}

static hr_status evaluate(const walk *w, const hr_axis *axis, const char *part, const hr_expression *expression,
                          int64_t *value)
{
  char why[HR_EXPRESSION_WHY_SIZE];
  hr_status status = hr_expression_value(expression, w->values, value, why);
  return status == HR_OK ? HR_OK : hr_fail(w->error, status, "%s: axes.%s%s: %s", w->input, axis->name, part, why);
}

static hr_status visit_range(walk *w, size_t depth, const hr_axis *axis)
{
  int64_t value, to, step;
  HR_TRY(evaluate(w, axis, ".from", &axis->from, &value));
  HR_TRY(evaluate(w, axis, ".to", &axis->to, &to));
  HR_TRY(evaluate(w, axis, axis->factor ? ".factor" : ".step", &axis->step, &step));
  if (axis->factor ? step < 2 || value < 1 : step < 1)
    return hr_fail(w->error, HR_ERROR_INVALID, "%s: axes.%s: %s", w->input, axis->name,
                   axis->factor ? "a factor is at least 2 and starts from at least 1" : "a step is at least 1");
  bool fits = true;
  while (fits && value <= to) {
    HR_TRY(descend(w, depth, value));
    fits = axis->factor ? !__builtin_mul_overflow(value, step, &value) : !__builtin_add_overflow(value, step, &value);
  }
  return HR_OK;
}

static hr_status visit(walk *w, size_t depth)
{
  if (depth == w->sweep->axis_count)
    return keep_point(w);
  const hr_axis *axis = &w->sweep->axes[w->sweep->order[depth]];
  if (axis->kind == HR_AXIS_RANGE)
    return visit_range(w, depth, axis);
  if (axis->kind == HR_AXIS_LIST) {
    for (size_t i = 0; i < axis->count; i++)
      HR_TRY(descend(w, depth, axis->values[i]));
    return HR_OK;
  }
  int64_t value;
  if (axis->kind == HR_AXIS_CASE)
    value = axis->values[w->values[0]];
  else
    HR_TRY(evaluate(w, axis, "", &axis->from, &value));
  return descend(w, depth, value);
}

hr_status hr_sweep_enumerate(hr_sweep *sweep, const char *input, hr_error *error)
{
  HR_TRY(put_in_order(sweep, input, error));
  walk w = {.sweep = sweep, .input = input, .error = error};
  sweep->series = calloc(HR_SWEEP_SERIES_MAX, sizeof *sweep->series);
  if (!sweep->series)
    return no_memory(&w);
  HR_TRY(visit(&w, 0));
  if (sweep->point_count == 0)
    return hr_fail(error, HR_ERROR_INVALID, "%s: axes: give no point", input);
  return HR_OK;
}

static bool same_but_case(const hr_sweep *sweep, const int64_t *a, const int64_t *b)
{
  for (size_t i = 1; i < sweep->axis_count; i++) {
    hr_axis_kind kind = sweep->axes[i].kind;
    if ((kind == HR_AXIS_LIST || kind == HR_AXIS_RANGE) && a[i] != b[i])
      return false;
  }
  return true;
}

size_t hr_sweep_baseline(const hr_sweep *sweep, size_t index)
{
  const int64_t *values = sweep->points + index * sweep->axis_count;
  if (!sweep->compared || (size_t)values[0] == sweep->baseline)
    return SIZE_MAX;
  for (size_t i = 0; i < sweep->point_count; i++) {
    const int64_t *other = sweep->points + i * sweep->axis_count;
    if ((size_t)other[0] == sweep->baseline && same_but_case(sweep, values, other))
      return i;
  }
  return SIZE_MAX;
}

static hr_status write_value(const hr_sweep *sweep, const char *name, size_t length, const int64_t *values, char *to,
                             size_t size, size_t *used, char *why)
{
  size_t i = 0;
  while (i < sweep->axis_count &&
         (strlen(sweep->axes[i].name) != length || strncmp(sweep->axes[i].name, name, length) != 0))
    i++;
  if (i == sweep->axis_count) {
    snprintf(why, HR_EXPRESSION_WHY_SIZE, "there is no axis \"%.*s\"", (int)(length < 40 ? length : 40), name);
    return HR_ERROR_INVALID;
  }
  if (sweep->case_count > 0 && i == 0)
    *used += (size_t)snprintf(to + *used, size - *used, "%s", sweep->case_names[values[0]]);
  else
    *used += (size_t)snprintf(to + *used, size - *used, "%" PRId64, values[i]);
  return HR_OK;
}

hr_status hr_sweep_fill_label(const hr_sweep *sweep, const char *label, const int64_t *values, char *to, size_t size,
                              char why[HR_EXPRESSION_WHY_SIZE])
{
  size_t used = 0;
  memset(to, 0, size);
  while (*label) {
    if (*label == '{') {
      const char *end = strchr(label, '}');
      if (!end) {
        snprintf(why, HR_EXPRESSION_WHY_SIZE, "\"{\" without \"}\"");
        return HR_ERROR_INVALID;
      }
      hr_status status = write_value(sweep, label + 1, (size_t)(end - label - 1), values, to, size, &used, why);
      if (status != HR_OK)
        return status;
      label = end + 1;
    } else if (used + 1 < size) {
      to[used++] = *label++;
    } else {
      used = size;
    }
    if (used >= size) {
      snprintf(why, HR_EXPRESSION_WHY_SIZE, "is longer than %zu bytes", size - 1);
      return HR_ERROR_INVALID;
    }
  }
  return HR_OK;
}

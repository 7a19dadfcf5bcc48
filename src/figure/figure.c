/* SPDX-License-Identifier: Apache-2.0 */
#include "figure/figure.h"

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const origin_names[] = {"measured", "predicted", "published", "read off", "bound"};

HR_DEFINE_NAME(hr_figure_origin_name, hr_figure_origin, origin_names, sizeof origin_names / sizeof *origin_names)

hr_figure *hr_figure_new(void)
{
  hr_figure *figure = calloc(1, sizeof *figure);
  if (!figure)
    return NULL;
  figure->y.from_zero = true;
  figure->x.most = figure->y.most = (double)NAN;
  return figure;
}

void hr_figure_free(hr_figure *figure)
{
  if (!figure)
    return;
  for (size_t i = 0; i < figure->series_count; i++)
    free(figure->series[i].points);
  free(figure->series);
  free(figure->rules);
  free(figure->index.slots);
  free(figure->x.names);
  free(figure->x.index.slots);
  free(figure->y.names);
  free(figure->y.index.slots);
  free(figure);
}

hr_figure_point hr_figure_value(double x, double y)
{
  return (hr_figure_point){.x = x, .y = y, .low = (double)NAN, .high = (double)NAN, .status = HR_OK};
}

bool hr_figure_is_noisy(const hr_figure_point *point)
{
  return point->status == HR_ERROR_NOISY && !isnan(point->y);
}

size_t hr_figure_series_count(const hr_figure *figure)
{
  return figure->series_count;
}

size_t hr_figure_point_count(const hr_figure *figure)
{
  size_t count = 0;
  for (size_t i = 0; i < figure->series_count; i++)
    count += figure->series[i].count;
  return count;
}

/* Makes room for one more element. */
static bool grow(hr_figure *figure, void **items, size_t count, size_t *capacity, size_t size)
{
  if (figure->out_of_memory || count < *capacity)
    return !figure->out_of_memory;
  size_t larger = *capacity ? 2 * *capacity : 8;
  void *moved = realloc(*items, larger * size);
  figure->out_of_memory = !moved;
  if (!moved)
    return false;
  *items = moved;
  *capacity = larger;
  return true;
}

/* A number that no series has, where `last` is that of the last series. */
static size_t next_number(const size_t *last, size_t *count)
{
  if (last && *last >= *count)
    *count = *last + 1;
  return *count;
}

static hr_named series_of(const hr_figure *figure)
{
  return (hr_named){figure->series, sizeof *figure->series};
}

size_t hr_figure_add_series(hr_figure *figure, const char *name, hr_figure_mark mark, hr_figure_origin origin)
{
  void *items = figure->series;
  bool room = grow(figure, &items, figure->series_count, &figure->series_capacity, sizeof *figure->series);
  figure->series = items;
  if (!room)
    return HR_FIGURE_NONE;
  hr_figure_series *series = &figure->series[figure->series_count],
                   *last = figure->series_count > 0 ? series - 1 : NULL;
  /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): grow() made room */
  *series = (hr_figure_series){.mark = mark,
                               .origin = origin,
                               .style = next_number(last ? &last->style : NULL, &figure->style_count),
                               .colour = next_number(last ? &last->colour : NULL, &figure->colour_count)};
  hr_copy_text(series->name, sizeof series->name, name);
  figure->out_of_memory = !hr_name_index_add(&figure->index, series_of(figure), figure->series_count);
  return figure->series_count++;
}

size_t hr_figure_series_named(hr_figure *figure, const char *name, hr_figure_mark mark, hr_figure_origin origin)
{
  char copy[HR_FIGURE_TEXT];
  hr_copy_text(copy, sizeof copy, name);
  size_t found = hr_name_index_find(&figure->index, series_of(figure), copy);
  return found < figure->series_count ? found : hr_figure_add_series(figure, copy, mark, origin);
}

void hr_figure_share_style(hr_figure *figure, size_t series, size_t other)
{
  if (series >= figure->series_count || other >= figure->series_count)
    return;
  figure->series[series].style = figure->series[other].style;
  hr_figure_share_colour(figure, series, other);
}

void hr_figure_share_colour(hr_figure *figure, size_t series, size_t other)
{
  if (series < figure->series_count && other < figure->series_count)
    figure->series[series].colour = figure->series[other].colour;
}

void hr_figure_add_point(hr_figure *figure, size_t series, hr_figure_point point)
{
  if (series >= figure->series_count)
    return;
  hr_figure_series *to = &figure->series[series];
  void *items = to->points;
  bool room = grow(figure, &items, to->count, &to->capacity, sizeof *to->points);
  to->points = items;
  if (room)
    to->points[to->count++] = point;
}

size_t hr_figure_name(hr_figure *figure, hr_figure_axis *axis, const char *name)
{
  char copy[HR_FIGURE_TEXT];
  hr_copy_text(copy, sizeof copy, name);
  size_t found = hr_name_index_find(&axis->index, (hr_named){axis->names, sizeof *axis->names}, copy);
  if (found < axis->name_count)
    return found;
  void *items = axis->names;
  bool room = grow(figure, &items, axis->name_count, &axis->name_capacity, sizeof *axis->names);
  axis->names = items;
  if (!room)
    return HR_FIGURE_NONE;
  memcpy(axis->names[axis->name_count], copy, sizeof copy);
  figure->out_of_memory = !hr_name_index_add(&axis->index, (hr_named){items, sizeof copy}, axis->name_count);
  return axis->name_count++;
}

void hr_figure_add_rule(hr_figure *figure, bool vertical, double at, const char *label)
{
  void *moved = figure->out_of_memory ? NULL : realloc(figure->rules, (figure->rule_count + 1) * sizeof *figure->rules);
  figure->out_of_memory = !moved;
  if (!moved)
    return;
  figure->rules = moved;
  hr_figure_rule *rule = &figure->rules[figure->rule_count++];
  *rule = (hr_figure_rule){.vertical = vertical, .at = at};
  hr_copy_text(rule->label, sizeof rule->label, label);
}

static int compare_points(const void *a, const void *b)
{
  const hr_figure_point *p = a, *q = b;
  if (p->x != q->x)
    return p->x < q->x ? -1 : 1;
  return p->y < q->y ? -1 : p->y > q->y;
}

hr_status hr_figure_end(hr_figure *figure, hr_figure **result, hr_error *error)
{
  if (!figure || figure->out_of_memory) {
    hr_figure_free(figure);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  }
  for (size_t i = 0; i < figure->series_count; i++) {
    hr_figure_series *series = &figure->series[i];
    if (series->count > 1)
      qsort(series->points, series->count, sizeof *series->points, compare_points);
  }
  *result = figure;
  return HR_OK;
}

static const char *const picture_ends[] = {".txt", ".svg", ".png", ".pdf"};

hr_status hr_picture_of_path(const char *path, hr_picture *picture)
{
  HR_NEED(NULL, path, picture);
  size_t length = strlen(path);
  for (int i = 0; i < (int)(sizeof picture_ends / sizeof *picture_ends); i++) {
    if (length > 4 && strcasecmp(path + length - 4, picture_ends[i]) == 0) {
      *picture = (hr_picture)i;
      return HR_OK;
    }
  }
  return HR_ERROR_NOT_FOUND;
}

void hr_figure_options_init(hr_figure_options *options, size_t size)
{
  HR_INIT(options, size, (hr_figure_options){.columns = 100, .rows = 30});
}

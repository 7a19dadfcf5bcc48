/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page_devices.h"

#include "base/error.h"
#include "base/names.h"
#include "experiment/compare/ratio.h"
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which devices ---- */

#define DEVICES_MAX 32

typedef struct device_list {
  const char *names[DEVICES_MAX];
  size_t points[DEVICES_MAX];
  size_t count;
} device_list;

static device_list devices_of(const hr_compare_rows *rows)
{
  device_list list = {.count = 0};
  for (size_t i = 0; i < rows->count; i++) {
    size_t k = 0;
    while (k < list.count && strcmp(list.names[k], rows->rows[i].product) != 0)
      k++;
    if (k == DEVICES_MAX)
      continue;
    if (k == list.count)
      list.names[list.count++] = rows->rows[i].product;
    list.points[k]++;
  }
  return list;
}

static const char *base_of(const device_list *list)
{
  size_t most = 0;
  for (size_t k = 1; k < list->count; k++)
    most = list->points[k] > list->points[most] ? k : most;
  return list->names[most];
}

/* ---- ratios ---- */

typedef struct device_row {
  const char *sweep, *device;
  int64_t points;
  hr_ratio ratio; /* rate of the device over that of the base */
} device_row;

static bool is_sound(const hr_compare_row *row)
{
  const hr_compared_row *m = &row->measured;
  return m->status == HR_OK && isfinite(m->median_ns) && isfinite(m->low_ns) && isfinite(m->high_ns);
}

/* Threads and product are no part of the point here: the devices differ in them. */
static const hr_compare_row *same_point(const hr_compare_row *rows, size_t count, const hr_compare_row *row,
                                        const char *product)
{
  for (size_t i = 0; i < count; i++) {
    if (strcmp(rows[i].product, product) == 0 &&
        hr_compare_points(&rows[i], row, (hr_compare_key){.product = false}) == 0)
      return &rows[i];
  }
  return NULL;
}

/* Rows are sorted by point and then by product, so the rows of a point stand together; `from` is the first of them. */
static size_t point_end(const hr_compare_row *rows, size_t count, size_t from)
{
  size_t end = from + 1;
  while (end < count && hr_compare_points(&rows[from], &rows[end], (hr_compare_key){.product = false}) == 0)
    end++;
  return end;
}

/* The rows of one sweep on one device against the base. `ratios` has room for `count`. */
static device_row row_of(const hr_compare_row *rows, size_t count, const char *device, const char *base,
                         hr_ratio *ratios)
{
  size_t used = 0;
  for (size_t i = 0; i < count;) {
    size_t end = point_end(rows, count, i);
    const hr_compare_row *a = same_point(&rows[i], end - i, &rows[i], base);
    const hr_compare_row *b = same_point(&rows[i], end - i, &rows[i], device);
    if (a && b && is_sound(a) && is_sound(b))
      ratios[used++] = hr_ratio_of(&a->measured, &b->measured);
    i = end;
  }
  return (device_row){rows[0].sweep, device, (int64_t)used, hr_ratio_mean(ratios, used)};
}

/* ---- the page ---- */

#define ROW(member) HR_OPTIONAL(device_row, member)
static const hr_column columns[] = {
    {NULL, "sweep", HR_PLAIN, 0, ROW(sweep)},   {NULL, "device", HR_PLAIN, 0, ROW(device)},
    {NULL, "points", HR_PLAIN, 0, ROW(points)}, {NULL, "ratio", HR_PLAIN, 0, ROW(ratio.value)},
    {NULL, "low", HR_PLAIN, 0, ROW(ratio.low)}, {NULL, "high", HR_PLAIN, 0, ROW(ratio.high)},
};

static void add_bar(hr_figure *figure, const device_row *row)
{
  const char *sweep = row->sweep[0] ? row->sweep : "single measurements";
  hr_figure_point point = hr_figure_value((double)hr_figure_name(figure, &figure->x, sweep), row->ratio.value);
  point.low = row->ratio.low;
  point.high = row->ratio.high;
  size_t series = hr_figure_series_named(figure, row->device, HR_FIGURE_MARK_POINTS, HR_FIGURE_MEASURED);
  hr_figure_add_point(figure, series, point);
}

static hr_status fill(const hr_compare_rows *rows, const device_list *list, const char *base, hr_table *table,
                      hr_figure *figure, hr_error *error)
{
  hr_ratio *ratios = calloc(rows->count, sizeof *ratios);
  if (!ratios)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the ratios of devices");
  for (size_t from = 0, end; from < rows->count; from = end) {
    for (end = from + 1; end < rows->count && strcmp(rows->rows[end].sweep, rows->rows[from].sweep) == 0; end++)
      ;
    for (size_t k = 0; k < list->count; k++) {
      if (strcmp(list->names[k], base) == 0)
        continue;
      device_row row = row_of(&rows->rows[from], end - from, list->names[k], base, ratios);
      if (row.points == 0)
        continue;
      hr_table_add(table, &row);
      add_bar(figure, &row);
    }
  }
  free(ratios);
  return HR_OK;
}

static hr_status print_filled(const hr_document *document, const char *base, hr_table *table, hr_figure *figure,
                              hr_error *error)
{
  char text[512];
  fputs("<section id=\"devices\">\n", document->out);
  hr_print_heading(document, "Devices compared");
  snprintf(
      text, sizeof text,
      "Time on %.200s over time on the device, geometric mean of the points that both have, with its 95%% interval: "
      "above 1 the device is faster.",
      base[0] ? base : "the unnamed device");
  hr_print_paragraph(document, text);
  hr_status status = hr_page_write_figure(document->out, figure, error);
  if (status == HR_OK)
    status = hr_table_write(table, document->out, document->options, error);
  fputs("</section>\n", document->out);
  return status;
}

hr_status hr_print_devices(const hr_document *document, const hr_compare_rows *rows, hr_error *error)
{
  device_list list = devices_of(rows);
  if (list.count < 2)
    return HR_OK;
  hr_table *table = HR_TABLE_OF(columns, device_row);
  hr_figure *figure = hr_figure_new();
  const char *base = base_of(&list);
  hr_status status = figure ? fill(rows, &list, base, table, figure, error)
                            : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  if (status == HR_OK) {
    snprintf(figure->title, sizeof figure->title, "Devices compared with %.120s", base);
    hr_copy_text(figure->x.label, sizeof figure->x.label, "sweep");
    hr_copy_text(figure->y.label, sizeof figure->y.label, "times as fast");
    figure->form = HR_FIGURE_BARS;
    figure->x.scale = HR_FIGURE_SCALE_NAMES;
    status = hr_figure_end(figure, &figure, error);
    figure = status == HR_OK ? figure : NULL;
  }
  if (status == HR_OK && hr_figure_point_count(figure) > 0)
    status = print_filled(document, base, table, figure, error);
  hr_figure_free(figure);
  hr_table_free(table);
  return status;
}

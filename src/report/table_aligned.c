/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for a terminal: columns aligned, the least important ones dropped and the last one wrapped to fit. */
#include "report/table.h"

#include "base/quantity.h"
#include "base/utf8.h"
#include "report/lines.h"

#define COLUMNS_MAX 64
#define GAP 2
#define WRAPPED_LEAST 24 /* the last column of text may be wrapped down to this width */

/* The columns that fit, and their widths. */
typedef struct table_layout {
  bool kept[COLUMNS_MAX];
  int widths[COLUMNS_MAX];
  size_t count;
  size_t last; /* the last column kept, which may be wrapped */
  int last_start;
  int pending; /* spaces to be written before the next text, so that no line ends with spaces */
} table_layout;

static int natural_width(const hr_table *table, size_t column)
{
  int width = hr_display_width(hr_table_column(table, column)->title);
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    hr_cell cell;
    char buffer[HR_NUMBER_SIZE];
    int columns = hr_display_width(hr_table_show(table, row, column, &cell, buffer, sizeof buffer));
    width = columns > width ? columns : width;
  }
  return width;
}

/* Drops all columns with the highest number; false if no column may be dropped. */
static bool drop_columns(const hr_table *table, table_layout *layout)
{
  int highest = 0;
  for (size_t i = 0; i < layout->count; i++) {
    if (layout->kept[i] && hr_table_column(table, i)->drop > highest)
      highest = hr_table_column(table, i)->drop;
  }
  for (size_t i = 0; highest > 0 && i < layout->count; i++) {
    if (hr_table_column(table, i)->drop == highest)
      layout->kept[i] = false;
  }
  return highest > 0;
}

static int total_width(table_layout *layout)
{
  int total = 0;
  for (size_t i = 0; i < layout->count; i++) {
    if (!layout->kept[i])
      continue;
    layout->last = i;
    layout->last_start = total;
    total += layout->widths[i] + GAP;
  }
  return total - GAP;
}

static table_layout fit(const hr_table *table, int width)
{
  table_layout layout = {.count = hr_table_width(table) < COLUMNS_MAX ? hr_table_width(table) : COLUMNS_MAX};
  for (size_t i = 0; i < layout.count; i++) {
    layout.widths[i] = hr_table_shows_column(table, i) ? natural_width(table, i) : 0;
    layout.kept[i] = layout.widths[i] > 0;
  }
  int excess = total_width(&layout) - width;
  while (width > 0 && excess > 0) {
    bool text = hr_table_column(table, layout.last)->type != HR_TYPE_FLAG &&
                hr_column_is_left(hr_table_column(table, layout.last));
    if ((text && layout.widths[layout.last] - excess >= WRAPPED_LEAST) || !drop_columns(table, &layout))
      break;
    excess = total_width(&layout) - width;
  }
  if (width > 0 && excess > 0 && layout.widths[layout.last] - excess >= WRAPPED_LEAST)
    layout.widths[layout.last] -= excess;
  return layout;
}

static void write_pending(FILE *out, table_layout *layout)
{
  if (layout->pending > 0)
    fprintf(out, "%*s", layout->pending, "");
  layout->pending = 0;
}

static void write_cell(FILE *out, const hr_report_options *options, table_layout *layout, size_t column, bool left,
                       const char *text, hr_style style)
{
  bool last = column == layout->last;
  int padding = layout->widths[column] - hr_display_width(text);
  bool wraps = last && left && padding < 0;
  layout->pending += left ? 0 : padding;
  if (text[0]) {
    write_pending(out, layout);
    hr_style_begin(out, options, style);
    if (wraps)
      hr_wrap_text(out, text, layout->last_start, layout->last_start, layout->last_start + layout->widths[column]);
    else
      fprintf(out, "%s", text);
    hr_style_end(out, options, style);
  }
  if (last && !wraps)
    fprintf(out, "\n");
  layout->pending = last ? 0 : layout->pending + (left ? padding : 0) + GAP;
}

void hr_table_write_aligned(const hr_table *table, FILE *out, const hr_report_options *options)
{
  table_layout layout = fit(table, options->width);
  for (size_t i = 0; i < layout.count; i++) {
    const hr_column *column = hr_table_column(table, i);
    if (layout.kept[i])
      write_cell(out, options, &layout, i, hr_column_is_left(column), column->title, HR_STYLE_BOLD);
  }
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    for (size_t i = 0; i < layout.count; i++) {
      hr_cell cell;
      char buffer[HR_NUMBER_SIZE];
      if (!layout.kept[i])
        continue;
      const char *text = hr_table_show(table, row, i, &cell, buffer, sizeof buffer);
      write_cell(out, options, &layout, i, hr_column_is_left(hr_table_column(table, i)), text, cell.style);
    }
  }
}

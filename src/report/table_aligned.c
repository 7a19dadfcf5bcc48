/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for a terminal: columns aligned, the least important ones dropped and text wrapped to fit, in the last column
 * first. */
#include "report/table.h"

#include "base/quantity.h"
#include "report/lines.h"
#include "report/width.h"

#include <string.h>

#define COLUMNS_MAX 128
#define GAP 2
#define WRAPPED_MIN 24   /* the last column is wrapped down to this width before a column is dropped, */
#define WRAPPED_LEAST 16 /* and every column of text to this one where no more can be dropped */

/* The columns that fit, and their widths. */
typedef struct table_layout {
  bool kept[COLUMNS_MAX];
  int widths[COLUMNS_MAX];
  size_t count;
  size_t last; /* the last column kept */
  int pending; /* spaces to be written before the next text, so that no line ends with spaces */
} table_layout;

int hr_table_natural_width(const hr_table *table, size_t column)
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
    total += layout->widths[i] + GAP;
  }
  return total - GAP;
}

static bool is_text(const hr_table *table, size_t column)
{
  return hr_table_column(table, column)->type != HR_TYPE_FLAG && hr_column_is_left(hr_table_column(table, column));
}

/* Takes `excess` columns from the columns of text, from the widest one at a time. */
static void narrow_texts(const hr_table *table, table_layout *layout, int excess)
{
  for (; excess > 0; excess--) {
    size_t widest = layout->last;
    for (size_t i = 0; i < layout->count; i++) {
      if (layout->kept[i] && is_text(table, i) && layout->widths[i] > layout->widths[widest])
        widest = i;
    }
    if (!is_text(table, widest) || layout->widths[widest] <= WRAPPED_LEAST)
      return;
    layout->widths[widest]--;
  }
}

static table_layout fit(const hr_table *table, int width)
{
  table_layout layout = {.count = hr_table_width(table) < COLUMNS_MAX ? hr_table_width(table) : COLUMNS_MAX};
  for (size_t i = 0; i < layout.count; i++) {
    layout.widths[i] = hr_table_shows_column(table, i) ? hr_table_natural_width(table, i) : 0;
    layout.kept[i] = layout.widths[i] > 0;
  }
  int excess = total_width(&layout) - width;
  while (width > 0 && excess > 0) {
    if ((is_text(table, layout.last) && layout.widths[layout.last] - excess >= WRAPPED_MIN) ||
        !drop_columns(table, &layout))
      break;
    excess = total_width(&layout) - width;
  }
  if (width > 0 && excess > 0 && is_text(table, layout.last) && layout.widths[layout.last] - excess >= WRAPPED_MIN)
    layout.widths[layout.last] -= excess;
  else if (width > 0 && excess > 0)
    narrow_texts(table, &layout, excess);
  return layout;
}

static void write_pending(FILE *out, table_layout *layout)
{
  if (layout->pending > 0)
    fprintf(out, "%*s", layout->pending, "");
  layout->pending = 0;
}

/* The part of a cell's text that is on a line of its row, from 0; NULL behind the last. */
static const char *part_on_line(const char *text, int width, size_t line, size_t *length)
{
  const char *next = text;
  for (size_t i = 0; i <= line; i++) {
    text = next;
    if (i > 0 && !*text)
      return NULL;
    *length = hr_wrap_length(text, width, &next);
  }
  return text;
}

/* Writes a cell's part on a line; false if the cell ended before. */
static bool write_cell(FILE *out, const hr_report_options *options, table_layout *layout, size_t column, bool left,
                       const char *text, hr_style style, size_t line)
{
  bool last = column == layout->last;
  int padding = layout->widths[column] - hr_display_width(text);
  size_t length = strlen(text);
  const char *part = line == 0 ? text : NULL;
  if (left && padding < 0) {
    part = part_on_line(text, layout->widths[column], line, &length);
    char shown[HR_CELL_TEXT_SIZE];
    snprintf(shown, sizeof shown, "%.*s", (int)length, part ? part : "");
    padding = layout->widths[column] - hr_display_width(shown);
  } else if (!part) {
    padding = layout->widths[column];
  }
  layout->pending += left || !part ? 0 : padding;
  if (part && length > 0) {
    write_pending(out, layout);
    hr_style_begin(out, options, style);
    fprintf(out, "%.*s", (int)length, part);
    hr_style_end(out, options, style);
  }
  layout->pending = last ? 0 : layout->pending + (left || !part ? padding : 0) + GAP;
  return part != NULL;
}

/* Writes one line of a row; false, and nothing, if every cell ended before. */
static bool write_line(const hr_table *table, FILE *out, const hr_report_options *options, table_layout *layout,
                       size_t row, size_t line)
{
  bool written = false;
  layout->pending = 0;
  for (size_t i = 0; i < layout->count; i++) {
    hr_cell cell;
    char buffer[HR_NUMBER_SIZE];
    if (!layout->kept[i])
      continue;
    const char *text = hr_table_show(table, row, i, &cell, buffer, sizeof buffer);
    bool left = hr_column_is_left(hr_table_column(table, i));
    written = write_cell(out, options, layout, i, left, text, cell.style, line) || written;
  }
  if (written)
    fprintf(out, "\n");
  return written;
}

/* Names the columns that the width leaves no room for. */
static void write_left_out(const hr_table *table, FILE *out, const hr_report_options *options,
                           const table_layout *layout)
{
  char names[HR_CELL_TEXT_SIZE] = "";
  size_t used = 0, length;
  for (size_t i = 0; i < layout->count && used < sizeof names; i++) {
    if (!layout->kept[i] && layout->widths[i] > 0)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                               used > 0 ? ", " : "left out at this width: ", hr_table_column(table, i)->title);
  }
  for (size_t line = 0; used > 0; line++) {
    const char *part = part_on_line(names, options->width, line, &length);
    if (!part)
      return;
    hr_style_begin(out, options, HR_STYLE_DIM);
    fprintf(out, "%.*s", (int)length, part);
    hr_style_end(out, options, HR_STYLE_DIM);
    fprintf(out, "\n");
  }
}

void hr_table_write_aligned(const hr_table *table, FILE *out, const hr_report_options *options)
{
  table_layout layout = fit(table, options->width);
  for (size_t i = 0; i < layout.count; i++) {
    const hr_column *column = hr_table_column(table, i);
    if (layout.kept[i])
      write_cell(out, options, &layout, i, hr_column_is_left(column), column->title, HR_STYLE_BOLD, 0);
  }
  fprintf(out, "\n");
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    size_t line = 0;
    while (write_line(table, out, options, &layout, row, line))
      line++;
  }
  write_left_out(table, out, options, &layout);
}

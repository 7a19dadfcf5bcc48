#include "report/table.h"

#include "base/error.h"
#include "base/names.h"
#include "base/utf8.h"
#include "report/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct cell {
  bool present;
  hr_style style;
  union {
    char *text;
    int64_t count;
    double number;
    bool flag;
  } value;
} cell;

struct hr_table {
  const hr_column *columns;
  size_t width; /* columns */
  size_t count; /* cells put */
  size_t capacity;
  cell *cells;
  bool failed;
};

hr_table *hr_table_create(const hr_column *columns, size_t count)
{
  hr_table *table = calloc(1, sizeof *table);
  if (table) {
    table->columns = columns;
    table->width = count;
  }
  return table;
}

static bool holds_text(const hr_table *table, size_t index)
{
  return table->columns[index % table->width].kind == HR_CELL_TEXT;
}

void hr_table_free(hr_table *table)
{
  if (!table)
    return;
  for (size_t i = 0; i < table->count; i++) {
    if (table->cells[i].present && holds_text(table, i))
      free(table->cells[i].value.text);
  }
  free(table->cells);
  free(table);
}

/* The next cell, empty; NULL when memory ran out now or before. */
static cell *next_cell(hr_table *table)
{
  if (!table || table->failed)
    return NULL;
  if (table->count == table->capacity) {
    size_t capacity = table->capacity ? 2 * table->capacity : 16 * table->width;
    cell *cells = realloc(table->cells, capacity * sizeof *cells);
    if (!cells) {
      table->failed = true;
      return NULL;
    }
    table->cells = cells;
    table->capacity = capacity;
  }
  cell *next = &table->cells[table->count++];
  *next = (cell){.present = false};
  return next;
}

void hr_put_none(hr_table *table)
{
  next_cell(table);
}

void hr_put_text(hr_table *table, const char *text)
{
  cell *next = next_cell(table);
  if (!next || !text)
    return;
  size_t size = strlen(text) + 1;
  next->value.text = malloc(size);
  if (!next->value.text) {
    table->failed = true;
    return;
  }
  hr_copy_text(next->value.text, size, text);
  next->present = true;
}

void hr_put(hr_table *table, double value)
{
  cell *next = next_cell(table);
  if (next && isfinite(value)) {
    next->value.number = value;
    next->present = true;
  }
}

void hr_put_count(hr_table *table, int64_t value)
{
  cell *next = next_cell(table);
  if (next) {
    next->value.count = value;
    next->present = true;
  }
}

void hr_put_flag(hr_table *table, bool value)
{
  cell *next = next_cell(table);
  if (next) {
    next->value.flag = value;
    next->present = true;
  }
}

void hr_table_style(hr_table *table, hr_style style)
{
  if (table && table->count > 0)
    table->cells[table->count - 1].style = style;
}

size_t hr_table_rows(const hr_table *table)
{
  return table && table->width > 0 ? table->count / table->width : 0;
}

static bool holds_count(hr_cell_kind kind)
{
  return kind == HR_CELL_COUNT || kind == HR_CELL_BYTES || kind == HR_CELL_FLOPS;
}

static const cell *cell_at(const hr_table *table, size_t row, size_t column)
{
  return &table->cells[row * table->width + column];
}

/* The cell as people read it; text cells are returned as they are, others are written to `buffer`. */
static const char *shown(const hr_table *table, size_t row, size_t column, char *buffer, size_t size)
{
  const cell *c = cell_at(table, row, column);
  if (!c->present || (table->columns[column].kind == HR_CELL_FLOPS && c->value.count == 0))
    return "-";
  switch (table->columns[column].kind) {
  case HR_CELL_TEXT: return c->value.text;
  case HR_CELL_COUNT: hr_write_count(buffer, size, c->value.count); break;
  case HR_CELL_BYTES: hr_write_bytes(buffer, size, (double)c->value.count); break;
  case HR_CELL_FLOPS: hr_write_rate(buffer, size, (double)c->value.count, "FLOP"); break;
  case HR_CELL_TIME: hr_write_time(buffer, size, c->value.number); break;
  case HR_CELL_FLOPS_RATE: hr_write_rate(buffer, size, c->value.number, "FLOP/s"); break;
  case HR_CELL_BYTES_RATE: hr_write_rate(buffer, size, c->value.number, "B/s"); break;
  case HR_CELL_SHARE: hr_write_share(buffer, size, c->value.number); break;
  case HR_CELL_GAIN: hr_write_gain(buffer, size, c->value.number); break;
  case HR_CELL_NUMBER: snprintf(buffer, size, "%.3g", c->value.number); break;
  case HR_CELL_FLAG: return c->value.flag ? "yes" : "no";
  }
  return buffer;
}

/* ---- for people ---- */

#define COLUMNS_MAX 40
#define GAP 2

/* What fits: the columns that are left, and how wide each is. */
typedef struct table_layout {
  bool kept[COLUMNS_MAX];
  int widths[COLUMNS_MAX];
  size_t last; /* the last column kept, which may wrap */
  int last_start;
  int waiting; /* spaces that are to be written before the next text */
} table_layout;

static int natural_width(const hr_table *table, size_t column)
{
  int width = hr_display_width(table->columns[column].title);
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    char buffer[HR_NUMBER_SIZE];
    int columns = hr_display_width(shown(table, row, column, buffer, sizeof buffer));
    width = columns > width ? columns : width;
  }
  return width;
}

/* Drops the columns with the highest number, all of them: they belong together. */
static bool drop_worst(const hr_table *table, table_layout *layout)
{
  int worst = 0;
  for (size_t i = 0; i < table->width; i++) {
    if (layout->kept[i] && table->columns[i].drop > worst)
      worst = table->columns[i].drop;
  }
  for (size_t i = 0; worst > 0 && i < table->width; i++) {
    if (table->columns[i].drop == worst)
      layout->kept[i] = false;
  }
  return worst > 0;
}

static int total_width(const hr_table *table, table_layout *layout)
{
  int total = 0;
  for (size_t i = 0; i < table->width; i++) {
    if (!layout->kept[i])
      continue;
    layout->last = i;
    layout->last_start = total;
    total += layout->widths[i] + GAP;
  }
  return total - GAP;
}

/* The last column of text may wrap down to this. */
#define TEXT_WIDTH_LEAST 24

static table_layout arrange(const hr_table *table, int width)
{
  table_layout result = {.last = 0};
  for (size_t i = 0; i < table->width && i < COLUMNS_MAX; i++) {
    result.kept[i] = table->columns[i].title != NULL;
    result.widths[i] = result.kept[i] ? natural_width(table, i) : 0;
    result.kept[i] = result.widths[i] > 0;
  }
  while (width > 0) {
    int excess = total_width(table, &result) - width;
    int spare = table->columns[result.last].kind == HR_CELL_TEXT ? result.widths[result.last] - TEXT_WIDTH_LEAST : 0;
    if (excess <= 0 || excess <= spare || !drop_worst(table, &result))
      break;
  }
  int excess = total_width(table, &result) - width;
  if (width > 0 && excess > 0 && result.widths[result.last] - excess >= TEXT_WIDTH_LEAST)
    result.widths[result.last] -= excess;
  return result;
}

/* Spaces wait until something follows them, so that no line ends with any. */
static void put_waiting(FILE *out, table_layout *layout)
{
  if (layout->waiting > 0)
    fprintf(out, "%*s", layout->waiting, "");
  layout->waiting = 0;
}

static void put_cell(FILE *out, const hr_report_options *options, table_layout *layout, size_t column, const char *text,
                     hr_cell_kind kind, hr_style style)
{
  bool left = kind == HR_CELL_TEXT || kind == HR_CELL_FLAG;
  bool last = column == layout->last;
  int padding = layout->widths[column] - hr_display_width(text);
  layout->waiting += left ? 0 : padding;
  if (text[0]) {
    put_waiting(out, layout);
    hr_style_begin(out, options, style);
    bool wraps = last && left && padding < 0;
    if (wraps)
      hr_text_wrap(out, text, layout->last_start, layout->last_start, layout->last_start + layout->widths[column]);
    else
      fprintf(out, "%s", text);
    hr_style_end(out, options, style);
    if (last && !wraps)
      fprintf(out, "\n");
  } else if (last) {
    fprintf(out, "\n");
  }
  layout->waiting = last ? 0 : layout->waiting + (left ? padding : 0) + GAP;
}

static void write_for_people(const hr_table *table, FILE *out, const hr_report_options *options)
{
  table_layout layout = arrange(table, options->width);
  for (size_t i = 0; i < table->width; i++) {
    if (layout.kept[i])
      put_cell(out, options, &layout, i, table->columns[i].title, table->columns[i].kind, HR_STYLE_BOLD);
  }
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    for (size_t i = 0; i < table->width; i++) {
      char buffer[HR_NUMBER_SIZE];
      if (layout.kept[i])
        put_cell(out, options, &layout, i, shown(table, row, i, buffer, sizeof buffer), table->columns[i].kind,
                 cell_at(table, row, i)->style);
    }
  }
}

/* ---- Markdown ---- */

static void put_markdown(FILE *out, const char *text)
{
  fprintf(out, " ");
  for (; *text; text++)
    fprintf(out, strchr("|\\`*<", *text) ? "\\%c" : "%c", *text);
  fprintf(out, " |");
}

static void write_markdown(const hr_table *table, FILE *out)
{
  fprintf(out, "|");
  for (size_t i = 0; i < table->width; i++) {
    if (table->columns[i].title)
      put_markdown(out, table->columns[i].title);
  }
  fprintf(out, "\n|");
  for (size_t i = 0; i < table->width; i++) {
    hr_cell_kind kind = table->columns[i].kind;
    if (table->columns[i].title)
      fprintf(out, kind == HR_CELL_TEXT || kind == HR_CELL_FLAG ? " --- |" : " ---: |");
  }
  fprintf(out, "\n");
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    fprintf(out, "|");
    for (size_t i = 0; i < table->width; i++) {
      char buffer[HR_NUMBER_SIZE];
      if (table->columns[i].title)
        put_markdown(out, shown(table, row, i, buffer, sizeof buffer));
    }
    fprintf(out, "\n");
  }
}

/* ---- CSV (RFC 4180, but lines end with a line feed alone) ---- */

static void put_csv_text(FILE *out, const char *text)
{
  if (!strpbrk(text, ",\"\r\n")) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (; *text; text++)
    fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
  fputc('"', out);
}

static void put_csv_cell(FILE *out, const cell *c, hr_cell_kind kind)
{
  if (!c->present)
    return;
  if (kind == HR_CELL_TEXT)
    put_csv_text(out, c->value.text);
  else if (kind == HR_CELL_FLAG)
    fputs(c->value.flag ? "true" : "false", out);
  else if (holds_count(kind))
    fprintf(out, "%" PRId64, c->value.count);
  else
    fprintf(out, "%.15g", c->value.number);
}

static void write_csv(const hr_table *table, FILE *out)
{
  const char *separator = "";
  for (size_t i = 0; i < table->width; i++) {
    if (table->columns[i].key) {
      fprintf(out, "%s%s", separator, table->columns[i].key);
      separator = ",";
    }
  }
  fputc('\n', out);
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    separator = "";
    for (size_t i = 0; i < table->width; i++) {
      if (!table->columns[i].key)
        continue;
      fputs(separator, out);
      separator = ",";
      put_csv_cell(out, cell_at(table, row, i), table->columns[i].kind);
    }
    fputc('\n', out);
  }
}

hr_status hr_table_write(const hr_table *table, FILE *out, const hr_report_options *options, hr_error *error)
{
  if (!table || table->failed)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "memory ran out while writing the report");
  switch (options->format) {
  case HR_FORMAT_CSV: write_csv(table, out); break;
  case HR_FORMAT_MARKDOWN: write_markdown(table, out); break;
  default: write_for_people(table, out, options); break;
  }
  return HR_OK;
}

/* ---- JSON ---- */

static json_t *json_cell(const cell *c, hr_cell_kind kind)
{
  if (!c->present)
    return json_null();
  if (kind == HR_CELL_TEXT)
    return json_string(c->value.text);
  if (kind == HR_CELL_FLAG)
    return json_boolean(c->value.flag);
  return holds_count(kind) ? json_integer(c->value.count) : json_real(c->value.number);
}

static json_t *json_row(const hr_table *table, size_t row)
{
  json_t *object = json_object();
  for (size_t i = 0; object && i < table->width; i++) {
    const hr_column *column = &table->columns[i];
    if (column->key && json_object_set_new(object, column->key, json_cell(cell_at(table, row, i), column->kind)) != 0) {
      json_decref(object);
      object = NULL;
    }
  }
  return object;
}

json_t *hr_table_json(const hr_table *table)
{
  if (!table || table->failed)
    return NULL;
  json_t *list = json_array();
  for (size_t row = 0; list && row < hr_table_rows(table); row++) {
    if (json_array_append_new(list, json_row(table, row)) != 0) {
      json_decref(list);
      list = NULL;
    }
  }
  return list;
}

/* ---- styles ---- */

static const char *const escapes[] = {
    [HR_STYLE_PLAIN] = "",         [HR_STYLE_BOLD] = "\x1b[1m",    [HR_STYLE_DIM] = "\x1b[2m",
    [HR_STYLE_RED] = "\x1b[1;31m", [HR_STYLE_YELLOW] = "\x1b[33m", [HR_STYLE_CYAN] = "\x1b[36m",
    [HR_STYLE_GREEN] = "\x1b[32m",
};

static bool styled(const hr_report_options *options, hr_style style)
{
  return options->colour && options->format == HR_FORMAT_TABLE && style != HR_STYLE_PLAIN;
}

void hr_style_begin(FILE *out, const hr_report_options *options, hr_style style)
{
  if (styled(options, style))
    fputs(escapes[style], out);
}

void hr_style_end(FILE *out, const hr_report_options *options, hr_style style)
{
  if (styled(options, style))
    fputs("\x1b[0m", out);
}

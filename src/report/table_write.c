/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as CSV (RFC 4180, but lines end with a line feed alone) and as Markdown. */
#include "report/table.h"

#include "base/error.h"
#include "base/quantity.h"
#include "base/text.h"
#include "report/markdown.h"
#include "report/page.h"

#include <inttypes.h>
#include <string.h>

/* ---- Markdown ---- */

static void write_markdown_cell(FILE *out, const char *text)
{
  fputc(' ', out);
  hr_markdown_write(out, text);
  fputs(" |", out);
}

static void write_markdown(const hr_table *table, FILE *out)
{
  size_t width = hr_table_width(table);
  fprintf(out, "|");
  for (size_t i = 0; i < width; i++) {
    if (hr_table_shows_column(table, i))
      write_markdown_cell(out, hr_table_column(table, i)->title);
  }
  fprintf(out, "\n|");
  for (size_t i = 0; i < width; i++) {
    if (hr_table_shows_column(table, i))
      fprintf(out, hr_column_is_left(hr_table_column(table, i)) ? " --- |" : " ---: |");
  }
  fprintf(out, "\n");
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    fprintf(out, "|");
    for (size_t i = 0; i < width; i++) {
      hr_cell cell;
      char buffer[HR_NUMBER_SIZE];
      if (hr_table_shows_column(table, i))
        write_markdown_cell(out, hr_table_show(table, row, i, &cell, buffer, sizeof buffer));
    }
    fprintf(out, "\n");
  }
}

/* ---- CSV ---- */

/* Spreadsheets take a text that begins so for a formula, which could send other cells to an address; with an apostrophe
 * before it, it is shown as text. See https://owasp.org/www-community/attacks/CSV_Injection. */
static bool is_formula(const char *text)
{
  return text[0] != '\0' && strchr("=+-@\t\r", text[0]);
}

static void write_csv_text(FILE *out, const char *text)
{
  char safe[HR_CELL_TEXT_SIZE + 1];
  if (is_formula(text)) {
    snprintf(safe, sizeof safe, "'%s", text);
    text = safe;
  }
  if (!strpbrk(text, ",\"\r\n")) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (; *text; text++)
    fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
  fputc('"', out);
}

static void write_csv_cell(FILE *out, const hr_cell *cell)
{
  char number[HR_NUMBER_SIZE];
  switch (cell->type) {
  case HR_CELL_NONE: break;
  case HR_CELL_TEXT: write_csv_text(out, cell->text); break;
  case HR_CELL_COUNT: fprintf(out, "%" PRId64, cell->count); break;
  case HR_CELL_NUMBER:
    hr_write_text(number, sizeof number, "%.15g", cell->number);
    fputs(number, out);
    break;
  case HR_CELL_FLAG: fputs(cell->flag ? "true" : "false", out); break;
  }
}

static void write_csv(const hr_table *table, FILE *out)
{
  const char *separator = "";
  for (size_t i = 0; i < hr_table_width(table); i++) {
    if (hr_table_column(table, i)->key) {
      fprintf(out, "%s%s", separator, hr_table_column(table, i)->key);
      separator = ",";
    }
  }
  fputc('\n', out);
  for (size_t row = 0; row < hr_table_rows(table); row++) {
    separator = "";
    for (size_t i = 0; i < hr_table_width(table); i++) {
      if (!hr_table_column(table, i)->key)
        continue;
      hr_cell cell;
      hr_table_read(table, row, i, &cell);
      fputs(separator, out);
      separator = ",";
      write_csv_cell(out, &cell);
    }
    fputc('\n', out);
  }
}

hr_status hr_table_write(const hr_table *table, FILE *out, const hr_report_options *options, hr_error *error)
{
  if (!hr_table_is_complete(table))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory while writing the report");
  switch (options->format) {
  case HR_FORMAT_CSV: write_csv(table, out); break;
  case HR_FORMAT_MARKDOWN: write_markdown(table, out); break;
  case HR_FORMAT_HTML: hr_page_write_table(out, table, NULL); break;
  default: hr_table_write_aligned(table, out, options); break;
  }
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any texts as the cells of a report's table: CSV and Markdown, read back by other parsers (libcsv, md4c), have the
 * same cells, and nothing else. The first text is also a line of a Markdown page. */
#include "expect.h"
#include "fuzz.h"
#include "properties.h"
#include "texts.h"

#include "base/quantity.h"
#include "report/markdown.h"

#include <csv.h>
#include <md4c.h>
#include <stdlib.h>
#include <string.h>

/* What a table has to say: the cells as the table reads them. */
typedef struct expected {
  const hr_table *table;
  size_t row, column; /* of the next cell */
  char found[2 * HR_CELL_TEXT_SIZE];
  size_t length;
  int paragraphs;
} expected;

static char *written(const hr_table *table, hr_format format, size_t *length)
{
  char *text = NULL;
  hr_error error = {.status = HR_OK};
  hr_report_options options = hr_report_options_default();
  options.format = format;
  FILE *out = open_memstream(&text, length);
  EXPECT(out && hr_table_write(table, out, &options, &error) == HR_OK);
  fclose(out);
  return text;
}

/* ---- CSV ---- */

/* A text that a spreadsheet takes for a formula has an apostrophe before it. */
static void expect_csv_cell(void *data, size_t length, void *context)
{
  expected *e = context;
  const char *found = data;
  hr_cell cell;
  if (e->row > 0) { /* below the head */
    EXPECT(e->row <= hr_table_rows(e->table) && e->column < FUZZ_COLUMNS);
    hr_table_read(e->table, e->row - 1, e->column, &cell);
    if (cell.type == HR_CELL_TEXT) {
      bool formula = cell.text[0] && strchr("=+-@\t\r", cell.text[0]);
      EXPECT(!formula || (length > 0 && found[0] == '\''));
      EXPECT(length - formula == strlen(cell.text) && memcmp(found + formula, cell.text, length - formula) == 0);
    } else {
      EXPECT(cell.type == HR_CELL_COUNT ? length > 0 : length == 0);
    }
  }
  e->column++;
}

static void expect_csv_row(int end, void *context)
{
  (void)end;
  expected *e = context;
  EXPECT(e->column == FUZZ_COLUMNS);
  e->row++;
  e->column = 0;
}

/* RFC 4180: spaces are a part of a field. */
static int is_no_space(unsigned char byte)
{
  (void)byte;
  return 0;
}

static void expect_csv(const hr_table *table)
{
  struct csv_parser parser;
  expected e = {.table = table};
  size_t length = 0;
  char *text = written(table, HR_FORMAT_CSV, &length);
  EXPECT(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0);
  csv_set_space_func(&parser, is_no_space);
  EXPECT(csv_parse(&parser, text, length, expect_csv_cell, expect_csv_row, &e) == length);
  EXPECT(csv_fini(&parser, expect_csv_cell, expect_csv_row, &e) == 0);
  EXPECT(e.row == hr_table_rows(table) + 1);
  csv_free(&parser);
  free(text);
}

/* ---- Markdown ---- */

static int enter_block(MD_BLOCKTYPE type, void *detail, void *context)
{
  (void)detail;
  expected *e = context;
  EXPECT(type == MD_BLOCK_DOC || (type >= MD_BLOCK_TABLE && type <= MD_BLOCK_TD) || type == MD_BLOCK_P);
  e->length = 0;
  e->paragraphs += type == MD_BLOCK_P;
  EXPECT(!e->table || type != MD_BLOCK_P);
  return 0;
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *context)
{
  (void)detail;
  expected *e = context;
  hr_cell cell;
  char buffer[HR_NUMBER_SIZE];
  if (type == MD_BLOCK_TD) {
    EXPECT(e->row < hr_table_rows(e->table) && e->column < FUZZ_COLUMNS);
    const char *shown = hr_table_show(e->table, e->row, e->column, &cell, buffer, sizeof buffer);
    EXPECT(fuzz_is_trimmed(e->found, e->length, shown));
    e->column++;
  } else if (type == MD_BLOCK_TR && e->column > 0) {
    EXPECT(e->column == FUZZ_COLUMNS);
    e->row++;
    e->column = 0;
  }
  return 0;
}

static int enter_span(MD_SPANTYPE type, void *detail, void *context)
{
  (void)type;
  (void)detail;
  (void)context;
  EXPECT(false && "a link, an image, emphasis, code or a formula");
  return 1;
}

static int add_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE size, void *context)
{
  static const char empty_comment[] = "<!-- -->"; /* keeps "@name" and "#12" from being links */
  expected *e = context;
  if (type == MD_TEXT_HTML) {
    EXPECT(size == strlen(empty_comment) && memcmp(text, empty_comment, size) == 0);
    return 0;
  }
  EXPECT(type == MD_TEXT_NORMAL && e->length + size <= sizeof e->found);
  memcpy(e->found + e->length, text, size);
  e->length += size;
  return 0;
}

/* GitHub's extensions, and formulas; addresses may become links to themselves, so these are left out. */
static void parse_markdown(const char *text, size_t length, expected *e)
{
  static const MD_PARSER parser = {
      .flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_LATEXMATHSPANS | MD_FLAG_TASKLISTS,
      .enter_block = enter_block,
      .leave_block = leave_block,
      .enter_span = enter_span,
      .leave_span = enter_span,
      .text = add_text,
  };
  EXPECT(md_parse(text, (MD_SIZE)length, &parser, e) == 0);
}

static void expect_markdown(const hr_table *table)
{
  expected e = {.table = table};
  size_t length = 0;
  char *text = written(table, HR_FORMAT_MARKDOWN, &length);
  parse_markdown(text, length, &e);
  EXPECT(e.row == hr_table_rows(table));
  free(text);
}

/* A line between two others is a part of their paragraph, or one of its own. */
static void expect_line(const char *line)
{
  expected e = {.table = NULL};
  hr_cell cell = {.type = HR_CELL_NONE};
  char *text = NULL;
  size_t length = 0;
  hr_cell_set_text(&cell, line);
  if (cell.type != HR_CELL_TEXT || strspn(cell.text, " ") == strlen(cell.text) || cell.text[0] == ' ')
    return; /* lines begin with a word */
  FILE *out = open_memstream(&text, &length);
  EXPECT(out);
  hr_markdown_write_line(out, cell.text);
  fclose(out);
  parse_markdown(text, length, &e);
  EXPECT(e.paragraphs == 1);
  EXPECT(fuzz_is_trimmed(e.found, e.length, cell.text));
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static fuzz_texts texts;
  fuzz_read_texts(data, size, &texts);
  expect_csv(texts.table);
  expect_markdown(texts.table);
  hr_table_free(texts.table);
  expect_line(texts.texts[0]);
  return 0;
}

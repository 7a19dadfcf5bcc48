/* SPDX-License-Identifier: Apache-2.0 */
/* Rows from CSV. libcsv finds the fields; here are the limits, the line numbers and what a field means. */
#include "runtime/store/import.h"

#include "base/error.h"

#include <csv.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 256

typedef struct csv_reader {
  hr_import *import;
  hr_status status;
  struct csv_parser parser;
  const hr_field *columns[COLUMNS_MAX]; /* from the head */
  size_t column_count;                  /* 0 until the head has been read */
  char *text;                           /* the record's fields, each with a NUL; HR_RECORD_MAX bytes */
  size_t length;
  size_t starts[COLUMNS_MAX];
  size_t count;
} csv_reader;

static void take_field(void *bytes, size_t length, void *context)
{
  csv_reader *r = context;
  if (r->status != HR_OK)
    return;
  if (r->count == COLUMNS_MAX) {
    r->status = hr_import_fail(r->import, "has more than %d fields", COLUMNS_MAX);
  } else if (length >= HR_RECORD_MAX - r->length) {
    r->status = hr_import_fail(r->import, "the record has more than %zu bytes", HR_RECORD_MAX);
  } else {
    r->starts[r->count++] = r->length;
    memcpy(r->text + r->length, bytes, length);
    r->length += length;
    r->text[r->length++] = '\0';
  }
}

/* Which field each column of the head is. */
static hr_status read_head(csv_reader *r)
{
  for (size_t i = 0; i < r->count; i++) {
    const char *name = r->text + r->starts[i];
    r->columns[i] = hr_field_find(name);
    if (!r->columns[i])
      return hr_import_fail(r->import, "there is no column \"%.60s\"", name);
    for (size_t before = 0; before < i; before++) {
      if (r->columns[before] == r->columns[i])
        return hr_import_fail(r->import, "%s: is given twice", name);
    }
  }
  r->column_count = r->count;
  return HR_OK;
}

/* An empty field is a value that the row does not have. */
static hr_status read_row(csv_reader *r)
{
  hr_value values[HR_FIELDS] = {{.type = HR_VALUE_NONE}};
  if (r->count != r->column_count)
    return hr_import_fail(r->import, "has %zu fields, the head has %zu", r->count, r->column_count);
  for (size_t i = 0; i < r->count; i++) {
    const char *text = r->text + r->starts[i];
    if (text[0] != '\0')
      values[r->columns[i] - hr_fields] = (hr_value){.type = HR_VALUE_TEXT, .text = text};
  }
  return hr_import_row(r->import, values);
}

/* Called at the end of a record and, without fields, of an empty line. */
static void take_record(int line_end, void *context)
{
  (void)line_end;
  csv_reader *r = context;
  if (r->status == HR_OK && r->count > 0)
    r->status = r->column_count == 0 ? read_head(r) : read_row(r);
  r->length = r->count = 0;
  r->import->continues = false;
}

/* Inputs that are mistaken for CSV. */
static hr_status check_format(const hr_import *import, const char *line, size_t length)
{
  if (length >= 15 && memcmp(line, "SQLite format 3", 15) == 0)
    return hr_import_fail(import, "is a database; a store is merged rather than imported");
  if (length >= 2 && memcmp(line, "| ", 2) == 0)
    return hr_import_fail(import, "is a table in Markdown, which lacks columns; CSV and JSON Lines are imported");
  return HR_OK;
}

static hr_status why_not_parsed(csv_reader *r)
{
  if (csv_error(&r->parser) == CSV_ENOMEM)
    return hr_import_no_memory(r->import);
  return hr_import_fail(r->import, "field %zu: %s", r->count + 1,
                        r->parser.quoted ? "text after the closing quote" : "has a quote, but does not begin with one");
}

static hr_status take_line(hr_import *import, void *context, const char *line, size_t length)
{
  csv_reader *r = context;
  if (!import->continues && length > 0 && line[0] == '#') /* a comment; a quoted field may begin so */
    return HR_OK;
  if (r->column_count == 0 && !import->continues)
    HR_TRY(check_format(import, line, length));
  if (memchr(line, '\0', length))
    return hr_import_fail(import, "has a zero byte");
  import->continues = true; /* until take_record() */
  if (csv_parse(&r->parser, line, length, take_field, take_record, r) != length ||
      csv_parse(&r->parser, "\n", 1, take_field, take_record, r) != 1)
    return r->status != HR_OK ? r->status : why_not_parsed(r);
  if (r->status == HR_OK && csv_get_buffer_size(&r->parser) > 2 * HR_RECORD_MAX)
    return hr_import_fail(import, "the record has more than %zu bytes", HR_RECORD_MAX);
  return r->status;
}

static int is_carriage_return(unsigned char byte)
{
  return byte == '\r';
}

static int is_line_feed(unsigned char byte)
{
  return byte == '\n';
}

static hr_status read_all(csv_reader *r)
{
  HR_TRY(hr_import_lines(r->import, take_line, r));
  if (r->import->continues)
    return hr_import_fail(r->import, "a quoted field has no end");
  return r->column_count > 0 ? HR_OK : hr_import_fail(r->import, "the head is missing");
}

hr_status hr_import_csv(hr_import *import)
{
  csv_reader r = {.import = import, .text = malloc(HR_RECORD_MAX)};
  if (!r.text || csv_init(&r.parser, CSV_STRICT | CSV_REPALL_NL) != 0) {
    free(r.text);
    return hr_import_no_memory(import);
  }
  csv_set_space_func(&r.parser, is_carriage_return); /* drops the CR of a CRLF, keeps spaces */
  csv_set_term_func(&r.parser, is_line_feed);
  csv_set_blk_size(&r.parser, 4096);
  hr_status status = read_all(&r);
  csv_free(&r.parser);
  free(r.text);
  return status;
}

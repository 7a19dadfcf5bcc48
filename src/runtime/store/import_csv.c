#include "runtime/store/import.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 256

/* A record: its fields one after the other, each with its end, in one buffer. */
typedef struct record {
  char *text;
  size_t length, capacity;
  size_t starts[COLUMNS_MAX];
  size_t count;
  int64_t lines; /* that it takes in the input */
} record;

static hr_status add(const hr_import *import, record *r, char byte)
{
  if (r->length == r->capacity) {
    size_t capacity = r->capacity ? 2 * r->capacity : 4096;
    if (capacity > HR_RECORD_MAX)
      return hr_import_fail(import, "the record has more than %zu bytes", HR_RECORD_MAX);
    char *text = realloc(r->text, capacity);
    if (!text)
      return hr_fail(import->error, HR_ERROR_OUT_OF_MEMORY, "%s: memory ran out while reading", import->name);
    r->text = text;
    r->capacity = capacity;
  }
  r->text[r->length++] = byte;
  return HR_OK;
}

/* The rest of a quoted field; its first quote has been read. *next is the byte behind the last one. */
static hr_status read_quoted(const hr_import *import, record *r, int *next)
{
  for (;;) {
    int byte = getc(import->in);
    if (byte == EOF)
      return hr_import_fail(import, "a quoted field has no end");
    if (byte == '"' && (*next = getc(import->in)) != '"')
      return HR_OK;
    if (byte == '\0')
      return hr_import_fail(import, "has a zero byte");
    r->lines += byte == '\n';
    HR_TRY(add(import, r, (char)byte));
  }
}

/* A field up to its comma, line end or the end of the input, which is left in *next. */
static hr_status read_field(const hr_import *import, record *r, int *next)
{
  if (r->count == COLUMNS_MAX)
    return hr_import_fail(import, "has more than %d fields", COLUMNS_MAX);
  r->starts[r->count++] = r->length;
  int byte = getc(import->in);
  bool quoted = byte == '"';
  if (quoted) {
    HR_TRY(read_quoted(import, r, &byte));
    if (byte == '\r')
      byte = getc(import->in);
    if (byte != ',' && byte != '\n' && byte != EOF)
      return hr_import_fail(import, "field %zu: text behind the closing quote", r->count);
  }
  for (; byte != ',' && byte != '\n' && byte != EOF; byte = getc(import->in)) {
    if (byte == '"' || byte == '\0')
      return hr_import_fail(import, "field %zu: has a %s", r->count,
                            byte ? "quote, but does not begin with one" : "zero byte");
    HR_TRY(add(import, r, (char)byte));
  }
  if (!quoted && byte != ',' && r->length > r->starts[r->count - 1] && r->text[r->length - 1] == '\r')
    r->length--; /* lines that end as on Windows */
  *next = byte;
  return add(import, r, '\0');
}

static hr_status read_record(const hr_import *import, record *r, bool *end)
{
  int next = getc(import->in);
  *end = next == EOF;
  if (*end)
    return HR_OK;
  ungetc(next, import->in);
  r->length = r->count = 0;
  r->lines = 1;
  do
    HR_TRY(read_field(import, r, &next));
  while (next == ',');
  return HR_OK;
}

static bool begins_with(const record *r, const char *what)
{
  return r->length >= strlen(what) && memcmp(r->text, what, strlen(what)) == 0;
}

/* Other forms of rows, which are easily taken for this one. */
static hr_status check_form(const hr_import *import, const record *r, hr_status status)
{
  if (begins_with(r, "SQLite format 3"))
    return hr_import_fail(import, "is a database; a store is merged rather than imported");
  if (begins_with(r, "| "))
    return hr_import_fail(import, "is a table in Markdown, which lacks columns; CSV and JSON Lines are imported");
  return status;
}

/* Which field each column of the head is. */
static hr_status read_head(const hr_import *import, const record *r, const hr_field **columns)
{
  for (size_t i = 0; i < r->count; i++) {
    const char *name = r->text + r->starts[i];
    columns[i] = hr_field_find(name);
    if (!columns[i])
      return hr_import_fail(import, "there is no column \"%.60s\"", name);
    for (size_t before = 0; before < i; before++) {
      if (columns[before] == columns[i])
        return hr_import_fail(import, "%s: is given twice", name);
    }
  }
  return HR_OK;
}

static hr_status take_record(hr_import *import, const record *r, const hr_field *const *columns, size_t count)
{
  hr_value values[HR_FIELDS] = {{.type = HR_VALUE_NONE}};
  if (r->count != count)
    return hr_import_fail(import, "has %zu fields, the head has %zu", r->count, count);
  for (size_t i = 0; i < count; i++) {
    const char *text = r->text + r->starts[i];
    size_t field = (size_t)(columns[i] - hr_fields);
    /* Empty is nothing, and a text that is nothing is empty. A record that was read has a text. */
    if (text[0] != '\0') /* NOLINT(clang-analyzer-core.NullDereference) */
      values[field] = (hr_value){.type = HR_VALUE_TEXT, .text = text};
  }
  return hr_import_row(import, values);
}

static hr_status read_records(hr_import *import, record *r)
{
  const hr_field *columns[COLUMNS_MAX];
  bool end;
  HR_TRY(check_form(import, r, read_record(import, r, &end)));
  if (end)
    return hr_import_fail(import, "the head is missing");
  HR_TRY(read_head(import, r, columns));
  size_t count = r->count;
  for (;;) {
    import->line += r->lines;
    HR_TRY(read_record(import, r, &end));
    if (end)
      return HR_OK;
    if (r->count == 1 && r->text && r->text[0] == '\0')
      continue; /* an empty line */
    HR_TRY(take_record(import, r, columns, count));
  }
}

hr_status hr_import_csv(hr_import *import)
{
  record r = {.text = NULL};
  hr_status status = read_records(import, &r);
  free(r.text);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "csv/csv.h"

#include "base/error.h"
#include "base/text.h"

#include <csv.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct csv_reader {
  hr_csv_record record;
  hr_csv_record_fn take;
  void *context;
  char *head, *text; /* fields of the head and of the record, each with a NUL; as long as the input */
  size_t used, found;
  const char *heads[HR_CSV_COLUMNS_MAX], *fields[HR_CSV_COLUMNS_MAX];
  bool headed;
  hr_status status;
} csv_reader;

static void take_field(void *bytes, size_t length, void *context)
{
  csv_reader *r = context;
  if (r->status == HR_OK && r->found == HR_CSV_COLUMNS_MAX)
    r->status = hr_fail(r->record.error, HR_ERROR_INVALID, "%s: line %" PRId64 ": more than %d fields", r->record.name,
                        r->record.line, HR_CSV_COLUMNS_MAX);
  if (r->status != HR_OK)
    return;
  char *to = (r->headed ? r->text : r->head) + r->used;
  memcpy(to, bytes, length);
  to[length] = '\0';
  (r->headed ? r->fields : r->heads)[r->found++] = to;
  r->used += length + 1;
}

static hr_status end_head(csv_reader *r)
{
  for (size_t i = 0; i < r->found; i++) {
    for (size_t before = 0; before < i; before++) {
      if (strcmp(r->heads[i], r->heads[before]) == 0)
        return hr_fail(r->record.error, HR_ERROR_INVALID, "%s: line %" PRId64 ": column %.40s is given twice",
                       r->record.name, r->record.line, r->heads[i]);
    }
  }
  r->record.count = r->found;
  r->headed = true;
  return HR_OK;
}

static void take_record(int line_end, void *context)
{
  (void)line_end;
  csv_reader *r = context;
  if (r->status == HR_OK && r->found > 0) {
    if (!r->headed)
      r->status = end_head(r);
    else if (r->found != r->record.count)
      r->status = hr_fail(r->record.error, HR_ERROR_INVALID,
                          "%s: line %" PRId64 ": expected %zu fields as in the head, found %zu", r->record.name,
                          r->record.line, r->record.count, r->found);
    else
      r->status = r->take(r->context, &r->record);
  }
  r->found = r->used = 0;
}

/* Line by line, so that records have line numbers and comments can be left out; a quoted field may go over lines. */
static void parse_lines(csv_reader *r, struct csv_parser *parser, const char *text, size_t length)
{
  int64_t line = 1;
  bool parsed = true;
  for (const char *at = text, *end = text + length; at < end && parsed && r->status == HR_OK; line++) {
    const char *behind = memchr(at, '\n', (size_t)(end - at));
    size_t size = behind ? (size_t)(behind - at) + 1 : (size_t)(end - at);
    bool begins = r->found == 0 && r->used == 0;
    if (begins)
      r->record.line = line;
    if (!(begins && *at == '#'))
      parsed = csv_parse(parser, at, size, take_field, take_record, r) == size;
    at += size;
  }
  parsed = parsed && csv_fini(parser, take_field, take_record, r) == 0;
  if (!parsed && r->status == HR_OK) /* without CSV_STRICT all text is right */
    r->status = hr_fail(r->record.error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", r->record.name);
}

hr_status hr_csv_read(const char *text, size_t length, const char *name, hr_csv_record_fn take, void *context,
                      hr_error *error)
{
  struct csv_parser parser;
  csv_reader r = {.record = {.name = name, .error = error}, .take = take, .context = context};
  size_t start = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* a byte order mark */
  r.record.heads = r.heads, r.record.fields = r.fields;
  r.head = malloc(2 * length + 2);
  r.text = malloc(2 * length + 2);
  r.status = r.head && r.text ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", name);
  if (r.status == HR_OK && csv_init(&parser, CSV_APPEND_NULL) != 0)
    r.status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory", name);
  if (r.status == HR_OK) {
    parse_lines(&r, &parser, text + start, length - start);
    csv_free(&parser);
  }
  if (r.status == HR_OK && !r.headed)
    r.status = hr_fail(error, HR_ERROR_UNREADABLE, "%s: has no line that names columns", name);
  free(r.head);
  free(r.text);
  return r.status;
}

const char *hr_csv_field(const hr_csv_record *record, const char *column)
{
  for (size_t i = 0; i < record->count; i++) {
    if (strcmp(record->heads[i], column) == 0)
      return record->fields[i][0] ? record->fields[i] : NULL;
  }
  return NULL;
}

hr_status hr_csv_fail(const hr_csv_record *record, const char *column, const char *expected)
{
  const char *found = hr_csv_field(record, column);
  if (!found)
    return hr_fail(record->error, HR_ERROR_INVALID, "%s: line %" PRId64 ": %s: is missing", record->name, record->line,
                   column);
  return hr_fail(record->error, HR_ERROR_INVALID, "%s: line %" PRId64 ": %s: expected %s, found \"%.40s\"",
                 record->name, record->line, column, expected, found);
}

hr_status hr_csv_integer(const hr_csv_record *record, const char *column, int64_t least, int64_t fallback,
                         int64_t *value)
{
  const char *text = hr_csv_field(record, column);
  char *end, expected[64];
  if (!text && fallback >= least) {
    *value = fallback;
    return HR_OK;
  }
  errno = 0;
  long long number = text ? strtoll(text, &end, 10) : 0;
  snprintf(expected, sizeof expected, "an integer from %" PRId64 " on", least);
  if (!text || end == text || *end || errno || number < least)
    return hr_csv_fail(record, column, expected);
  *value = number;
  return HR_OK;
}

hr_status hr_csv_positive(const hr_csv_record *record, const char *column, double *value)
{
  const char *text = hr_csv_field(record, column);
  char *end;
  double number = text ? hr_read_number(text, &end) : 0;
  if (!text || end == text || *end || !isfinite(number) || !(number > 0))
    return hr_csv_fail(record, column, "a number above 0");
  *value = number;
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the CSV files of published points that are built into the library. */
#include "plot/published.h"

#include "base/error.h"
#include "base/text.h"
#include "catalog/embedded.h"

#include <csv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_SIZE 160

typedef struct reading {
  char names[HR_PUBLISHED_COLUMNS_MAX][FIELD_SIZE], values[HR_PUBLISHED_COLUMNS_MAX][FIELD_SIZE];
  size_t columns, at; /* columns 0: the head has not been read */
  hr_published_fn each;
  void *context;
} reading;

static void take_field(void *text, size_t length, void *context)
{
  reading *r = context;
  if (r->at < HR_PUBLISHED_COLUMNS_MAX) {
    char *to = r->columns > 0 ? r->values[r->at] : r->names[r->at];
    size_t fits = length < FIELD_SIZE ? length : FIELD_SIZE - 1;
    memcpy(to, text, fits);
    to[fits] = '\0';
  }
  r->at++;
}

static void take_line(int character, void *context)
{
  (void)character;
  reading *r = context;
  const char *names[HR_PUBLISHED_COLUMNS_MAX], *values[HR_PUBLISHED_COLUMNS_MAX];
  size_t count = r->at < HR_PUBLISHED_COLUMNS_MAX ? r->at : HR_PUBLISHED_COLUMNS_MAX;
  r->at = 0;
  if (r->columns == 0) {
    r->columns = count;
    return;
  }
  for (size_t i = 0; i < r->columns; i++) {
    names[i] = r->names[i];
    values[i] = i < count ? r->values[i] : "";
  }
  const hr_published_row row = {names, values, r->columns};
  r->each(r->context, &row);
}

/* The files have comments at their beginning only. */
static const char *behind_comments(const char *text)
{
  while (*text == '#') {
    const char *end = strchr(text, '\n');
    text = end ? end + 1 : text + strlen(text);
  }
  return text;
}

hr_status hr_published_read(const char *file, hr_published_fn each, void *context, hr_error *error)
{
  size_t count;
  char name[FIELD_SIZE];
  const hr_catalog_entry *entries = hr_catalog_published(&count), *entry = hr_find_entry(entries, count, file);
  if (!entry)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "there are no published points \"%s\"", file);
  hr_write_text(name, sizeof name, "%s.csv", file);
  return hr_published_parse(entry->text, name, each, context, error);
}

hr_status hr_published_parse(const char *text, const char *name, hr_published_fn each, void *context, hr_error *error)
{
  struct csv_parser parser;
  reading *r = calloc(1, sizeof *r);
  if (!r || csv_init(&parser, CSV_STRICT) != 0) {
    free(r);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the points of %s", name);
  }
  r->each = each;
  r->context = context;
  text = behind_comments(text);
  size_t length = strlen(text);
  bool good = csv_parse(&parser, text, length, take_field, take_line, r) == length &&
              csv_fini(&parser, take_field, take_line, r) == 0;
  bool memory = csv_error(&parser) == CSV_ENOMEM;
  csv_free(&parser);
  free(r);
  if (!good)
    return memory ? hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the points of %s", name)
                  : hr_fail(error, HR_ERROR_UNREADABLE, "%s: is no CSV", name);
  return HR_OK;
}

const char *hr_published_text(const hr_published_row *row, const char *column)
{
  for (size_t i = 0; i < row->count; i++) {
    if (strcmp(row->names[i], column) == 0)
      return row->values[i];
  }
  return "";
}

double hr_published_number(const hr_published_row *row, const char *column)
{
  const char *text = hr_published_text(row, column);
  char *rest;
  double number = hr_read_number(text, &rest);
  return text[0] && *rest == '\0' ? number : (double)NAN;
}

const char *hr_published_accuracy(const hr_published_row *row, bool *read_off)
{
  const char *accuracy = hr_published_text(row, "accuracy");
  bool exact = strcmp(accuracy, "exact") == 0;
  if (read_off)
    *read_off = !exact;
  return exact ? "published" : strcmp(accuracy, "doubtful") == 0 ? "read off, doubtful" : "read off";
}

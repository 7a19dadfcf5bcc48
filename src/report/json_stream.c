/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json_stream.h"

#include "base/error.h"

#define FORM (JSON_INDENT(2) | JSON_REAL_PRECISION(17)) /* as hr_json_write() */
#define END "]\n}"                                      /* of a document that ends with an empty list */

/* Writes all but the end. */
typedef struct beginning {
  FILE *out;
  char held[sizeof END - 1];
  size_t count;
} beginning;

static int write_beginning(const char *text, size_t size, void *context)
{
  beginning *b = context;
  for (size_t i = 0; i < size; i++) {
    char *oldest = &b->held[b->count++ % sizeof b->held];
    if (b->count > sizeof b->held)
      fputc(*oldest, b->out);
    *oldest = text[i];
  }
  return 0;
}

static int write_indented(const char *text, size_t size, void *out)
{
  for (size_t i = 0; i < size; i++) {
    fputc(text[i], out);
    if (text[i] == '\n') /* no text has one: JSON escapes it */
      fputs("    ", out);
  }
  return 0;
}

static hr_status written_or_failed(bool written, hr_error *error)
{
  return written ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory while writing the report");
}

hr_status hr_json_stream_begin(FILE *out, hr_json document, const char *key, hr_error *error)
{
  beginning b = {.out = out};
  hr_json_put(document, key, json_array());
  bool written = !*document.failed && json_dump_callback(document.object, write_beginning, &b, FORM) == 0;
  json_decref(document.object);
  return written_or_failed(written, error);
}

hr_status hr_json_stream_item(FILE *out, bool first, json_t *item, hr_error *error)
{
  fputs(first ? "\n    " : ",\n    ", out);
  bool written = item && json_dump_callback(item, write_indented, out, FORM) == 0;
  json_decref(item);
  return written_or_failed(written, error);
}

void hr_json_stream_end(FILE *out, bool empty)
{
  fputs(empty ? END "\n" : "\n  " END "\n", out);
}

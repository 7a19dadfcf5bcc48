/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/import_row.h"

#include "base/error.h"
#include "base/text.h"
#include "runtime/store/append.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

hr_status hr_import_fail(const hr_import *import, const char *format, ...)
{
  char message[320];
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(message, sizeof message, format, arguments);
  va_end(arguments);
  return hr_fail(import->error, HR_ERROR_UNREADABLE, "%s: line %" PRId64 ": %s", import->name, import->line, message);
}

hr_status hr_import_no_memory(const hr_import *import)
{
  return hr_fail(import->error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", import->name);
}

hr_status hr_import_stopped(const hr_import *import)
{
  return hr_fail(import->error, HR_ERROR_INTERRUPTED, "%s: stopped by the caller", import->name);
}

int hr_import_byte(const hr_import *import)
{
  for (;;) {
    int byte = getc(import->in);
    if (byte != EOF || !ferror(import->in) || errno != EINTR || hr_store_is_cancelled(import->store))
      return byte;
    clearerr(import->in); /* a signal of the program's own: nothing was read */
  }
}

/* Returns false at the end of the input. *length is HR_RECORD_MAX + 1 if the line is longer than HR_RECORD_MAX. */
static bool read_line(const hr_import *import, char *line, size_t *length)
{
  int byte;
  *length = 0;
  while ((byte = hr_import_byte(import)) != EOF && byte != '\n') {
    line[(*length)++] = (char)byte;
    if (*length > HR_RECORD_MAX)
      return true;
  }
  return byte != EOF || *length > 0;
}

hr_status hr_import_lines(hr_import *import, hr_import_line_fn take, void *context)
{
  size_t length;
  char *line = malloc(HR_RECORD_MAX + 1);
  hr_status status = line ? HR_OK : hr_import_no_memory(import);
  for (int64_t number = 1; status == HR_OK && read_line(import, line, &length); number++) {
    if (!import->continues)
      import->line = number;
    if (hr_store_is_cancelled(import->store))
      status = hr_import_stopped(import);
    else
      status = length > HR_RECORD_MAX ? hr_import_fail(import, "has more than %zu bytes", HR_RECORD_MAX)
                                      : take(import, context, line, length);
  }
  free(line);
  return status;
}

static bool is_size(int field)
{
  return (field >= HR_FIELD_operation && field <= HR_FIELD_v_dim) ||
         (field >= HR_FIELD_page_size && field <= HR_FIELD_table_pitch);
}

/* A row needs its problem and its status: a default would be a measurement of another problem. */
static hr_status check_complete(const hr_import *import, const hr_value values[HR_FIELDS], const hr_result *row)
{
  for (int i = 0; i < HR_FIELDS; i++) {
    bool optional = !is_size(i) || (i == HR_FIELD_problem && row->kind != HR_RESULT_OTHER);
    if (hr_fields[i].of[row->kind] && !optional && values[i].type == HR_VALUE_NONE)
      return hr_import_fail(import, "%s: is missing", hr_fields[i].name);
  }
  if (values[HR_FIELD_status].type == HR_VALUE_NONE)
    return hr_import_fail(import, "status: is missing");
  hr_error error = {.status = HR_OK};
  if (row->id[0] && hr_result_check(row, &error) != HR_OK)
    return hr_import_fail(import, "%s", error.message);
  return HR_OK;
}

hr_status hr_import_row(hr_import *import, const hr_value values[HR_FIELDS])
{
  hr_result row;
  char why[160];
  size_t wrong = hr_result_from_values(values, &row, why, sizeof why);
  if (wrong < HR_FIELDS)
    return hr_import_fail(import, "%s: %s", hr_fields[wrong].name, why);
  HR_TRY(check_complete(import, values, &row));
  if (!row.id[0]) { /* stamp it, but keep the input's date, host and program */
    hr_result stamped = row;
    HR_TRY(hr_result_stamp(&stamped, import->error));
    memcpy(row.id, stamped.id, sizeof row.id);
    if (!row.date[0])
      memcpy(row.date, stamped.date, sizeof row.date);
    HR_TRY(check_complete(import, values, &row));
  }
  return hr_store_insert(import->store, &row, &import->change, import->error);
}

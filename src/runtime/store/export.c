/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/store/database.h"
#include "runtime/store/format.h"

#include <errno.h>

typedef struct exporting {
  FILE *out;
  int reason; /* errno of the write that failed */
  bool no_memory;
} exporting;

static int note_failure(exporting *e)
{
  if (ferror(e->out) && e->reason == 0)
    e->reason = errno ? errno : EIO;
  return e->reason != 0 || e->no_memory;
}

static int write_csv(void *context, const hr_result *result)
{
  exporting *e = context;
  hr_csv_write_row(e->out, result);
  return note_failure(e);
}

static int write_json_line(void *context, const hr_result *result)
{
  exporting *e = context;
  json_t *object = hr_result_json(result);
  bool written = object && json_dumpf(object, e->out, JSON_COMPACT) == 0 && fputc('\n', e->out) != EOF;
  int stopped = note_failure(e);
  e->no_memory = !written && !stopped;
  json_decref(object);
  return !written;
}

static hr_status export_all(hr_store *store, const hr_result_filter *filter, hr_store_format format, exporting *e,
                            hr_error *error)
{
  bool csv = format == HR_STORE_CSV;
  if (csv)
    hr_csv_write_head(e->out);
  hr_status status = hr_store_query(store, filter, csv ? write_csv : write_json_line, e, error);
  char text[HR_REASON_SIZE];
  if (e->no_memory)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory while writing");
  errno = 0;
  fflush(e->out);
  note_failure(e);
  if (e->reason != 0)
    return hr_fail(error, HR_ERROR_OUTPUT, "%s", hr_reason(e->reason, text));
  return status;
}

hr_status hr_store_export(hr_store *store, const hr_result_filter *filter, hr_store_format format, FILE *out,
                          hr_error *error)
{
  HR_NEED(error, store, out);
  HR_TAKE(hr_result_filter, filter, error);
  exporting e = {.out = out};
  return export_all(store, filter, format, &e, error);
}

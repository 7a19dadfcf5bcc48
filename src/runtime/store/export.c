/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "runtime/store/c_locale.h"
#include "runtime/store/database.h"
#include "runtime/store/format.h"

#include <errno.h>

static int write_csv(void *context, const hr_result *result)
{
  FILE *out = context;
  hr_csv_write_row(out, result);
  return ferror(out);
}

static int write_json_line(void *context, const hr_result *result)
{
  FILE *out = context;
  json_t *object = hr_result_json(result);
  int failed = !object || json_dumpf(object, out, JSON_COMPACT) != 0;
  json_decref(object);
  fputc('\n', out);
  return failed || ferror(out);
}

hr_status hr_store_export(hr_store *store, const hr_result_filter *filter, hr_store_format format, FILE *out,
                          hr_error *error)
{
  HR_NEED(error, store, out);
  hr_c_locale locale = {0};
  HR_TRY(hr_c_locale_begin(&locale, error));
  bool csv = format == HR_STORE_CSV;
  if (csv)
    hr_csv_write_head(out);
  errno = 0;
  hr_status status = hr_store_query(store, filter, csv ? write_csv : write_json_line, out, error);
  int flushed = fflush(out), reason = errno;
  char text[HR_REASON_SIZE];
  hr_c_locale_end(&locale);
  if (status == HR_ERROR_INTERRUPTED && !ferror(out))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "memory ran out while writing");
  if (status == HR_ERROR_INTERRUPTED || (status == HR_OK && (flushed != 0 || ferror(out))))
    return hr_fail(error, HR_ERROR_OUTPUT, "%s", reason ? hr_reason(reason, text) : "the output cannot be written");
  return status;
}

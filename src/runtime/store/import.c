/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/import.h"

#include "base/error.h"
#include "runtime/store/open.h"

#include <errno.h>

/* Skips a byte order mark, which spreadsheets write. */
static int first_byte(const hr_import *import)
{
  int byte = hr_import_byte(import);
  if (byte == 0xEF && (byte = hr_import_byte(import)) == 0xBB && (byte = hr_import_byte(import)) == 0xBF)
    byte = hr_import_byte(import);
  return byte;
}

static hr_status read_any(hr_import *import)
{
  int first = first_byte(import);
  if (first == EOF)
    return hr_fail(import->error, HR_ERROR_UNREADABLE, "%s: is empty", import->name);
  ungetc(first, import->in);
  return first == '{' ? hr_import_json_lines(import) : hr_import_csv(import);
}

static hr_status check_stream(const hr_import *import, hr_status status)
{
  char reason[HR_REASON_SIZE];
  if (!ferror(import->in) || status == HR_ERROR_INTERRUPTED)
    return status;
  if (hr_store_is_cancelled(import->store))
    return hr_import_stopped(import);
  return hr_fail(import->error, HR_ERROR_UNREADABLE, "%s: %s", import->name, hr_reason(errno ? errno : EIO, reason));
}

hr_status hr_store_import(hr_store *store, FILE *in, const char *name, hr_store_change *change, hr_error *error)
{
  HR_NEED(error, store, in, name);
  hr_import import = {.store = store, .in = in, .name = name, .line = 1, .error = error};
  hr_status status = hr_store_begin(store, error);
  if (status == HR_OK) {
    errno = 0;
    status = check_stream(&import, read_any(&import));
    status = hr_store_transaction_end(store, status, error);
  }
  if (status == HR_OK && change)
    *change = import.change;
  return status;
}

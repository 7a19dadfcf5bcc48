/* SPDX-License-Identifier: Apache-2.0 */
/* Copying the rows of one store into another. */
#include "base/error.h"
#include "runtime/store/append.h"
#include "runtime/store/open.h"

#include <sys/stat.h>

typedef struct merging {
  hr_store *into, *from;
  hr_store_change change;
  hr_status status;
  hr_error *error;
} merging;

static int take(void *context, const hr_result *result)
{
  merging *m = context;
  hr_result row = *result;
  hr_error reason = {.status = HR_OK};
  m->status = hr_store_insert(m->into, &row, &m->change, &reason);
  if (m->status == HR_ERROR_INVALID)
    hr_fail(m->error, m->status, "%s: row %s: %s", m->from->path, row.id, reason.message);
  else if (m->status != HR_OK)
    hr_fail(m->error, m->status, "%s", reason.message);
  return m->status != HR_OK;
}

static bool is_one_file(const char *a, const char *b)
{
  struct stat first, second;
  return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

hr_status hr_store_copy(hr_store *store, hr_store *from, hr_store_change *change, hr_error *error)
{
  HR_NEED(error, store, from);
  merging m = {.into = store, .from = from, .status = HR_OK, .error = error};
  hr_status status = hr_store_begin(store, error);
  if (status == HR_OK) {
    hr_error reading = {.status = HR_OK};
    status = hr_store_query(from, NULL, take, &m, &reading);
    if (m.status != HR_OK)
      status = m.status;
    else if (status != HR_OK)
      hr_fail(error, status, "%s", reading.message);
    status = hr_store_transaction_end(store, status, error);
  }
  if (status == HR_OK && change)
    *change = m.change;
  return status;
}

hr_status hr_store_merge(hr_store *store, const char *from, hr_store_change *change, hr_error *error)
{
  HR_NEED(error, store, from);
  if (is_one_file(store->path, from))
    return hr_fail(error, HR_ERROR_INVALID, "%s: is the store to merge into", from);
  hr_store *other;
  hr_store_options options = hr_store_options_default();
  options.cancelled = store->cancelled;
  options.context = store->context;
  HR_TRY(hr_store_open_with(from, HR_STORE_READ, &options, &other, error));
  hr_status status = hr_store_copy(store, other, change, error);
  hr_store_close(other);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as results to import: a clear error and no rows, or rows that an export returns unchanged. */
#include "fuzz.h"
#include "properties.h"

#include "expect.h"

#include <unistd.h>

/* One store for all inputs, on a memory file system if there is one. */
static hr_store *open_once(void)
{
  static hr_store *store;
  char path[64];
  hr_error error = {.status = HR_OK};
  if (store)
    return store;
  snprintf(path, sizeof path, "%s/headroom-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  int file = mkstemp(path);
  EXPECT(file >= 0 && close(file) == 0);
  EXPECT(hr_store_open(path, HR_STORE_WRITE, &store, &error) == HR_OK);
  EXPECT(unlink(path) == 0); /* it lives on while it is open */
  return store;
}

static int64_t count_rows(hr_store *store)
{
  int64_t count = -1;
  hr_error error = {.status = HR_OK};
  EXPECT(hr_store_count(store, NULL, &count, &error) == HR_OK);
  return count;
}

static void expect_round_trip(hr_store *store, hr_store_format format, int64_t count)
{
  char *text = NULL;
  size_t length = 0;
  hr_error error = {.status = HR_OK};
  hr_store_change change = {0, 0};
  FILE *out = open_memstream(&text, &length);
  EXPECT(out && hr_store_export(store, NULL, format, out, &error) == HR_OK);
  fclose(out);
  FILE *in = length > 0 ? fmemopen(text, length, "rb") : NULL;
  if (in) {
    EXPECT(hr_store_import(store, in, "export", &change, &error) == HR_OK);
    EXPECT(change.added == 0 && change.present == count);
    fclose(in);
  }
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  hr_store *store = open_once();
  hr_store_change change = {-1, -1};
  hr_error error = {.status = HR_OK};
  FILE *in = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;
  if (!in)
    return 0;
  hr_status status = hr_store_import(store, in, "rows", &change, &error);
  fclose(in);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    EXPECT(change.added == -1 && count_rows(store) == 0);
    return 0;
  }
  EXPECT(count_rows(store) == change.added);
  expect_round_trip(store, HR_STORE_CSV, change.added);
  expect_round_trip(store, HR_STORE_JSON_LINES, change.added);
  EXPECT(hr_store_delete(store, NULL, NULL, &error) == HR_OK);
  return 0;
}

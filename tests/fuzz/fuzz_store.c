/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the file of a store: refused with a clear error and not changed, or rows that are counted, read,
 * exported, merged, added to and deleted, each with success or a clear error. */
#include "expect.h"
#include "fuzz.h"
#include "properties.h"

#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX 65536

static char path[64];

static void remove_files(void)
{
  char journal[80];
  snprintf(journal, sizeof journal, "%s-journal", path);
  unlink(path);
  unlink(journal);
}

static void write_file(const uint8_t *data, size_t size)
{
  if (!path[0]) {
    snprintf(path, sizeof path, "%s/headroom-fuzz-%ld.db", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (long)getpid());
    atexit(remove_files);
  }
  remove_files();
  FILE *out = fopen(path, "wb");
  EXPECT(out && (size == 0 || fwrite(data, 1, size, out) == size) && fclose(out) == 0);
}

static void expect_unchanged(const uint8_t *data, size_t size)
{
  static uint8_t found[FILE_MAX + 1];
  FILE *in = fopen(path, "rb");
  EXPECT(in && fread(found, 1, sizeof found, in) == size && memcmp(found, data, size) == 0);
  fclose(in);
}

static void expect_done(hr_status status, const hr_error *error)
{
  if (status != HR_OK)
    expect_clear_failure(status, error);
}

static int count_row(void *context, const hr_result *result)
{
  int64_t *count = context;
  expect_printable(hr_status_name(result->measurement.status));
  EXPECT(memchr(result->problem, '\0', sizeof result->problem) && memchr(result->id, '\0', sizeof result->id));
  ++*count;
  return 0;
}

static void read_all(hr_store *store)
{
  int64_t counted = -1, read = 0;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_store_count(store, NULL, &counted, &error);
  expect_done(status, &error);
  hr_status reading = hr_store_query(store, NULL, count_row, &read, &error);
  expect_done(reading, &error);
  EXPECT(status != HR_OK || reading != HR_OK || read <= counted);
  for (int format = HR_STORE_CSV; format <= HR_STORE_JSON_LINES; format++) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    EXPECT(out);
    expect_done(hr_store_export(store, NULL, (hr_store_format)format, out, &error), &error);
    fclose(out);
    free(text);
  }
}

/* Whether SQLite finds the file whole. In a damaged one an index may lack a row that the table has. */
static bool is_whole(void)
{
  sqlite3 *database = NULL;
  sqlite3_stmt *statement = NULL;
  bool whole = sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
               sqlite3_prepare_v2(database, "PRAGMA integrity_check(1)", -1, &statement, NULL) == SQLITE_OK &&
               sqlite3_step(statement) == SQLITE_ROW &&
               strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return whole;
}

static void change(hr_store *store, bool whole)
{
  hr_error error = {.status = HR_OK};
  hr_result row = hr_result_default();
  hr_gemm gemm = hr_gemm_default();
  hr_store *scratch = NULL;
  bool found = false;
  hr_result_set_gemm(&row, &gemm);
  hr_status appended = hr_store_append(store, &row, &error);
  expect_done(appended, &error);
  if (appended == HR_OK && hr_store_has(store, &row, &found, &error) == HR_OK)
    EXPECT(found || !whole);
  EXPECT(hr_store_open("scratch", HR_STORE_SCRATCH, &scratch, &error) == HR_OK);
  expect_done(hr_store_copy(scratch, store, NULL, &error), &error);
  expect_done(hr_store_copy(store, scratch, NULL, &error), &error);
  expect_done(hr_store_delete(store, NULL, NULL, &error), &error);
  hr_store_close(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  if (size > FILE_MAX)
    return 0;
  write_file(data, size);
  hr_status status = hr_store_open(path, HR_STORE_READ, &store, &error);
  expect_done(status, &error);
  if (status == HR_OK)
    read_all(store);
  hr_store_close(store);
  store = NULL;
  expect_unchanged(data, size);
  bool whole = is_whole();
  status = hr_store_open(path, HR_STORE_WRITE, &store, &error);
  expect_done(status, &error);
  if (status == HR_OK)
    change(store, whole);
  else if (status == HR_ERROR_UNSUPPORTED) /* a newer one */
    expect_unchanged(data, size);
  hr_store_close(store);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the journal beside a store, which SQLite may roll back: refused with a clear error, or rows. No other
 * file is changed or removed, also where the journal names one, and the store can be written, or that fails with a
 * clear error. An odd first byte: the end that names a file follows the other bytes. */
#include "expect.h"
#include "fuzz.h"
#include "properties.h"

#include <string.h>
#include <unistd.h>

#define STORE_MAX 65536

static const char kept[] = "of others";
static char folder[] = "/tmp/headroom-fuzz-XXXXXX", store_path[64], journal_path[64], kept_path[64];
static uint8_t store_bytes[STORE_MAX];
static size_t store_size;

static void write_file(const char *path, const void *data, size_t size)
{
  FILE *out = fopen(path, "wb");
  EXPECT(out && (size == 0 || fwrite(data, 1, size, out) == size) && fclose(out) == 0);
}

static void remove_files(void)
{
  unlink(store_path);
  unlink(journal_path);
  unlink(kept_path);
  rmdir(folder);
}

static void begin(void)
{
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  hr_result row = hr_result_default();
  hr_gemm gemm = hr_gemm_default();
  EXPECT(mkdtemp(folder));
  snprintf(store_path, sizeof store_path, "%s/a.db", folder);
  snprintf(journal_path, sizeof journal_path, "%s/a.db-journal", folder);
  snprintf(kept_path, sizeof kept_path, "%s/kept", folder);
  atexit(remove_files);
  hr_result_set_gemm(&row, &gemm);
  EXPECT(hr_store_open(store_path, HR_STORE_WRITE, &store, &error) == HR_OK);
  EXPECT(hr_store_append(store, &row, &error) == HR_OK);
  hr_store_close(store);
  FILE *in = fopen(store_path, "rb");
  EXPECT(in);
  store_size = fread(store_bytes, 1, sizeof store_bytes, in);
  EXPECT(store_size > 0 && store_size < sizeof store_bytes);
  fclose(in);
}

static void write_big_endian(FILE *out, uint32_t number)
{
  for (int shift = 24; shift >= 0; shift -= 8)
    fputc((int)(number >> shift & 0xff), out);
}

/* SQLite ends the journal of a transaction on several files so. */
static void write_name(FILE *out)
{
  static const unsigned char magic[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
  size_t length = strlen(kept_path);
  uint32_t sum = 0;
  for (size_t i = 0; i < length; i++)
    sum += (unsigned char)kept_path[i];
  write_big_endian(out, 0x40000000 / 4096 + 1); /* the page of the lock */
  fwrite(kept_path, 1, length, out);
  write_big_endian(out, (uint32_t)length);
  write_big_endian(out, sum);
  fwrite(magic, 1, sizeof magic, out);
}

static void write_journal(const uint8_t *data, size_t size)
{
  FILE *out = fopen(journal_path, "wb");
  EXPECT(out);
  if (size > 0)
    fwrite(data + 1, 1, size - 1, out);
  if (size > 0 && data[0] % 2 == 1)
    write_name(out);
  EXPECT(fclose(out) == 0);
}

static void expect_kept(void)
{
  char found[sizeof kept + 1];
  FILE *in = fopen(kept_path, "rb");
  EXPECT(in && fread(found, 1, sizeof found, in) == sizeof kept && memcmp(found, kept, sizeof kept) == 0);
  fclose(in);
}

static int count_row(void *context, const hr_result *result)
{
  int64_t *count = context;
  expect_printable(hr_status_name(result->measurement.status));
  ++*count;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  hr_error error = {.status = HR_OK};
  hr_result row = hr_result_default();
  hr_gemm gemm = hr_gemm_default();
  if (store_size == 0)
    begin();
  hr_result_set_gemm(&row, &gemm);
  for (hr_store_mode mode = HR_STORE_READ; mode <= HR_STORE_WRITE; mode++) {
    hr_store *store = NULL;
    int64_t read = 0;
    write_file(kept_path, kept, sizeof kept);
    write_file(store_path, store_bytes, store_size);
    write_journal(data, size);
    hr_status status = hr_store_open(store_path, mode, &store, &error);
    if (status == HR_OK)
      status = mode == HR_STORE_READ ? hr_store_query(store, NULL, count_row, &read, &error)
                                     : hr_store_append(store, &row, &error);
    if (status != HR_OK)
      expect_clear_failure(status, &error);
    hr_store_close(store);
    expect_kept();
  }
  return 0;
}

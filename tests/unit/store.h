/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the store: a temporary folder, and rows. */
#ifndef HEADROOM_TEST_STORE_H
#define HEADROOM_TEST_STORE_H
#include "test.h"

#include <dirent.h>
#include <headroom/experimental/store.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** Creates the test's temporary folder; remove_folder() deletes it. */
static inline int make_folder(void **state)
{
  char *folder = strdup("/tmp/headroom-test-XXXXXX");
  assert_non_null(folder);
  assert_non_null(mkdtemp(folder));
  *state = folder;
  return 0;
}

static inline int remove_folder(void **state)
{
  char *folder = *state, path[512];
  DIR *entries = opendir(folder);
  for (struct dirent *entry; entries && (entry = readdir(entries));) {
    snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
    if (unlink(path) != 0)
      rmdir(path);
  }
  closedir(entries);
  rmdir(folder);
  free(folder);
  return 0;
}

/** Writes "<folder>/<name>" to `path`, which has 256 bytes, and returns it. */
static inline const char *path_in(void *const *state, const char *name, char path[256])
{
  snprintf(path, 256, "%s/%s", (const char *)*state, name);
  return path;
}

/** A row as a sweep's measurement creates it. */
static inline hr_result some_result(int64_t m)
{
  hr_result result = hr_result_default();
  hr_gemm gemm = hr_gemm_default();
  gemm.m = m;
  gemm.n = 4096;
  gemm.k = 2560;
  gemm.transpose_b = true;
  hr_result_set_gemm(&result, &gemm);
  snprintf(result.sweep, sizeof result.sweep, "fig24");
  snprintf(result.series, sizeof result.series, "h/a = 64");
  snprintf(result.axes, sizeof result.axes, "{\"h\":%d}", (int)m);
  snprintf(result.device, sizeof result.device, "cuda:0");
  snprintf(result.product, sizeof result.product, "NVIDIA H200");
  snprintf(result.measurement.kernel, sizeof result.measurement.kernel, "gemm_cublaslt");
  result.measurement.samples = 12;
  result.measurement.median_ns = 1234.5;
  return result;
}

/** Opens a store, or fails the test with the error's message. */
static inline hr_store *open_store(const char *path, hr_store_mode mode)
{
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_open(path, mode, &store, &error), error);
  return store;
}

static inline int64_t count_rows(hr_store *store)
{
  int64_t count = -1;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_count(store, NULL, &count, &error), error);
  return count;
}

/** How many rows a file has, opened for reading. */
static inline int64_t count_in_file(const char *path)
{
  hr_store *store = open_store(path, HR_STORE_READ);
  int64_t count = count_rows(store);
  hr_store_close(store);
  return count;
}

static inline void append_row(hr_store *store, int64_t m)
{
  hr_result result = some_result(m);
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_append(store, &result, &error), error);
}

/** Asserts that a call failed with this status and a one-line message that contains `words`. */
#define assert_fails(call, expected, error, words)                                  \
  do {                                                                              \
    (error).message[0] = '\0';                                                      \
    assert_int_equal((call), (expected));                                           \
    if (!strstr((error).message, (words)) || strchr((error).message, '\n'))         \
      fail_msg("expected \"%s\" in one line, found: %s", (words), (error).message); \
  } while (0)

/** An hr_result_fn that copies each row to its context, so that the last one stays. */
static inline int keep_row(void *context, const hr_result *result)
{
  *(hr_result *)context = *result;
  return 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Which oneDNN is loaded, and the messages if there is none. */
#include "test.h"

#include "runtime/cpu/onednn/loader.h"

#include <headroom/plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __has_feature /* of clang */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
    __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define CAN_LIMIT_MEMORY false /* sanitizers reserve terabytes */
#else
#define CAN_LIMIT_MEMORY true
#endif

static void a_missing_library_file_is_an_error_when_opening(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error = {.message = ""};
  setenv("HEADROOM_ONEDNN", "/nowhere/libdnnl.so.3", 1);
  assert_int_equal(hr_device_open("cpu", 1, &device, &error), HR_ERROR_UNAVAILABLE);
  assert_non_null(strstr(error.message,
                         "HEADROOM_ONEDNN (/nowhere/libdnnl.so.3) cannot be loaded: cannot open shared object file"));
  unsetenv("HEADROOM_ONEDNN");
}

static void a_library_other_than_onednn_is_refused(void **state)
{
  (void)state;
  hr_onednn_api api;
  hr_error error = {.message = ""};
  setenv("HEADROOM_ONEDNN", "libc.so.6", 1);
  assert_int_equal(hr_onednn_load(&api, &error), HR_ERROR_UNAVAILABLE);
  assert_null(api.handle);
  assert_non_null(
      strstr(error.message, "HEADROOM_ONEDNN (libc.so.6) has no dnnl_engine_create: it is too old or another library"));
  unsetenv("HEADROOM_ONEDNN");
}

/* Each API version has its own entry points and none of the other. */
static void the_entry_points_are_those_of_the_version(void **state)
{
  (void)state;
  hr_onednn_api api;
  hr_error error = {.message = ""};
  if (hr_onednn_load(&api, &error) != HR_OK) {
    print_message("%s\n", error.message);
    skip();
  }
  assert_in_range(api.version.major, 2, 3);
  assert_int_equal(api.dnnl_matmul_primitive_desc_create != NULL, api.version.major >= 3);
  assert_int_equal(api.dnnl_memory_desc_init_by_strides != NULL, api.version.major < 3);
  assert_true(api.openmp.omp_get_max_threads() >= 1);
  hr_onednn_unload(&api);
  assert_null(api.handle);
  hr_onednn_unload(&api);
}

/* oneDNN 2.7 divides by 2^32 truncated to 32 bits. */
static void sizes_of_more_than_31_bits_are_refused(void **state)
{
  (void)state;
  const int64_t much = (int64_t)1 << 32;
  const int64_t sizes[][4] = {{much, 6, 3, 1}, {3, much, 6, 1}, {1, 8, much, 1}, {1, 2, 3, much}};
  hr_device *device = NULL;
  hr_error error = {.message = ""};
  char why[160] = "";
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  if (!hr_kernel_runs(device, "gemm_onednn_fp32", why, sizeof why)) {
    print_message("%s\n", why);
    hr_device_close(device);
    skip();
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    hr_plan *plan = NULL;
    hr_gemm g = hr_gemm_default();
    g.dtype = HR_FP32;
    g.m = sizes[i][0], g.n = sizes[i][1], g.k = sizes[i][2], g.batch = sizes[i][3];
    assert_int_equal(hr_plan_gemm(device, &g, "gemm_onednn_fp32", &plan, &error), HR_ERROR_UNSUPPORTED);
    assert_string_equal(error.message, "oneDNN takes sizes below 2^31, not 4294967296");
  }
  hr_device_close(device);
}

/* ---- memory ---- */

enum { OUT_OF_MEMORY = 7, UNLIMITED }; /* how the process ends that has no memory */

/* The process gets no more memory than it has. Blocks that malloc() keeps serve small allocations. */
static bool get_no_more_memory(void)
{
  enum { BLOCKS = 64, BLOCK_BYTES = 60000 };
  void *blocks[BLOCKS];
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  bool known = file && fscanf(file, "%ld", &pages) == 1;
  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = malloc(BLOCK_BYTES);
  for (int i = BLOCKS - 2; i >= 0; i--) /* the last one keeps the others from being given back */
    free(blocks[i]);
  size_t bytes = ((size_t)pages + 64) * (size_t)sysconf(_SC_PAGESIZE) + BLOCKS * (size_t)BLOCK_BYTES;
  const struct rlimit limit = {bytes, bytes};
  if (file)
    (void)fclose(file);
  return known && setrlimit(RLIMIT_AS, &limit) == 0;
}

static hr_status plan_square(hr_device *device, int64_t size, hr_error *error)
{
  hr_plan *plan = NULL;
  hr_gemm g = hr_gemm_default();
  g.dtype = HR_FP32;
  g.m = g.n = g.k = size;
  hr_status status = hr_plan_gemm(device, &g, "gemm_onednn_fp32", &plan, error);
  hr_plan_free(plan);
  return status;
}

/* An emulator of another processor may take a limit and forget it. */
static bool gets_memory(void)
{
  void *volatile block = malloc((size_t)64 << 20); /* not optimized away */
  free(block);
  return block != NULL;
}

/* oneDNN's first plan loads and allocates what it keeps; another shape needs other code. */
static _Noreturn void plan_without_memory(void)
{
  hr_device *device = NULL;
  hr_error error = {.message = ""};
  if (hr_device_open("cpu", 1, &device, &error) != HR_OK || plan_square(device, 64, &error) != HR_OK ||
      !get_no_more_memory())
    _exit(1);
  if (gets_memory())
    _exit(UNLIMITED);
  bool refused = plan_square(device, 200, &error) == HR_ERROR_OUT_OF_MEMORY && strstr(error.message, "oneDNN's code");
  _exit(refused ? OUT_OF_MEMORY : 1);
}

/* oneDNN 2.6 writes the code of a kernel to where mmap() gave no memory. */
static void a_gemm_whose_code_gets_no_memory_is_out_of_memory(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error = {.message = ""};
  char why[160] = "";
  int status = 0;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  bool runs = hr_kernel_runs(device, "gemm_onednn_fp32", why, sizeof why);
  hr_device_close(device);
  if (!runs || !CAN_LIMIT_MEMORY)
    skip();
  pid_t child = fork();
  if (child == 0)
    plan_without_memory();
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_false(WIFSIGNALED(status));
  if (WEXITSTATUS(status) == UNLIMITED)
    skip();
  assert_int_equal(WEXITSTATUS(status), OUT_OF_MEMORY);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_missing_library_file_is_an_error_when_opening),
      cmocka_unit_test(a_library_other_than_onednn_is_refused),
      cmocka_unit_test(the_entry_points_are_those_of_the_version),
      cmocka_unit_test(sizes_of_more_than_31_bits_are_refused),
      cmocka_unit_test(a_gemm_whose_code_gets_no_memory_is_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

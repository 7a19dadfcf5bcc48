/* SPDX-License-Identifier: Apache-2.0 */
/* Which oneDNN is loaded, and the messages if there is none. */
#include "test.h"

#include "runtime/cpu/onednn/loader.h"

#include <headroom/plan.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_missing_library_file_is_an_error_when_opening),
      cmocka_unit_test(a_library_other_than_onednn_is_refused),
      cmocka_unit_test(the_entry_points_are_those_of_the_version),
      cmocka_unit_test(sizes_of_more_than_31_bits_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

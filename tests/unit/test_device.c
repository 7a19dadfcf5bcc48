/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/hardware.h"
#include "machine.h"

#include "runtime/device/buffer.h"
#include "runtime/device/host.h"
#include "runtime/device/plan.h"
#include "shape/number.h"

#include <headroom/buffer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hr_device *open_device(const char *name)
{
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open(name, 0, &device, &error), error);
  return device;
}

static void a_missing_device_and_an_invalid_name_are_different_errors(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_int_equal(hr_device_open("cuda:9999", 0, &device, &error), HR_ERROR_UNAVAILABLE);
  assert_non_null(strstr(error.message, "cuda:9999"));
  const char *unknown[] = {"", "gpu", "cuda:x", "cuda:", "CPU", "cpu ", "cuda:-1", "cuda:0x1", "cuda:99999999999"};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
    assert_int_equal(hr_device_open(unknown[i], 0, &device, &error), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_device_open(NULL, 0, &device, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_device_open("cpu", -1, &device, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_device_open("cpu", 1 << 30, &device, &error), HR_ERROR_INVALID);
  assert_null(device);
  hr_device_close(NULL);
}

static void the_cpus_detected_hardware_is_valid_for_predictions(void **state)
{
  (void)state;
  hr_device *device = open_device("cpu");
  hr_hardware hardware;
  hr_error error;
  assert_ok(hr_device_detect(device, &hardware, &error), error);
  assert_ok(hr_hardware_check(&hardware, &error), error);
  assert_string_equal(hardware.about.name, "cpu");
  assert_int_equal(hardware.about.kind, HR_HARDWARE_CPU);
  assert_int_equal(hardware.about.calibration, HR_CALIBRATION_ESTIMATED);
  assert_true(hardware.about.product[0] && hardware.about.architecture[0]);
  assert_true(hardware.multiprocessors >= 1 && hardware.dense_flops_per_s[HR_FP32] > 0);
  assert_true(hardware.memory_bytes > 0 && hardware.error_band >= 1); /* an estimated clock is reported as such */
  hr_device_close(device);
}

static void fewer_threads_are_fewer_multiprocessors(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_hardware hardware;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  assert_ok(hr_device_detect(device, &hardware, &error), error);
  assert_int_equal(hardware.multiprocessors, 1);
  hr_device_close(device);
}

static void the_reference_has_no_rates(void **state)
{
  (void)state;
  hr_device *device = open_device("reference");
  hr_hardware hardware;
  assert_int_equal(hr_device_detect(device, &hardware, NULL), HR_ERROR_UNSUPPORTED);
  assert_int_equal(hr_device_probe(device, NULL, NULL, &hardware, NULL), HR_ERROR_UNSUPPORTED);
  hr_device_close(device);
}

static void buffers_are_aligned_filled_and_bounded(void **state)
{
  (void)state;
  hr_device *device = open_device("cpu");
  hr_buffer *buffer = NULL;
  hr_error error;
  assert_int_equal(hr_buffer_create(device, 0, &buffer, &error), HR_ERROR_INVALID);
  size_t count = 100003; /* several chunks, the last one not full */
  assert_ok(hr_buffer_create(device, count * 2, &buffer, &error), error);
  assert_int_equal((uintptr_t)hr_buffer_data(buffer) % 64, 0);
  assert_ok(hr_buffer_poison(buffer, HR_BF16, &error), error);
  for (size_t i = 0; i < count; i += 97)
    assert_true(isnan(hr_number_load(HR_BF16, hr_buffer_data(buffer), i)));
  assert_ok(hr_buffer_fill_uniform(buffer, HR_BF16, 5, &error), error);
  uint16_t *values = malloc(count * 2);
  assert_non_null(values);
  hr_numbers_uniform(HR_BF16, 5, 0, count, values); /* in one piece */
  assert_memory_equal(values, hr_buffer_data(buffer), count * 2);
  assert_int_equal(hr_buffer_write(buffer, values, count * 2 + 1, &error), HR_ERROR_INVALID);
  values[0] = 0x1234;
  assert_ok(hr_buffer_write(buffer, values, 2, &error), error);
  assert_ok(hr_buffer_read(buffer, values + 1, 2, &error), error);
  assert_int_equal(values[1], 0x1234);
  free(values);
  hr_buffer_free(buffer);
  hr_buffer_free(NULL);
  hr_device_close(device);
}

static void a_part_of_a_buffer_is_within_its_bytes_and_leaves_them_to_it(void **state)
{
  (void)state;
  hr_device *device = open_device("cpu");
  hr_buffer *whole, *part, *none = NULL;
  hr_error error;
  char found[3] = "";
  assert_ok(hr_buffer_create(device, 8, &whole, &error), error);
  assert_ok(hr_buffer_write(whole, "abcdefgh", 8, &error), error);
  assert_ok(hr_buffer_part(whole, 5, 3, &part, &error), error);
  assert_ptr_equal(hr_buffer_data(part), (char *)hr_buffer_data(whole) + 5);
  assert_int_equal(hr_buffer_write(part, "wxyz", 4, &error), HR_ERROR_INVALID);
  assert_ok(hr_buffer_write(part, "xyz", 3, &error), error);
  hr_buffer_free(part);
  assert_memory_equal(hr_buffer_data(whole), "abcdexyz", 8);
  assert_ok(hr_buffer_read(whole, found, 3, &error), error);
  assert_memory_equal(found, "abc", 3);
  assert_int_equal(hr_buffer_part(whole, 6, 3, &none, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_buffer_part(whole, SIZE_MAX, 2, &none, &error), HR_ERROR_INVALID);
  assert_null(none);
  hr_buffer_free(whole);
  hr_device_close(device);
}

static void more_memory_than_there_is_is_refused(void **state)
{
  (void)state;
  hr_device *device = open_device("cpu");
  hr_buffer *buffer = NULL;
  hr_error error;
  const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 50, hr_host_memory_available()};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    assert_int_equal(hr_buffer_create(device, sizes[i], &buffer, &error), HR_ERROR_OUT_OF_MEMORY);
  assert_null(buffer);
  assert_non_null(strstr(error.message, "does not fit the free "));
  hr_device_close(device);
}

static void rows_of_the_kernel_table_are_complete_and_have_unique_names(void **state)
{
  (void)state;
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  assert_true(count > 0);
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < i; j++)
      assert_string_not_equal(kernels[i].name, kernels[j].name);
    assert_true(hr_has_word("gemm attention decode rowwise attention_backward", kernels[i].operation));
    assert_true(strlen(kernels[i].summary) > 0);
    int known = 0;
    for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
      known += hr_has_word(kernels[i].dtypes, hr_dtype_name((hr_dtype)dtype));
    int words = 1;
    for (const char *c = kernels[i].dtypes; *c; c++)
      words += *c == ' ';
    assert_int_equal(known, words);
  }
}

static void a_kernel_reports_whether_it_runs_and_why_not(void **state)
{
  (void)state;
  hr_device *device = open_device("reference");
  char why[160] = "";
  assert_true(hr_kernel_runs(device, "gemm_reference", why, sizeof why));
  assert_false(hr_kernel_runs(device, "gemm_onednn_fp32", why, sizeof why));
  assert_string_equal(why, "runs on cpu, not on reference");
  assert_false(hr_kernel_runs(device, "no_such", why, sizeof why));
  assert_string_equal(why, "no kernel is called \"no_such\"");
  hr_device_close(device);
}

static void a_problem_without_a_kernel_lists_the_reason_of_each(void **state)
{
  (void)state;
  hr_device *device = open_device("cpu");
  hr_gemm gemm = hr_gemm_default();
  hr_plan *plan = NULL;
  hr_error error;
  gemm.dtype = HR_FP8_E4M3;
  assert_int_equal(hr_plan_gemm(device, &gemm, NULL, &plan, &error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "gemm_onednn_fp32 takes fp32, not fp8"));
  assert_int_equal(hr_plan_gemm(device, &gemm, "no_such", &plan, &error), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_plan_gemm(device, &gemm, "gemm_reference", &plan, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "gemm_reference runs on reference, not on cpu");
  gemm.k = 0;
  assert_int_equal(hr_plan_gemm(device, &gemm, NULL, &plan, &error), HR_ERROR_INVALID);
  assert_null(plan);
  hr_device_close(device);
}

/* ---- dispatch, with a kernel table of this test ---- */

static bool only_even_m(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  snprintf(why, why_size, "needs an even m");
  return problem->gemm.m % 2 == 0;
}

/* A kernel that fails after it has allocated a part of its state. */
typedef struct late_state {
  void *built;
} late_state;

static void *released; /* the state that the last failed kernel released */

static void release_late(void *kernel_state)
{
  late_state *s = kernel_state;
  released = s->built;
}

static hr_status refuse_late(hr_device *device, const hr_problem *problem, void *kernel_state, size_t *workspace,
                             hr_error *error)
{
  (void)problem;
  late_state *s = kernel_state;
  assert_null(s->built);
  assert_int_equal(*workspace, 0);
  s->built = device;
  *workspace = 1000;
  if (error)
    snprintf(error->message, sizeof error->message, "found out too late");
  return HR_ERROR_UNSUPPORTED;
}

static hr_status run_nothing(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)plan, (void)run, (void)error;
  return HR_OK;
}

static const hr_kernel_info infos[] = {
    {"best", "gemm", "reference", "fp32 bf16", "", "for even m"},
    {"needy", "gemm", "reference", "fp32", "a_unit_that_nobody_has", "needs what is not there"},
    {"late", "gemm", "reference", "fp32 bf16", "", "refuses when prepared"},
    {"elsewhere", "gemm", "cpu", "fp32", "", "of another device"},
    {"last", "gemm", "reference", "fp32", "", "runs everything"},
};
static const hr_kernel_functions even = {.supports = only_even_m, .run = run_nothing};
static const hr_kernel_functions late = {
    .state_bytes = sizeof(late_state), .prepare = refuse_late, .run = run_nothing, .release = release_late};
static const hr_kernel_functions plain = {.run = run_nothing};
static const hr_kernel table[] = {
    {&infos[0], &even}, {&infos[1], &plain}, {&infos[2], &late}, {&infos[3], &plain}, {&infos[4], &plain}};

static void dispatch_takes_the_first_kernel_that_can_run_and_reports_why_better_ones_cannot(void **state)
{
  (void)state;
  hr_device *device = open_device("reference");
  device->kernels = table;
  device->kernel_count = sizeof table / sizeof *table;
  hr_gemm gemm = hr_gemm_default();
  gemm.dtype = HR_FP32, gemm.m = 2;
  hr_plan *plan = NULL;
  hr_error error;
  assert_ok(hr_plan_gemm(device, &gemm, NULL, &plan, &error), error);
  assert_string_equal(hr_plan_kernel(plan), "best");
  assert_string_equal(hr_plan_passed_over(plan), "");
  hr_plan_free(plan);
  assert_null(released);
  gemm.m = 3;
  assert_ok(hr_plan_gemm(device, &gemm, NULL, &plan, &error), error);
  assert_string_equal(hr_plan_kernel(plan), "last");
  assert_string_equal(hr_plan_passed_over(plan),
                      "best needs an even m; needy needs a_unit_that_nobody_has, which this machine or build lacks; "
                      "late found out too late");
  assert_ptr_equal(released, device);
  assert_int_equal(hr_plan_workspace_bytes(plan), 0); /* not that of the kernel that failed late */
  const void *address = &gemm;
  assert_int_equal(hr_plan_run_gemm(plan, &(hr_gemm_arguments){sizeof(hr_gemm_arguments), address, NULL, &gemm, NULL},
                                    NULL, NULL, &error),
                   HR_ERROR_INVALID);
  hr_attention_arguments arguments = hr_attention_arguments_default();
  assert_int_equal(hr_plan_run_attention(plan, &arguments, NULL, NULL, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "a plan for gemm is run as one for attention");
  hr_plan_free(plan);
  assert_int_equal(hr_plan_gemm(device, &gemm, "best", &plan, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "best needs an even m");
  hr_plan_free(NULL);
  hr_device_close(device);
}

static bool behind_with_large_m(const hr_problem *problem, char *why, size_t why_size)
{
  snprintf(why, why_size, "is behind from m = 8 on");
  return problem->gemm.m >= 8;
}

static void assert_kernel(hr_device *device, int64_t m, const char *asked, const char *taken)
{
  hr_gemm gemm = hr_gemm_default();
  hr_plan *plan = NULL;
  hr_error error;
  gemm.dtype = HR_FP32, gemm.m = m;
  assert_ok(hr_plan_gemm(device, &gemm, asked, &plan, &error), error);
  assert_string_equal(hr_plan_kernel(plan), taken);
  hr_plan_free(plan);
}

static void a_kernel_that_is_behind_others_comes_last_but_by_name(void **state)
{
  (void)state;
  static const hr_kernel_functions small = {.behind = behind_with_large_m, .run = run_nothing};
  static const hr_kernel_info names[] = {{"small", "gemm", "reference", "fp32", "", "for small m"},
                                         {"even", "gemm", "reference", "fp32", "", "for even m"}};
  static const hr_kernel kernels[] = {{&names[0], &small}, {&names[1], &even}};
  hr_device *device = open_device("reference");
  device->kernels = kernels;
  device->kernel_count = 2;
  assert_kernel(device, 2, NULL, "small");
  assert_kernel(device, 8, NULL, "even");
  assert_kernel(device, 9, NULL, "small"); /* no other takes it */
  assert_kernel(device, 8, "small", "small");
  hr_device_close(device);
}

static void a_prefix_of_a_kernel_name_selects_its_family(void **state)
{
  (void)state;
  const hr_kernel_info info = {.name = "attention_flash_avx512"};
  assert_true(hr_kernel_is(&info, "attention_flash_avx512") && hr_kernel_is(&info, "attention_flash"));
  assert_true(hr_kernel_is(&info, "attention"));
  assert_false(hr_kernel_is(&info, "attention_fl") || hr_kernel_is(&info, "") || hr_kernel_is(&info, "flash"));
  hr_device *device = NULL;
  hr_plan *plan = NULL;
  hr_error error;
  hr_gemm gemm = hr_gemm_default();
  gemm.dtype = HR_FP64;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_ok(hr_plan_gemm(device, &gemm, "gemm", &plan, &error), error);
  assert_string_equal(hr_plan_kernel(plan), "gemm_reference");
  hr_plan_free(plan);
  assert_int_equal(hr_plan_gemm(device, &gemm, "gemm_onednn", &plan, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message,
                      "reference: no gemm_onednn kernel for this problem: it has none for this operation");
  assert_int_equal(hr_plan_gemm(device, &gemm, "gem", &plan, &error), HR_ERROR_NOT_FOUND);
  hr_device_close(device);
}

/* "naive" is a kernel of the CPU, and on this device the family of "naive_here". */
static void a_kernel_name_of_another_device_may_be_a_family_of_this_one(void **state)
{
  (void)state;
  static const hr_kernel_info names[] = {{"naive_here", "gemm", "reference", "fp32", "", "of a family"},
                                         {"naive", "gemm", "cpu", "fp32", "", "of another device"},
                                         {"fast", "gemm", "cpu", "fp32", "", "of another device"}};
  static const hr_kernel kernels[] = {{&names[0], &plain}, {&names[1], &plain}, {&names[2], &plain}};
  hr_device *device = open_device("reference");
  device->kernels = kernels;
  device->kernel_count = sizeof kernels / sizeof *kernels;
  hr_gemm gemm = hr_gemm_default();
  gemm.dtype = HR_FP32;
  hr_plan *plan = NULL;
  hr_error error;
  assert_ok(hr_plan_gemm(device, &gemm, "naive", &plan, &error), error);
  assert_string_equal(hr_plan_kernel(plan), "naive_here");
  hr_plan_free(plan);
  assert_int_equal(hr_plan_gemm(device, &gemm, "fast", &plan, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "fast runs on cpu, not on reference");
  hr_device_close(device);
}

static void a_synchronous_device_has_no_stream(void **state)
{
  (void)state;
  const char *names[] = {"cpu", "reference"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hr_device *device = open_device(names[i]);
    assert_null(hr_device_stream(device));
    hr_device_close(device);
  }
  hr_device *gpu = NULL;
  if (hr_device_open("cuda:0", 0, &gpu, NULL) == HR_OK) {
    assert_non_null(hr_device_stream(gpu));
    hr_device_close(gpu);
  }
}

static void a_gpu_fills_buffers_with_the_values_of_the_host(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  hr_error error;
  enum { COUNT = 100003 };
  for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
    size_t bytes = COUNT * hr_dtype_bytes((hr_dtype)dtype);
    char *expected = malloc(bytes), *found = malloc(bytes);
    hr_buffer *buffer = NULL;
    assert_ok(hr_buffer_create(device, bytes, &buffer, &error), error);
    assert_ok(hr_buffer_poison(buffer, (hr_dtype)dtype, &error), error);
    assert_ok(hr_buffer_read(buffer, found, bytes, &error), error);
    assert_true(isnan(hr_number_load((hr_dtype)dtype, found, COUNT - 1)));
    assert_ok(hr_buffer_fill_uniform(buffer, (hr_dtype)dtype, 42, &error), error);
    assert_ok(hr_buffer_read(buffer, found, bytes, &error), error);
    hr_numbers_uniform((hr_dtype)dtype, 42, 0, COUNT, expected);
    assert_memory_equal(found, expected, bytes);
    hr_buffer_free(buffer);
    free(expected);
    free(found);
  }
  hr_buffer *huge = NULL;
  assert_int_equal(hr_buffer_create(device, (size_t)1 << 46, &huge, &error), HR_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(error.message, "cuMemAlloc"));
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_missing_device_and_an_invalid_name_are_different_errors),
      cmocka_unit_test(the_cpus_detected_hardware_is_valid_for_predictions),
      cmocka_unit_test(fewer_threads_are_fewer_multiprocessors),
      cmocka_unit_test(the_reference_has_no_rates),
      cmocka_unit_test(buffers_are_aligned_filled_and_bounded),
      cmocka_unit_test(a_part_of_a_buffer_is_within_its_bytes_and_leaves_them_to_it),
      cmocka_unit_test(more_memory_than_there_is_is_refused),
      cmocka_unit_test(rows_of_the_kernel_table_are_complete_and_have_unique_names),
      cmocka_unit_test(a_kernel_reports_whether_it_runs_and_why_not),
      cmocka_unit_test(a_problem_without_a_kernel_lists_the_reason_of_each),
      cmocka_unit_test(dispatch_takes_the_first_kernel_that_can_run_and_reports_why_better_ones_cannot),
      cmocka_unit_test(a_kernel_that_is_behind_others_comes_last_but_by_name),
      cmocka_unit_test(a_prefix_of_a_kernel_name_selects_its_family),
      cmocka_unit_test(a_kernel_name_of_another_device_may_be_a_family_of_this_one),
      cmocka_unit_test(a_synchronous_device_has_no_stream),
      cmocka_unit_test(a_gpu_fills_buffers_with_the_values_of_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Former names of kernels. */
#include "test.h"

#include "base/kernel_names.h"
#include "runtime/device/plan.h"

static void assert_current(const char *name, const char *current)
{
  char text[HR_KERNEL_NAME_SIZE];
  hr_kernel_current_name(name, text);
  assert_string_equal(text, current);
}

static void a_former_name_is_replaced_by_the_current_one(void **state)
{
  (void)state;
  assert_current("attention_fused", "attention_blocked");
  assert_current("attention_fused_onednn", "attention_blocked_onednn");
  assert_current("rows_cpu_avx2", "rowwise_cpu_avx2");
  assert_current("rows", "rowwise");
  assert_current("rowscpu", "rowscpu"); /* no family, because no underscore follows */
  assert_current("gemm_onednn_fp32", "gemm_onednn_fp32");
  assert_current("", "");
}

static void a_name_too_long_is_truncated(void **state)
{
  (void)state;
  char text[HR_KERNEL_NAME_SIZE];
  hr_kernel_current_name("rows_012345678901234567890123456789012345678901234567890123456789", text);
  assert_string_equal(text, "rowwise_0123456789012345678901234567890123456789012345678901234");
}

static void each_current_name_has_its_former_one(void **state)
{
  (void)state;
  char text[HR_KERNEL_NAME_SIZE] = "attention_blocked_cublaslt";
  hr_kernel_former_name(text, text);
  assert_string_equal(text, "attention_fused_cublaslt");
  hr_kernel_former_name("attention_flash_sm90", text);
  assert_string_equal(text, "attention_flash_sm90");
}

/* A former name that is also a current name would hide that kernel. */
static void no_kernel_has_a_former_name(void **state)
{
  (void)state;
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++)
    assert_current(kernels[i].name, kernels[i].name);
}

static void a_plan_is_found_by_a_former_name(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device;
  assert_ok(hr_device_open("reference", 1, &device, &error), error);
  hr_rowwise rows = hr_rowwise_default();
  hr_plan *plan;
  assert_ok(hr_plan_rowwise(device, &rows, "rows_reference", &plan, &error), error);
  assert_string_equal(hr_plan_kernel(plan), "rowwise_reference");
  hr_plan_free(plan);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_former_name_is_replaced_by_the_current_one),
      cmocka_unit_test(a_name_too_long_is_truncated),
      cmocka_unit_test(each_current_name_has_its_former_one),
      cmocka_unit_test(no_kernel_has_a_former_name),
      cmocka_unit_test(a_plan_is_found_by_a_former_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

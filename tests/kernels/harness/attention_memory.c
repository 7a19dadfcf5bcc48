/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that attention kernels allocate in addition to their operands, and the limit on it. */
#include "attention_call.h"

#include "runtime/device/host.h"

#include <headroom/experimental/measure.h>

#include <math.h>

static hr_attention call_of(hr_dtype dtype, int64_t q_len, int64_t kv_len)
{
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  a.q_len = q_len, a.kv_len = kv_len;
  a.q_heads = 8, a.k_heads = 2, a.v_heads = 4;
  a.qk_dim = a.v_dim = 128;
  return a;
}

/* Workspace of a kernel in bytes; −1 if it refuses the problem. */
static double workspace_of(hr_device *device, const char *kernel, const hr_attention *a)
{
  hr_plan *plan = NULL;
  hr_error error;
  hr_status status = hr_plan_attention(device, a, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return -1;
  assert_ok(status, error);
  double bytes = (double)hr_plan_workspace_bytes(plan);
  hr_plan_free(plan);
  return bytes;
}

static bool begins_with(const char *kernel, const char *family)
{
  return strncmp(kernel, family, strlen(family)) == 0;
}

static void check_workspace(hr_device *device, const char *kernel, hr_dtype dtype)
{
  hr_attention near = call_of(dtype, 512, 1024), far = call_of(dtype, 512, 262144);
  double little = workspace_of(device, kernel, &near), much = workspace_of(device, kernel, &far);
  if (little < 0 || much < 0)
    return;
  if (begins_with(kernel, "attention_flash") && !(much == little && much <= device->threads * 4.0 * (1 << 20)))
    fail_msg("%s takes %g bytes for 1024 keys, %g for 262144 and %d threads", kernel, little, much, device->threads);
  if (begins_with(kernel, "attention_materialized")) /* 8 heads, 4 bytes per score */
    assert_true(little >= 8.0 * 512 * 1024 * 4 && much >= 8.0 * 512 * 262144 * 4);
  if (begins_with(kernel, "attention_blocked") && device->backend->own_memory)
    assert_true(much < 8.0 * 512 * 262144 * 4 / 4);
  if (begins_with(kernel, "attention_blocked") && !device->backend->own_memory) { /* a part for each thread */
    hr_attention long_queries = call_of(dtype, 65536, 262144);
    assert_true(much == workspace_of(device, kernel, &long_queries));
  }
}

/* Sizes that no operands exist for; sequences as long as all addressable memory. */
static void check_largest(hr_device *device, const char *kernel, hr_dtype dtype)
{
  hr_attention calls[2] = {call_of(dtype, 0, 0), call_of(dtype, 1, ((int64_t)1 << 30) - 1)};
  calls[0].qk_dim = calls[0].v_dim = (int64_t)1 << 40;
  calls[1].variable_lengths = true, calls[1].batch = 7, calls[1].q_total = calls[1].kv_total = 1;
  calls[1].mask = HR_MASK_CAUSAL, calls[1].window = 1;
  calls[1].q_heads = calls[1].k_heads = (int64_t)1 << 20, calls[1].qk_dim = 1 << 14;
  for (size_t i = 0; i < 2; i++) {
    hr_plan *plan = NULL;
    hr_error error = {.message = ""};
    hr_status status = hr_plan_attention(device, &calls[i], kernel, &plan, &error);
    if (status != HR_OK && status != HR_ERROR_UNSUPPORTED && status != HR_ERROR_OUT_OF_MEMORY)
      fail_msg("%s: %s", kernel, error.message);
    hr_plan_free(plan);
  }
}

static void a_limit_is_enforced_before_anything_is_allocated(void)
{
  hr_device *device = NULL;
  hr_error error;
  hr_measurement m;
  hr_attention a = call_of(HR_FP32, 2, 3);
  hr_measure_options options = hr_measure_options_default();
  options.kernel = "attention_naive";
  options.time_limit_ns = 20e6;
  options.memory_limit_bytes = 1000;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  assert_ok(hr_measure_attention(device, &a, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(m.reason, "operands and workspace take "));
  assert_non_null(strstr(m.reason, ", the limit is 1000 B"));
  assert_true(m.workspace_bytes > 0 && isnan(m.peak_bytes) && m.samples == 0);
  options.memory_limit_bytes = 1 << 20;
  assert_ok(hr_measure_attention(device, &a, &options, &m, &error), error);
  assert_true(m.samples > 0);
  hr_device_close(device);
}

/* 24 MB that were allocated but never touched count once they are touched, also if only in part. */
static void the_peak_counts_touched_memory_only(void)
{
  const size_t bytes = 24000000;
  hr_device *device = NULL;
  hr_buffer *buffer = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  assert_ok(hr_buffer_create(device, bytes, &buffer, &error), error);
  size_t before = hr_host_peak_begin();
  if (before == 0) {
    print_message("this system does not report memory use\n");
  } else {
    assert_true(hr_host_peak_since(before) < 4e6);
    memset(hr_buffer_data(buffer), 1, bytes / 2);
    double half = hr_host_peak_since(before);
    assert_true(half > 0.4 * (double)bytes && half < 0.7 * (double)bytes);
    memset(hr_buffer_data(buffer), 1, bytes);
    assert_true(hr_host_peak_since(before) > 0.9 * (double)bytes);
  }
  hr_buffer_free(buffer);
  hr_device_close(device);
}

/* The GPU, if it runs the kernels; skips otherwise. */
static hr_device *open_gpu_of_attention(void)
{
  hr_device *device = open_gpu();
  char why[160] = "";
  if (hr_kernel_runs(device, "attention_materialized_cublaslt", why, sizeof why))
    return device;
  print_message("skipped: no GPU that runs attention_materialized_cublaslt: %s\n", why);
  hr_device_close(device);
  skip();
  return NULL;
}

static void measure_on(hr_device *device, const char *kernel, int64_t limit, hr_measurement *m)
{
  hr_error error;
  hr_attention a = call_of(HR_BF16, 1024, 8192);
  hr_measure_options options = hr_measure_options_default();
  options.kernel = kernel;
  options.time_limit_ns = 20e6;
  options.memory_limit_bytes = limit;
  assert_ok(hr_measure_attention(device, &a, &options, m, &error), error);
}

/* 8 heads of 1024 x 8192 scores take 268 MB. The driver's memory for a program is some MB. */
static void on_a_gpu_materialized_allocates_scores_and_flash_does_not(void)
{
  const double scores = 8.0 * 1024 * 8192 * 4;
  hr_measurement m;
  hr_device *device = open_gpu_of_attention();
  measure_on(device, "attention_materialized", 0, &m);
  assert_true(m.samples > 0);
  assert_true(m.peak_bytes >= scores && m.peak_bytes < m.workspace_bytes + 64e6);
  measure_on(device, "attention_blocked", 0, &m);
  assert_true(m.samples > 0 && m.peak_bytes >= m.workspace_bytes && m.peak_bytes < m.workspace_bytes + 64e6);
  measure_on(device, "attention_flash", 0, &m);
  assert_true(m.samples > 0);
  assert_true(m.peak_bytes >= 0 && m.peak_bytes < 32e6);
  hr_device_close(device);
}

static void under_a_limit_on_a_gpu_materialized_is_refused_and_flash_runs(void)
{
  hr_measurement m;
  hr_device *device = open_gpu_of_attention();
  measure_on(device, "attention_materialized", (int64_t)200 << 20, &m);
  assert_int_equal(m.status, HR_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(m.reason, "operands and workspace take "));
  measure_on(device, "attention_flash", (int64_t)200 << 20, &m);
  assert_true(m.samples > 0);
  hr_device_close(device);
}

static const fact facts[] = {
    FACT(flash_memory_does_not_depend_on_the_number_of_keys_and_materialized_stores_all_scores, check_workspace),
    FACT(the_largest_sizes_overflow_nothing, check_largest),
    FACT_OF_NO_KERNEL(a_limit_is_enforced_before_anything_is_allocated,
                      a_limit_is_enforced_before_anything_is_allocated),
    FACT_OF_NO_KERNEL(the_peak_counts_touched_memory_only, the_peak_counts_touched_memory_only),
    FACT_OF_NO_KERNEL(on_a_gpu_materialized_allocates_scores_and_flash_does_not,
                      on_a_gpu_materialized_allocates_scores_and_flash_does_not),
    FACT_OF_NO_KERNEL(under_a_limit_on_a_gpu_materialized_is_refused_and_flash_runs,
                      under_a_limit_on_a_gpu_materialized_is_refused_and_flash_runs),
};
const fact_group attention_memory_facts = {
    .name = "attention_memory", .operation = "attention", .facts = facts, .count = LENGTH(facts)};

/* SPDX-License-Identifier: Apache-2.0 */
/* Every public struct with a struct_size is refused if that is wrong: zeroed by hand, or of another version. */
#include "test.h"

#include <headroom/headroom.h>

#include <stdio.h>

/* Sets struct_size to 0 and to one more than its value, and expects `call` to fail with a line that names the
 * struct. */
#define REFUSED(name, value, call)                                                                                    \
  do {                                                                                                                \
    const size_t sizes[] = {0, sizeof(name) + 1};                                                                     \
    for (size_t i_ = 0; i_ < 2; i_++) {                                                                               \
      char line[160];                                                                                                 \
      (value).struct_size = sizes[i_];                                                                                \
      snprintf(line, sizeof line, #name ": struct_size is %zu, expected %zu: initialise it with " #name "_default()", \
               sizes[i_], sizeof(name));                                                                              \
      assert_int_equal((call), HR_ERROR_INVALID);                                                                     \
      assert_string_equal(error.message, line);                                                                       \
    }                                                                                                                 \
    (value).struct_size = sizeof(name);                                                                               \
    assert_ok((call), error);                                                                                         \
  } while (0)

static void problems_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_gemm gemm = hr_gemm_default();
  REFUSED(hr_gemm, gemm, hr_gemm_check(&gemm, &error));
  hr_rowwise rows = hr_rowwise_default();
  rows.rows = rows.columns = 2;
  REFUSED(hr_rowwise, rows, hr_rowwise_check(&rows, &error));
  hr_attention attention = hr_attention_default();
  REFUSED(hr_attention, attention, hr_attention_check(&attention, &error));
  hr_decode decode = hr_decode_default();
  REFUSED(hr_decode, decode, hr_decode_check(&decode, &error));
}

static void shapes_and_devices_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_model model;
  assert_ok(hr_resolve_model("gpt2", NULL, NULL, &model, &error), error);
  REFUSED(hr_model, model, hr_model_check(&model, &error));
  hr_workload workload = hr_workload_default(&model);
  REFUSED(hr_workload, workload, hr_workload_check(&workload, &model, &error));
  hr_hardware hardware;
  assert_ok(hr_resolve_hardware("h200", &hardware, &error), error);
  REFUSED(hr_hardware, hardware, hr_hardware_check(&hardware, &error));
  hr_scan_call scan = hr_scan_call_default();
  hr_prediction prediction;
  scan.tokens = scan.heads = scan.head_dim = scan.state = scan.groups = 1;
  REFUSED(hr_scan_call, scan, hr_predict_scan(&hardware, &scan, &prediction, &error));
}

static void device_options_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device = NULL;
  hr_device_options options = hr_device_options_default();
  REFUSED(hr_device_options, options, hr_device_open_with("reference", &options, &device, &error));
  hr_device_close(device);
}

static void options_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_model model;
  hr_hardware hardware;
  assert_ok(hr_resolve_model("gpt2", NULL, NULL, &model, &error), error);
  assert_ok(hr_resolve_hardware("h200", &hardware, &error), error);
  hr_workload workload = hr_workload_default(&model);

  hr_search_options search = hr_search_options_default();
  hr_search_result *found = NULL;
  search.evaluations_max = 1;
  REFUSED(hr_search_options, search, hr_search(&hardware, &model, &workload, &search, NULL, NULL, &found, &error));
  hr_search_result_free(found);

  hr_serve_options serving = hr_serve_options_default();
  hr_serve_result *plan = NULL;
  serving.batch = 1;
  REFUSED(
      hr_serve_options, serving,
      (hr_serve_result_free(plan), plan = NULL, hr_serve_plan(&hardware, &model, &workload, &serving, &plan, &error)));
  hr_serve_result_free(plan);

  hr_sweep *sweep = NULL;
  size_t *order = NULL, count;
  assert_ok(hr_sweep_load("fig24", true, &sweep, &error), error);
  hr_sweep_choice choice = hr_sweep_choice_default();
  REFUSED(hr_sweep_choice, choice, hr_sweep_order(sweep, &choice, &order, &count, &error));
  free(order);
  hr_sweep_free(sweep);

  hr_report_options report = hr_report_options_default();
  FILE *out = tmpfile();
  assert_non_null(out);
  REFUSED(hr_report_options, report, hr_report_description(out, &report, &model, &workload, NULL, NULL, &error));
  fclose(out);

  hr_result_filter filter = hr_result_filter_default();
  REFUSED(hr_result_filter, filter, hr_result_filter_check(&filter, &error));

  hr_store *store = NULL;
  hr_store_options opening = hr_store_options_default();
  REFUSED(hr_store_options, opening, hr_store_open_with("scratch", HR_STORE_SCRATCH, &opening, &store, &error));
  hr_store_close(store);
}

static void caches_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device;
  hr_kv_cache *cache = NULL;
  int64_t slot;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_kv_cache_options options = hr_kv_cache_options_default();
  REFUSED(hr_kv_cache_options, options,
          (hr_kv_cache_free(cache), cache = NULL, hr_kv_cache_create(device, &options, &cache, &error)));
  hr_kv_append append = hr_kv_append_default();
  REFUSED(hr_kv_append, append, hr_kv_cache_append(cache, &append, NULL, &error));
  assert_ok(hr_kv_cache_add(cache, &slot, &error), error);
  hr_decode decode = hr_decode_default();
  hr_decode_arguments arguments = hr_decode_arguments_default();
  REFUSED(hr_decode, decode, hr_kv_cache_decode(cache, 1, &decode, &arguments, &error));
  REFUSED(hr_decode_arguments, arguments, hr_kv_cache_decode(cache, 1, &decode, &arguments, &error));
  hr_kv_cache_free(cache);
  hr_device_close(device);
}

static void measurements_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device;
  hr_plan *plan;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_gemm gemm = hr_gemm_default();
  hr_measurement measured;
  hr_measure_options options = hr_measure_options_default();
  options.samples_min = options.samples_max = 1;
  options.time_limit_ns = 1e6;
  REFUSED(hr_measure_options, options, hr_measure_gemm(device, &gemm, &options, &measured, &error));

  hr_attention attention = hr_attention_default();
  attention.dtype = HR_FP32;
  assert_ok(hr_plan_attention(device, &attention, "attention_flash_portable", &plan, &error), error);
  hr_buffer *workspace;
  assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan) + 64, &workspace, &error), error);
  float q[64] = {0}, o[64];
  hr_attention_arguments arguments = hr_attention_arguments_default();
  arguments.q = arguments.k = arguments.v = q, arguments.o = o;
  char *memory = hr_buffer_data(workspace);
  REFUSED(hr_attention_arguments, arguments, hr_plan_run_attention(plan, &arguments, memory, NULL, &error));

  /* In addition: a workspace that is not aligned as the plan needs. */
  assert_int_equal(hr_plan_run_attention(plan, &arguments, memory + 32, NULL, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "workspace: expected an address that is a multiple of 64"));
  assert_ok(hr_plan_run_attention(plan, &arguments, memory + 64, NULL, &error), error);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(problems_with_another_size_are_refused),
      cmocka_unit_test(shapes_and_devices_with_another_size_are_refused),
      cmocka_unit_test(device_options_with_another_size_are_refused),
      cmocka_unit_test(options_with_another_size_are_refused),
      cmocka_unit_test(caches_with_another_size_are_refused),
      cmocka_unit_test(measurements_with_another_size_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

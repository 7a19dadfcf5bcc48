/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON output that scripts rely on: every key of docs/json.md exists and has its type.
 * `describe`, `devices` and `kernels`. */
#include "test.h"

#include "report_json.h"

static const key_row model_keys[] = {
    {"name", "s"},       {"family", "s"},          {"layers", "i"},          {"hidden", "i"},
    {"vocabulary", "i"}, {"max_positions", "i"},   {"q_heads", "i"},         {"k_heads", "i"},
    {"v_heads", "i"},    {"qk_dim", "i"},          {"v_dim", "i"},           {"q_rank", "i"},
    {"window", "i"},     {"window_layers", "i"},   {"mlp_width", "i"},       {"mlp_gated", "b"},
    {"activation", "s"}, {"parallel_block", "b"},  {"positions", "s"},       {"rotary_dim", "i"},
    {"norm", "s"},       {"qk_norm", "s"},         {"tied_embeddings", "b"}, {"quantization", "no"},
    {"groups", "a"},     {"residual_streams", "i"}};
static const key_row workload_keys[] = {{"phase", "s"},
                                        {"attention", "s"},
                                        {"dtype", "s"},
                                        {"batch", "i"},
                                        {"sequence", "i"},
                                        {"context", "in"},
                                        {"tensor_parallel", "i"},
                                        {"pipeline_stages", "i"},
                                        {"expert_parallel", "i"},
                                        {"expert_imbalance", "r"},
                                        {"kv_cache", "s"},
                                        {"sequence_parallel", "b"},
                                        {"context_parallel", "i"},
                                        {"data_parallel", "i"},
                                        {"zero_stage", "i"},
                                        {"overlap", "r"},
                                        {"recompute", "s"},
                                        {"dropout", "s"},
                                        {"microbatches", "i"},
                                        {"framework", "s"},
                                        {"flash_attention", "s"},
                                        {"virtual_stages", "i"},
                                        {"page_size", "i"},
                                        {"fp8_linears", "b"}};
static const key_row operator_keys[] = {{"name", "s"},   {"kind", "s"},    {"pass", "s"},        {"m", "in"},
                                        {"n", "in"},     {"k", "in"},      {"batch", "in"},      {"count", "i"},
                                        {"flops", "i"},  {"bytes", "i"},   {"collective", "sn"}, {"devices", "in"},
                                        {"reads", "sn"}, {"writes", "sn"}, {"weights", "sn"}};

static void describe_has_the_documented_keys(void **state)
{
  static const key_row keys[] = {{"schema", "s"},
                                 {"version", "s"},
                                 {"model", "o"},
                                 {"workload", "o"},
                                 {"parameters", "i"},
                                 {"parameters_excluding_embeddings", "i"},
                                 {"active_parameters", "n"},
                                 {"parameters_by_part", "o"},
                                 {"checkpoint", "n"},
                                 {"flops", "i"},
                                 {"bytes", "i"},
                                 {"expert_load", "n"},
                                 {"kv_cache_bytes_per_token", "i"},
                                 {"kv_cache_bytes_of_next_token", "i"},
                                 {"kv_cache_growth", "a"},
                                 {"state_bytes_per_sequence", "i"},
                                 {"latent_cache", "on"},
                                 {"memory", "o"},
                                 {"device", "s"},
                                 {"largest_batch", "i"},
                                 {"splits", "b"},
                                 {"split", "sn"},
                                 {"operators", "a"}};
  static const key_row parts[] = {{"embedding", "i"}, {"position", "i"}, {"attention", "i"}, {"mlp", "i"},
                                  {"experts", "i"},   {"norm", "i"},     {"logit", "i"},     {"scan", "i"}};
  static const key_row memory[] = {{"weight_bytes", "i"},     {"gradient_bytes", "i"}, {"optimizer_bytes", "i"},
                                   {"activation_bytes", "i"}, {"kv_cache_bytes", "i"}, {"total_bytes", "i"},
                                   {"gathered_bytes", "i"},   {"state_bytes", "i"}};
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  assert_ok(hr_report_description(f.out, &f.options,
                                  &(hr_subject){.model = &f.model, .workload = &f.workload, .hardware = &f.hardware},
                                  NULL, &f.error),
            f.error);
  json_t *document = end(&f, "headroom.describe/2");
  CHECK_KEYS(document, "describe", keys);
  CHECK_KEYS(json_object_get(document, "model"), "model", model_keys);
  CHECK_KEYS(json_object_get(document, "workload"), "workload", workload_keys);
  CHECK_KEYS(json_object_get(document, "parameters_by_part"), "parameters_by_part", parts);
  CHECK_KEYS(json_object_get(document, "memory"), "memory", memory);
  size_t i;
  const json_t *op;
  int64_t flops = 0;
  json_array_foreach(json_object_get(document, "operators"), i, op)
  {
    CHECK_KEYS(op, "operators[]", operator_keys);
    flops += json_integer_value(json_object_get(op, "flops")) * json_integer_value(json_object_get(op, "count"));
  }
  assert_int_equal(json_integer_value(json_object_get(document, "parameters")), 124439808); /* gpt2, as published */
  assert_int_equal(json_integer_value(json_object_get(document, "flops")), flops);
  json_decref(document);
}

static void describe_without_a_device_says_null(void **state)
{
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  assert_ok(hr_report_description(f.out, &f.options,
                                  &(hr_subject){.model = &f.model, .workload = &f.workload, .hardware = NULL}, NULL,
                                  &f.error),
            f.error);
  json_t *document = end(&f, "headroom.describe/2");
  assert_true(json_is_null(json_object_get(document, "device")));
  assert_true(json_is_null(json_object_get(document, "largest_batch")));
  json_decref(document);
}

static void describe_has_the_checkpoint_that_it_is_given(void **state)
{
  static const key_row keys[] = {{"files", "i"}, {"tensors", "i"},           {"elements", "i"},
                                 {"bytes", "i"}, {"formats", "a"},           {"elements_by_part", "o"},
                                 {"match", "s"}, {"compared_elements", "i"}, {"left_out", "a"},
                                 {"text", "s"}};
  static const key_row format[] = {{"format", "s"}, {"tensors", "i"}, {"elements", "i"}, {"bytes", "i"}};
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  hr_checkpoint checkpoint = {.files = 1, .tensors = 2, .elements = 124439808 + 7, .bytes = 248879616 + 28};
  checkpoint.format_tensors[HR_TENSOR_BF16] = checkpoint.format_tensors[HR_TENSOR_FP32] = 1;
  checkpoint.part_elements[HR_CHECKPOINT_WEIGHTS] = checkpoint.format_elements[HR_TENSOR_BF16] = 124439808;
  checkpoint.part_elements[HR_CHECKPOINT_BUFFERS] = checkpoint.format_elements[HR_TENSOR_FP32] = 7;
  assert_ok(hr_report_description(f.out, &f.options,
                                  &(hr_subject){.model = &f.model, .workload = &f.workload, .hardware = NULL},
                                  &checkpoint, &f.error),
            f.error);
  json_t *document = end(&f, "headroom.describe/2");
  const json_t *object = json_object_get(document, "checkpoint");
  CHECK_KEYS(object, "checkpoint", keys);
  assert_int_equal(json_array_size(json_object_get(object, "formats")), 2);
  CHECK_KEYS(json_array_get(json_object_get(object, "formats"), 0), "checkpoint.formats[]", format);
  assert_string_equal(json_string_value(json_object_get(object, "match")), "equal_without");
  assert_string_equal(json_string_value(json_array_get(json_object_get(object, "left_out"), 0)), "buffers");
  assert_int_equal(json_integer_value(json_object_get(object, "compared_elements")), 124439808);
  json_decref(document);
}

static void devices_have_the_documented_keys(void **state)
{
  static const key_row keys[] = {{"name", "s"}, {"status", "s"}, {"detail", "sn"}, {"hardware", "on"}};
  static const key_row library_keys[] = {
      {"name", "s"}, {"purpose", "s"}, {"status", "s"}, {"version", "sn"}, {"detail", "sn"}};
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  const hr_device_report devices[] = {
      {.name = "h200", .status = HR_OK, .detail = "", .hardware = &f.hardware},
      {.name = "cuda:0", .status = HR_ERROR_UNAVAILABLE, .detail = "none here", .hardware = NULL}};
  const hr_library libraries[] = {{.name = "cuBLASLt", .purpose = "products", .version = "13.0.2"},
                                  {.name = "NVRTC", .status = HR_ERROR_UNAVAILABLE, .detail = "not here"}};
  assert_ok(hr_report_devices(
                f.out, &f.options,
                &(hr_devices_report){.devices = devices, .count = 2, .libraries = libraries, .library_count = 2},
                &f.error),
            f.error);
  json_t *document = end(&f, "headroom.devices/1");
  const json_t *list = json_object_get(document, "devices");
  assert_int_equal(json_array_size(list), 2);
  CHECK_KEYS(json_array_get(list, 0), "devices[0]", keys);
  CHECK_KEYS(json_array_get(list, 1), "devices[1]", keys);
  CHECK_KEYS(json_object_get(json_array_get(list, 0), "hardware"), "devices[0].hardware", hardware_keys);
  list = json_object_get(document, "libraries");
  assert_int_equal(json_array_size(list), 2);
  CHECK_KEYS(json_array_get(list, 0), "libraries[0]", library_keys);
  CHECK_KEYS(json_array_get(list, 1), "libraries[1]", library_keys);
  json_decref(document);
}

static void kernels_have_the_documented_keys(void **state)
{
  static const key_row keys[] = {{"name", "s"},   {"operation", "s"}, {"device", "s"}, {"dtypes", "s"},
                                 {"needs", "sn"}, {"runs", "b"},      {"why", "sn"},   {"summary", "s"}};
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  assert_ok(hr_report_kernels(f.out, &f.options, &f.error), f.error);
  json_t *document = end(&f, "headroom.kernels/1");
  size_t i;
  const json_t *kernel;
  assert_true(json_array_size(json_object_get(document, "kernels")) > 0);
  json_array_foreach(json_object_get(document, "kernels"), i, kernel) CHECK_KEYS(kernel, "kernels[]", keys);
  json_decref(document);
}

static void a_full_disk_is_an_error_of_the_output(void **state)
{
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  fclose(f.out);
  free(f.text);
  for (int format = HR_FORMAT_TABLE; format <= HR_FORMAT_MARKDOWN; format++) {
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    f.options.format = (hr_format)format;
    assert_int_equal(hr_report_description(full, &f.options,
                                           &(hr_subject){.model = &f.model, .workload = &f.workload, .hardware = NULL},
                                           NULL, &f.error),
                     HR_ERROR_OUTPUT);
    assert_string_equal(f.error.message, "No space left on device");
    fclose(full);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(describe_has_the_documented_keys),
      cmocka_unit_test(describe_without_a_device_says_null),
      cmocka_unit_test(describe_has_the_checkpoint_that_it_is_given),
      cmocka_unit_test(devices_have_the_documented_keys),
      cmocka_unit_test(kernels_have_the_documented_keys),
      cmocka_unit_test(a_full_disk_is_an_error_of_the_output),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

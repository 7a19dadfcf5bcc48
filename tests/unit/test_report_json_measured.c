/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON output that scripts rely on: every key of docs/json.md exists and has its type.
 * `gemm`, `attention` and `decode`. */
#include "test.h"

#include "report_json.h"

static const key_row gemm_document_keys[] = {{"schema", "s"},          {"version", "s"},     {"device", "s"},
                                             {"hardware", "o"},        {"gemm", "o"},        {"prediction", "o"},
                                             {"library_choice", "sn"}, {"measurement", "on"}};
static const key_row gemm_measurement_keys[] = {{"status", "s"},
                                                {"reason", "sn"},
                                                {"kernel", "sn"},
                                                {"samples", "i"},
                                                {"min_ns", "rn"},
                                                {"p10_ns", "rn"},
                                                {"median_ns", "rn"},
                                                {"mean_ns", "rn"},
                                                {"p90_ns", "rn"},
                                                {"max_ns", "rn"},
                                                {"stddev_ns", "rn"},
                                                {"median_low_ns", "rn"},
                                                {"median_high_ns", "rn"},
                                                {"flops_per_s", "rn"},
                                                {"bytes_per_s", "rn"},
                                                {"warm", "b"},
                                                {"buffer_sets", "i"},
                                                {"max_error", "rn"},
                                                {"rows_checked", "i"},
                                                {"configuration", "sn"},
                                                {"conditions", "o"},
                                                {"ceiling_share", "rn"},
                                                {"latency_ns", "rn"},
                                                {"discarded", "i"},
                                                {"choice", "i"},
                                                {"choices", "i"},
                                                {"choice_speedup", "rn"},
                                                {"workspace_bytes", "rn"},
                                                {"peak_bytes", "rn"},
                                                {"energy_j", "rn"},
                                                {"joules_per_tflop", "rn"},
                                                {"sustained_ns", "rn"},
                                                {"sustained_power_w", "rn"},
                                                {"sustained_clock_hz", "rn"}};
static const key_row conditions_keys[] = {
    {"clock_hz", "rn"}, {"memory_clock_hz", "rn"}, {"power_w", "rn"}, {"temperature_c", "rn"}, {"throttled_by", "sn"}};

static void gemm_has_the_documented_keys(void **state)
{
  static const key_row sizes[] = {{"m", "i"},        {"n", "i"},           {"k", "i"},           {"batch", "i"},
                                  {"dtype", "s"},    {"transpose_a", "b"}, {"transpose_b", "b"}, {"flops", "i"},
                                  {"bytes", "i"},    {"lda", "i"},         {"ldb", "i"},         {"ldc", "i"},
                                  {"stride_a", "i"}, {"stride_b", "i"},    {"stride_c", "i"}};
  static const key_row prediction_keys[] = {
      {"bound_by", "s"},     {"predicted_ns", "r"},   {"predicted_low_ns", "r"}, {"predicted_high_ns", "r"},
      {"efficiency", "r"},   {"matrix_ns", "r"},      {"tile_ns", "r"},          {"wave_ns", "r"},
      {"alignment_ns", "r"}, {"memory_ns", "r"},      {"launch_ns", "r"},        {"tile_waste", "r"},
      {"wave_waste", "r"},   {"alignment_loss", "r"}, {"tile_m", "i"},           {"tile_n", "i"},
      {"tiles", "i"},        {"waves", "i"},          {"m_alignment", "i"},      {"n_alignment", "i"},
      {"k_alignment", "i"},  {"alignment", "i"},      {"reduction_ns", "r"},     {"clock_ns", "r"},
      {"exposed_ns", "r"},   {"splits", "i"}};
  (void)state;
  fixture f;
  hr_prediction prediction;
  hr_measurement measurement = {.status = HR_ERROR_TIMEOUT, .reason = "too slow"};
  begin(&f, "gpt2");
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 8192;
  gemm.n = 50257;
  gemm.k = 2560;
  assert_ok(hr_predict_gemm(&f.hardware, &gemm, &prediction, &f.error), f.error);
  const hr_kernel_measurement run = {"", measurement};
  const hr_measured_call call = {&f.hardware, &prediction, &run, 1};
  assert_ok(hr_report_gemm(f.out, &f.options, &gemm, &call, &f.error), f.error);
  json_t *document = end(&f, "headroom.gemm/2");
  CHECK_KEYS(document, "gemm", gemm_document_keys);
  CHECK_KEYS(json_object_get(document, "gemm"), "gemm.gemm", sizes);
  CHECK_KEYS(json_object_get(document, "prediction"), "gemm.prediction", prediction_keys);
  CHECK_KEYS(json_object_get(document, "measurement"), "gemm.measurement", gemm_measurement_keys);
  CHECK_KEYS(json_object_get(json_object_get(document, "measurement"), "conditions"), "gemm.measurement.conditions",
             conditions_keys);
  assert_true(json_is_null(json_object_get(json_object_get(document, "measurement"), "median_ns")));
  json_decref(document);
}

static const key_row attention_keys[] = {{"schema", "s"},    {"version", "s"},       {"device", "s"}, {"hardware", "o"},
                                         {"attention", "o"}, {"predicted_ns", "rn"}, {"kernels", "a"}};
static const key_row attention_problem_keys[] = {
    {"batch", "i"},   {"q_len", "i"},       {"kv_len", "i"},    {"q_heads", "i"},   {"k_heads", "i"},
    {"v_heads", "i"}, {"qk_dim", "i"},      {"v_dim", "i"},     {"dtype", "s"},     {"causal", "b"},
    {"window", "i"},  {"scale", "r"},       {"softcap", "r"},   {"alibi", "b"},     {"flops", "i"},
    {"bytes", "i"},   {"q_strides", "o"},   {"k_strides", "o"}, {"v_strides", "o"}, {"o_strides", "o"},
    {"output", "s"},  {"head_scales", "b"}, {"backward", "b"}};
static const key_row attention_kernel_keys[] = {{"kernel", "s"},
                                                {"measured_ns", "rn"},
                                                {"measured_low_ns", "rn"},
                                                {"measured_high_ns", "rn"},
                                                {"flops_per_s", "rn"},
                                                {"ceiling_share", "rn"},
                                                {"workspace_bytes", "in"},
                                                {"peak_bytes", "in"},
                                                {"max_error", "rn"},
                                                {"rows_checked", "i"},
                                                {"samples", "i"},
                                                {"configuration", "sn"},
                                                {"status", "s"},
                                                {"reason", "sn"},
                                                {"energy_j", "rn"},
                                                {"joules_per_tflop", "rn"},
                                                {"sustained_ns", "rn"},
                                                {"sustained_power_w", "rn"},
                                                {"sustained_clock_hz", "rn"}};

static void attention_has_the_documented_keys(void **state)
{
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  hr_attention attention = hr_attention_default();
  attention.q_heads = 32, attention.k_heads = 4, attention.v_heads = 16;
  hr_kernel_measurement runs[2] = {
      {.kernel = "attention_one", .measurement = {.samples = 10, .median_ns = 1e3, .workspace_bytes = 64}},
      {.kernel = "attention_two", .measurement = {.status = HR_ERROR_OUT_OF_MEMORY, .reason = "too large"}}};
  runs[1].measurement.workspace_bytes = runs[1].measurement.peak_bytes = (double)NAN;
  assert_ok(hr_report_attention(
                f.out, &f.options, &attention,
                &(hr_measured_call){.hardware = &f.hardware, .prediction = NULL, .runs = runs, .count = 2}, &f.error),
            f.error);
  json_t *document = end(&f, "headroom.attention/1");
  CHECK_KEYS(document, "attention", attention_keys);
  CHECK_KEYS(json_object_get(document, "attention"), "attention.attention", attention_problem_keys);
  const json_t *kernels = json_object_get(document, "kernels");
  assert_int_equal(json_array_size(kernels), 2);
  for (size_t i = 0; i < 2; i++)
    CHECK_KEYS(json_array_get(kernels, i), "attention.kernels[]", attention_kernel_keys);
  assert_true(json_is_null(json_object_get(json_array_get(kernels, 1), "workspace_bytes")));
  assert_true(json_is_false(json_object_get(json_object_get(document, "attention"), "backward")));
  json_decref(document);
}

static void gradients_are_reported_as_an_attention_call_with_their_own_work(void **state)
{
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  hr_attention attention = hr_attention_default();
  int64_t flops = 0, bytes = 0;
  assert_ok(hr_attention_backward_flops(&attention, &flops), f.error);
  assert_ok(hr_attention_backward_bytes(&attention, &bytes), f.error);
  assert_ok(hr_report_attention_backward(f.out, &f.options, &attention, &(hr_measured_call){.hardware = &f.hardware},
                                         &f.error),
            f.error);
  json_t *document = end(&f, "headroom.attention/1"), *call = json_object_get(document, "attention");
  CHECK_KEYS(call, "attention.attention", attention_problem_keys);
  assert_true(json_is_true(json_object_get(call, "backward")));
  assert_int_equal(json_integer_value(json_object_get(call, "flops")), flops);
  assert_int_equal(json_integer_value(json_object_get(call, "bytes")), bytes);
  json_decref(document);
}

static const key_row decode_keys[] = {{"schema", "s"}, {"version", "s"},       {"device", "s"}, {"hardware", "o"},
                                      {"decode", "o"}, {"predicted_ns", "rn"}, {"kernels", "a"}};
static const key_row decode_problem_keys[] = {
    {"batch", "i"},          {"q_len", "i"},        {"kv_len", "i"},          {"q_heads", "i"},
    {"k_heads", "i"},        {"v_heads", "i"},      {"qk_dim", "i"},          {"v_dim", "i"},
    {"page_size", "i"},      {"page_count", "i"},   {"window", "i"},          {"flops", "i"},
    {"table_pitch", "i"},    {"bytes", "i"},        {"dtype", "s"},           {"scale", "r"},
    {"softcap", "r"},        {"sinks", "b"},        {"latent", "b"},          {"q_strides", "o"},
    {"k_strides", "o"},      {"v_strides", "o"},    {"o_strides", "o"},       {"top_k", "i"},
    {"cache_format", "s"},   {"cache_scales", "s"}, {"k_scale_strides", "o"}, {"v_scale_strides", "o"},
    {"batch_invariant", "b"}};
static const key_row decode_kernel_keys[] = {{"kernel", "s"},
                                             {"measured_ns", "rn"},
                                             {"measured_low_ns", "rn"},
                                             {"measured_high_ns", "rn"},
                                             {"bytes_per_s", "rn"},
                                             {"read_share", "rn"},
                                             {"flops_per_s", "rn"},
                                             {"ceiling_share", "rn"},
                                             {"workspace_bytes", "in"},
                                             {"peak_bytes", "in"},
                                             {"max_error", "rn"},
                                             {"rows_checked", "i"},
                                             {"samples", "i"},
                                             {"configuration", "sn"},
                                             {"status", "s"},
                                             {"reason", "sn"},
                                             {"selection_error", "rn"},
                                             {"energy_j", "rn"},
                                             {"joules_per_tflop", "rn"},
                                             {"sustained_ns", "rn"},
                                             {"sustained_power_w", "rn"},
                                             {"sustained_clock_hz", "rn"}};

static void decode_has_the_documented_keys(void **state)
{
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  hr_decode decode = hr_decode_default();
  decode.q_heads = 32, decode.k_heads = 4, decode.v_heads = 16;
  f.hardware.ceilings[0] = (hr_ceiling){.kind = HR_CEILING_READ, .per_s = 4e12};
  f.hardware.ceiling_count = 1;
  hr_kernel_measurement runs[2] = {
      {.kernel = "decode_one", .measurement = {.samples = 10, .median_ns = 1e3, .bytes_per_s = 3e12}},
      {.kernel = "decode_two", .measurement = {.status = HR_ERROR_OUT_OF_MEMORY, .reason = "too large"}}};
  assert_ok(hr_report_decode(f.out, &f.options, &decode,
                             &(hr_measured_call){.hardware = &f.hardware, .prediction = NULL, .runs = runs, .count = 2},
                             &f.error),
            f.error);
  json_t *document = end(&f, "headroom.decode/1");
  CHECK_KEYS(document, "decode", decode_keys);
  CHECK_KEYS(json_object_get(document, "decode"), "decode.decode", decode_problem_keys);
  const json_t *kernels = json_object_get(document, "kernels");
  assert_int_equal(json_array_size(kernels), 2);
  for (size_t i = 0; i < 2; i++)
    CHECK_KEYS(json_array_get(kernels, i), "decode.kernels[]", decode_kernel_keys);
  assert_true(json_number_value(json_object_get(json_array_get(kernels, 0), "read_share")) == 0.75);
  assert_true(json_is_null(json_object_get(json_array_get(kernels, 1), "read_share")));
  json_decref(document);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gemm_has_the_documented_keys),
      cmocka_unit_test(attention_has_the_documented_keys),
      cmocka_unit_test(gradients_are_reported_as_an_attention_call_with_their_own_work),
      cmocka_unit_test(decode_has_the_documented_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

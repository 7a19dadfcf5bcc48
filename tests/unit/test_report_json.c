/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON output that scripts rely on: every key of docs/json.md exists and has its type. */
#include "test.h"

#include "json_keys.h"

#include <headroom/headroom.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const key_row model_keys[] = {
    {"name", "s"},          {"family", "s"},     {"layers", "i"},          {"hidden", "i"},        {"vocabulary", "i"},
    {"max_positions", "i"}, {"q_heads", "i"},    {"k_heads", "i"},         {"v_heads", "i"},       {"qk_dim", "i"},
    {"v_dim", "i"},         {"q_rank", "i"},     {"window", "i"},          {"window_layers", "i"}, {"mlp_width", "i"},
    {"mlp_gated", "b"},     {"activation", "s"}, {"parallel_block", "b"},  {"positions", "s"},     {"rotary_dim", "i"},
    {"norm", "s"},          {"qk_norm", "s"},    {"tied_embeddings", "b"}, {"quantization", "no"}, {"groups", "a"}};
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
                                        {"framework", "s"}};
static const key_row hardware_keys[] = {{"name", "s"},
                                        {"product", "s"},
                                        {"architecture", "s"},
                                        {"kind", "s"},
                                        {"calibration", "s"},
                                        {"error_band", "r"},
                                        {"multiprocessors", "i"},
                                        {"clock_hz", "r"},
                                        {"dense_flops_per_s", "o"},
                                        {"library_flops_per_s", "o"},
                                        {"bandwidth_bytes_per_s", "r"},
                                        {"bandwidth_share", "r"},
                                        {"memory_bytes", "i"},
                                        {"l2_bytes", "i"},
                                        {"usable_memory_bytes", "i"},
                                        {"shared_bytes", "i"},
                                        {"launch_ns", "r"},
                                        {"devices_per_node", "i"},
                                        {"interconnect_bytes_per_s", "r"},
                                        {"interconnect_latency_ns", "r"},
                                        {"network_bytes_per_s", "r"},
                                        {"network_latency_ns", "r"},
                                        {"ceilings", "e"},
                                        {"collectives", "e"},
                                        {"numa_nodes", "i"},
                                        {"placement", "sn"},
                                        {"power_limit_w", "rn"},
                                        {"clock", "s"},
                                        {"cache", "s"},
                                        {"calibrated", "sn"}};
static const key_row operator_keys[] = {{"name", "s"},  {"kind", "s"},  {"pass", "s"},        {"m", "in"},
                                        {"n", "in"},    {"k", "in"},    {"batch", "in"},      {"count", "i"},
                                        {"flops", "i"}, {"bytes", "i"}, {"collective", "sn"}, {"devices", "in"}};
static const key_row predicted_operator_keys[] = {{"name", "s"},
                                                  {"kind", "s"},
                                                  {"pass", "s"},
                                                  {"m", "in"},
                                                  {"n", "in"},
                                                  {"k", "in"},
                                                  {"batch", "in"},
                                                  {"count", "i"},
                                                  {"flops", "i"},
                                                  {"bytes", "i"},
                                                  {"predicted_ns", "r"},
                                                  {"predicted_low_ns", "r"},
                                                  {"predicted_high_ns", "r"},
                                                  {"share", "r"},
                                                  {"bound_by", "s"},
                                                  {"efficiency", "r"},
                                                  {"tile_waste", "rn"},
                                                  {"wave_waste", "rn"},
                                                  {"alignment", "in"},
                                                  {"alignment_loss", "rn"},
                                                  {"tile_m", "i"},
                                                  {"tile_n", "i"},
                                                  {"tiles", "i"},
                                                  {"waves", "i"},
                                                  {"collective", "sn"},
                                                  {"devices", "in"},
                                                  {"bus_bytes_per_s", "rn"}};

/* The inputs of a test, and the document that a report wrote about them. */
typedef struct fixture {
  hr_hardware hardware;
  hr_model model;
  hr_workload workload;
  hr_report_options options;
  hr_error error;
  char *text;
  size_t length;
  FILE *out;
} fixture;

static void begin(fixture *f, const char *model)
{
  memset(f, 0, sizeof *f);
  assert_ok(hr_resolve_hardware("h200", &f->hardware, &f->error), f->error);
  assert_ok(hr_resolve_model(model, NULL, NULL, &f->model, &f->error), f->error);
  f->workload = hr_workload_default(&f->model);
  f->options = hr_report_options_default();
  f->options.format = HR_FORMAT_JSON;
  f->out = open_memstream(&f->text, &f->length);
  assert_non_null(f->out);
}

/* Parses the output; the caller decrefs. */
static json_t *end(fixture *f, const char *schema)
{
  fclose(f->out);
  json_error_t problem;
  json_t *document = json_loads(f->text, JSON_REJECT_DUPLICATES, &problem);
  if (!document)
    fail_msg("%s: line %d: %s", schema, problem.line, problem.text);
  assert_string_equal(json_string_value(json_object_get(document, "schema")), schema);
  assert_string_equal(json_string_value(json_object_get(document, "version")), HR_VERSION);
  free(f->text);
  return document;
}

#define PAPER_SHAPE "{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"s\":2048,\"b\":4}"

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
                                 {"state_bytes_per_sequence", "i"},
                                 {"latent_cache", "on"},
                                 {"memory", "o"},
                                 {"device", "s"},
                                 {"largest_batch", "i"},
                                 {"operators", "a"}};
  static const key_row parts[] = {{"embedding", "i"}, {"position", "i"}, {"attention", "i"}, {"mlp", "i"},
                                  {"experts", "i"},   {"norm", "i"},     {"logit", "i"},     {"scan", "i"}};
  static const key_row memory[] = {{"weight_bytes", "i"},     {"gradient_bytes", "i"}, {"optimizer_bytes", "i"},
                                   {"activation_bytes", "i"}, {"kv_cache_bytes", "i"}, {"total_bytes", "i"},
                                   {"gathered_bytes", "i"},   {"state_bytes", "i"}};
  (void)state;
  fixture f;
  begin(&f, "gpt2");
  assert_ok(hr_report_description(f.out, &f.options, &f.model, &f.workload, &f.hardware, NULL, &f.error), f.error);
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
  assert_ok(hr_report_description(f.out, &f.options, &f.model, &f.workload, NULL, NULL, &f.error), f.error);
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
  assert_ok(hr_report_description(f.out, &f.options, &f.model, &f.workload, NULL, &checkpoint, &f.error), f.error);
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

static const key_row advise_keys[] = {{"schema", "s"},
                                      {"version", "s"},
                                      {"device", "s"},
                                      {"hardware", "o"},
                                      {"model", "o"},
                                      {"workload", "o"},
                                      {"parameters", "i"},
                                      {"flops", "i"},
                                      {"step_time_ns", "r"},
                                      {"step_time_low_ns", "r"},
                                      {"step_time_high_ns", "r"},
                                      {"layer_time_ns", "r"},
                                      {"logit_time_ns", "r"},
                                      {"communication_time_ns", "r"},
                                      {"tokens_per_s", "r"},
                                      {"model_efficiency", "r"},
                                      {"microbatch_time_ns", "r"},
                                      {"stage_time_ns", "r"},
                                      {"bubble", "r"},
                                      {"tokens_per_s_per_device", "r"},
                                      {"replica_ns", "r"},
                                      {"exposed_ns", "r"},
                                      {"origin", "s"},
                                      {"retrain_last", "b"},
                                      {"left_out", "i"},
                                      {"left_out_high", "i"},
                                      {"operators", "a"},
                                      {"layouts", "a"},
                                      {"findings", "a"},
                                      {"combined", "a"},
                                      {"measurement", "on"}};
static const key_row finding_keys[] = {{"rule", "s"},
                                       {"severity", "s"},
                                       {"class", "s"},
                                       {"not_applicable", "b"},
                                       {"cannot_run", "b"},
                                       {"operator", "sn"},
                                       {"operators", "sn"},
                                       {"why", "s"},
                                       {"current", "sn"},
                                       {"suggested", "sn"},
                                       {"parameter_change", "rn"},
                                       {"predicted_operator_gain", "rn"},
                                       {"predicted_gain", "rn"},
                                       {"gain_per_device", "b"},
                                       {"predicted_time_ns", "rn"},
                                       {"measured_operator_gain", "rn"},
                                       {"measured_gain", "rn"},
                                       {"cost", "sn"},
                                       {"cost_source", "sn"},
                                       {"source", "sn"}};
static const key_row layout_keys[] = {{"tensor_parallel", "i"},
                                      {"pipeline_stages", "i"},
                                      {"devices", "i"},
                                      {"nodes", "i"},
                                      {"step_time_ns", "r"},
                                      {"step_time_low_ns", "r"},
                                      {"step_time_high_ns", "r"},
                                      {"tokens_per_s", "r"},
                                      {"tokens_per_s_per_device", "r"},
                                      {"communication_share", "r"},
                                      {"bubble", "r"},
                                      {"memory_bytes", "i"},
                                      {"fits", "b"},
                                      {"largest_batch", "i"},
                                      {"given", "b"},
                                      {"fastest", "b"},
                                      {"most_per_device", "b"},
                                      {"fewest_devices", "b"},
                                      {"heads_split", "b"}};
static const key_row combined_keys[] = {{"rule", "s"},
                                        {"class", "s"},
                                        {"why", "s"},
                                        {"suggested", "sn"},
                                        {"parameter_change", "rn"},
                                        {"predicted_gain", "rn"},
                                        {"measured_gain", "rn"},
                                        {"model", "o"},
                                        {"workload", "o"}};
static const key_row measurement_keys[] = {{"batch", "i"},    {"sequence", "i"}, {"reduced", "b"}, {"note", "sn"},
                                           {"complete", "b"}, {"findings", "a"}, {"rows", "a"}};
static const key_row measured_row_keys[] = {{"rule", "s"},
                                            {"operator", "s"},
                                            {"before_ns", "rn"},
                                            {"after_ns", "rn"},
                                            {"before_m", "i"},
                                            {"before_n", "i"},
                                            {"before_k", "i"},
                                            {"before_batch", "i"},
                                            {"after_m", "i"},
                                            {"after_n", "i"},
                                            {"after_k", "i"},
                                            {"after_batch", "i"},
                                            {"predicted_before_ns", "r"},
                                            {"predicted_after_ns", "r"},
                                            {"predicted_gain", "r"},
                                            {"measured_gain", "rn"},
                                            {"measured_gain_low", "rn"},
                                            {"measured_gain_high", "rn"},
                                            {"samples", "i"},
                                            {"kernel_before", "sn"},
                                            {"kernel_after", "sn"},
                                            {"status", "s"},
                                            {"reason", "sn"},
                                            {"before_operators", "s"},
                                            {"before_problem", "s"},
                                            {"after_problem", "s"}};

static const key_row confirmed_keys[] = {{"rule", "s"},
                                         {"predicted_operator_gain", "rn"},
                                         {"measured_operator_gain", "rn"},
                                         {"predicted_gain", "rn"},
                                         {"measured_gain", "rn"},
                                         {"measured_gain_low", "rn"},
                                         {"measured_gain_high", "rn"},
                                         {"status", "s"},
                                         {"reason", "sn"}};

/* A confirmation of the first finding's main operator, as a measurement fills it. */
static hr_confirmation made_up(hr_confirmation_row *row, hr_confirmed *confirmed, const hr_advice *advice)
{
  *confirmed = (hr_confirmed){.finding = advice->finding_count,
                              .predicted_gain = 0.25,
                              .measured_gain = NAN,
                              .status = HR_ERROR_TIMEOUT,
                              .reason = "too slow"};
  *row = (hr_confirmation_row){.finding = 0,
                               .before_count = 1,
                               .before = {advice->step.operators.items[advice->step.operators.count - 1]},
                               .predicted_before_ns = 2e6,
                               .predicted_after_ns = 1e6,
                               .token_ratio = 1};
  row->after = row->before[0];
  row->comparison.ratio = 1.75;
  row->comparison.ratio_low = 1.5;
  row->comparison.ratio_high = NAN; /* must not make the document invalid */
  row->comparison.before.samples = 10;
  row->comparison.before.median_ns = 2.1e6;
  return (hr_confirmation){.batch = 1,
                           .sequence = 128,
                           .reduced = true,
                           .note = "fewer tokens",
                           .complete = true,
                           .count = 1,
                           .rows = row,
                           .finding_count = 1,
                           .findings = confirmed};
}

static void check_advice(const json_t *document)
{
  size_t i;
  const json_t *item;
  CHECK_KEYS(document, "advise", advise_keys);
  CHECK_KEYS(json_object_get(document, "hardware"), "hardware", hardware_keys);
  json_array_foreach(json_object_get(document, "operators"), i, item)
      CHECK_KEYS(item, "operators[]", predicted_operator_keys);
  json_array_foreach(json_object_get(document, "findings"), i, item) CHECK_KEYS(item, "findings[]", finding_keys);
  json_array_foreach(json_object_get(document, "layouts"), i, item) CHECK_KEYS(item, "layouts[]", layout_keys);
  json_array_foreach(json_object_get(document, "combined"), i, item) CHECK_KEYS(item, "combined[]", combined_keys);
}

static void advise_has_the_documented_keys(void **state)
{
  (void)state;
  fixture f;
  hr_advice *advice;
  begin(&f, PAPER_SHAPE);
  assert_ok(hr_advise(&f.hardware, &f.model, &f.workload, &advice, &f.error), f.error);
  assert_ok(hr_report_advice(f.out, &f.options, advice, NULL, &f.error), f.error);
  json_t *document = end(&f, "headroom.advise/4");
  check_advice(document);
  assert_true(json_is_null(json_object_get(document, "measurement")));
  const json_t *first = json_array_get(json_object_get(document, "findings"), 0);
  assert_true(json_is_null(json_object_get(first, "measured_gain")));
  json_decref(document);
  hr_advice_free(advice);
}

static void advise_with_a_measurement_has_the_documented_keys(void **state)
{
  (void)state;
  fixture f;
  hr_advice *advice;
  hr_confirmation_row row;
  hr_confirmed confirmed;
  begin(&f, PAPER_SHAPE);
  assert_ok(hr_advise(&f.hardware, &f.model, &f.workload, &advice, &f.error), f.error);
  advice->findings[0].measured_gain = 0.125;
  hr_confirmation confirmation = made_up(&row, &confirmed, advice);
  assert_ok(hr_report_advice(f.out, &f.options, advice, &confirmation, &f.error), f.error);
  json_t *document = end(&f, "headroom.advise/4");
  check_advice(document);
  const json_t *measurement = json_object_get(document, "measurement");
  CHECK_KEYS(measurement, "measurement", measurement_keys);
  const json_t *written = json_array_get(json_object_get(measurement, "rows"), 0);
  CHECK_KEYS(written, "measurement.rows[]", measured_row_keys);
  const json_t *both = json_array_get(json_object_get(measurement, "findings"), 0);
  CHECK_KEYS(both, "measurement.findings[]", confirmed_keys);
  assert_string_equal(json_string_value(json_object_get(both, "rule")), "combined_retrain");
  assert_true(json_is_null(json_object_get(both, "measured_gain")));
  assert_string_equal(json_string_value(json_object_get(both, "reason")), "too slow");
  assert_true(json_is_null(json_object_get(written, "measured_gain_high")));
  assert_true(json_real_value(json_object_get(written, "measured_gain")) == 0.75);
  const json_t *first = json_array_get(json_object_get(document, "findings"), 0);
  assert_true(json_real_value(json_object_get(first, "measured_gain")) == 0.125);
  json_decref(document);
  hr_advice_free(advice);
}

static void search_has_the_documented_keys(void **state)
{
  static const key_row keys[] = {{"schema", "s"},    {"version", "s"},  {"device", "s"},      {"hardware", "o"},
                                 {"model", "o"},     {"workload", "o"}, {"parameters", "i"},  {"step_time_ns", "r"},
                                 {"evaluated", "i"}, {"complete", "b"}, {"shapes", "a"},      {"varied", "a"},
                                 {"serve_on", "a"},  {"unserved", "i"}, {"unserved_on", "e"}, {"free", "on"}};
  static const key_row shapes[] = {{"hidden", "i"},
                                   {"layers", "i"},
                                   {"heads", "i"},
                                   {"k_heads", "i"},
                                   {"v_heads", "i"},
                                   {"head_dim", "i"},
                                   {"v_dim", "i"},
                                   {"mlp_width", "in"},
                                   {"expert_width", "in"},
                                   {"shared_width", "in"},
                                   {"active_parameters", "in"},
                                   {"vocabulary", "i"},
                                   {"parameters", "i"},
                                   {"parameter_change", "r"},
                                   {"step_time_ns", "r"},
                                   {"predicted_gain", "r"},
                                   {"pareto", "b"},
                                   {"cache_change", "r"},
                                   {"class", "s"},
                                   {"differs", "s"}};
  (void)state;
  fixture f;
  hr_search_result *result;
  hr_search_options options = hr_search_options_default();
  options.evaluations_max = 20000;
  begin(&f, PAPER_SHAPE);
  assert_ok(hr_search(&f.hardware, &f.model, &f.workload, &options, NULL, NULL, &result, &f.error), f.error);
  assert_ok(hr_report_search(f.out, &f.options, &f.model, &f.workload, &f.hardware, result, &f.error), f.error);
  json_t *document = end(&f, "headroom.search/2");
  CHECK_KEYS(document, "search", keys);
  size_t i;
  const json_t *shape;
  json_array_foreach(json_object_get(document, "shapes"), i, shape) CHECK_KEYS(shape, "shapes[]", shapes);
  json_decref(document);
  hr_search_result_free(result);
}

static const key_row gemm_document_keys[] = {{"schema", "s"},      {"version", "s"}, {"device", "s"},
                                             {"hardware", "o"},    {"gemm", "o"},    {"prediction", "o"},
                                             {"measurement", "on"}};
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
  assert_ok(hr_report_gemm(f.out, &f.options, &gemm, &f.hardware, &prediction, &measurement, &f.error), f.error);
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
    {"batch", "i"},   {"q_len", "i"},     {"kv_len", "i"},    {"q_heads", "i"},   {"k_heads", "i"},
    {"v_heads", "i"}, {"qk_dim", "i"},    {"v_dim", "i"},     {"dtype", "s"},     {"causal", "b"},
    {"window", "i"},  {"scale", "r"},     {"softcap", "r"},   {"alibi", "b"},     {"flops", "i"},
    {"bytes", "i"},   {"q_strides", "o"}, {"k_strides", "o"}, {"v_strides", "o"}, {"o_strides", "o"}};
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
  assert_ok(hr_report_attention(f.out, &f.options, &attention, &f.hardware, NULL, runs, 2, &f.error), f.error);
  json_t *document = end(&f, "headroom.attention/1");
  CHECK_KEYS(document, "attention", attention_keys);
  CHECK_KEYS(json_object_get(document, "attention"), "attention.attention", attention_problem_keys);
  const json_t *kernels = json_object_get(document, "kernels");
  assert_int_equal(json_array_size(kernels), 2);
  for (size_t i = 0; i < 2; i++)
    CHECK_KEYS(json_array_get(kernels, i), "attention.kernels[]", attention_kernel_keys);
  assert_true(json_is_null(json_object_get(json_array_get(kernels, 1), "workspace_bytes")));
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
  assert_ok(hr_report_decode(f.out, &f.options, &decode, &f.hardware, NULL, runs, 2, &f.error), f.error);
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
  assert_ok(hr_report_devices(f.out, &f.options, devices, 2, libraries, 2, &f.error), f.error);
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
    assert_int_equal(hr_report_description(full, &f.options, &f.model, &f.workload, NULL, NULL, &f.error),
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
      cmocka_unit_test(advise_has_the_documented_keys),
      cmocka_unit_test(advise_with_a_measurement_has_the_documented_keys),
      cmocka_unit_test(search_has_the_documented_keys),
      cmocka_unit_test(gemm_has_the_documented_keys),
      cmocka_unit_test(attention_has_the_documented_keys),
      cmocka_unit_test(decode_has_the_documented_keys),
      cmocka_unit_test(devices_have_the_documented_keys),
      cmocka_unit_test(kernels_have_the_documented_keys),
      cmocka_unit_test(a_full_disk_is_an_error_of_the_output),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON output that scripts rely on: every key of docs/json.md exists and has its type. `advise` and `search`. */
#include "test.h"

#include "analysis/advise/advice.h"
#include "report_json.h"

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
                                                  {"matrix_ns", "r"},
                                                  {"tile_ns", "r"},
                                                  {"wave_ns", "r"},
                                                  {"alignment_ns", "r"},
                                                  {"reduction_ns", "r"},
                                                  {"clock_ns", "r"},
                                                  {"launch_ns", "r"},
                                                  {"exposed_ns", "r"},
                                                  {"memory_ns", "r"},
                                                  {"pair_ns", "r"},
                                                  {"split_ns", "r"},
                                                  {"cache_ns", "r"},
                                                  {"rounding_ns", "r"},
                                                  {"padding_ns", "r"},
                                                  {"collective", "sn"},
                                                  {"devices", "in"},
                                                  {"bus_bytes_per_s", "rn"},
                                                  {"library", "sn"}};

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
                                       {"eager_gain", "rn"},
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
                                      {"heads_split", "b"},
                                      {"splits", "b"},
                                      {"split", "sn"}};
static const key_row combined_keys[] = {{"rule", "s"},
                                        {"class", "s"},
                                        {"why", "s"},
                                        {"suggested", "sn"},
                                        {"parameter_change", "rn"},
                                        {"predicted_gain", "rn"},
                                        {"eager_gain", "rn"},
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
                                         {"measured_as", "sn"},
                                         {"status", "s"},
                                         {"reason", "sn"}};

/* A confirmation of the first finding's main operator, as a measurement fills it. */
static hr_confirmation made_up(hr_confirmation_row *row, hr_confirmed *confirmed, const hr_advice *advice)
{
  *confirmed = (hr_confirmed){.finding = advice->about.finding_count,
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
  json_t *document = end(&f, "headroom.advise/5");
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
  json_t *document = end(&f, "headroom.advise/5");
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
  assert_ok(hr_search(&f.hardware, &f.model, &f.workload, &options, &result, &f.error), f.error);
  assert_ok(hr_report_search(f.out, &f.options,
                             &(hr_subject){.model = &f.model, .workload = &f.workload, .hardware = &f.hardware}, result,
                             &f.error),
            f.error);
  json_t *document = end(&f, "headroom.search/2");
  CHECK_KEYS(document, "search", keys);
  size_t i;
  const json_t *shape;
  json_array_foreach(json_object_get(document, "shapes"), i, shape) CHECK_KEYS(shape, "shapes[]", shapes);
  json_decref(document);
  hr_search_result_free(result);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(advise_has_the_documented_keys),
      cmocka_unit_test(advise_with_a_measurement_has_the_documented_keys),
      cmocka_unit_test(search_has_the_documented_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The text report of an advice. */
#include "test.h"

#include "advice.h"
#include "models.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/report.h>
#include <math.h>
#include <stdlib.h>

static char *written(const hr_advice *advice, const hr_confirmation *confirmation, const hr_report_options *options)
{
  hr_error error;
  char *text;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  assert_ok(hr_report_advice(out, options, advice, confirmation, &error), error);
  fclose(out);
  return text;
}

static char *told_in(const hr_advice *advice, const hr_confirmation *confirmation, int width)
{
  hr_report_options options = hr_report_options_default();
  options.width = width;
  return written(advice, confirmation, &options);
}

static char *told(const hr_advice *advice, const hr_confirmation *confirmation)
{
  return told_in(advice, confirmation, 0);
}

static void gains_wrap_in_a_narrow_terminal(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *advice = advise("h200", &model);
  char *text = told_in(advice, NULL, 40);
  const char *gains = strstr(text, "        parameters 0%,  operator +");
  assert_non_null(gains);
  assert_non_null(strstr(gains, ",\n        step +"));
  free(text);
  hr_advice_free(advice);
}

static void measured_gains_have_an_interval_and_their_size(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *advice = advise("h200", &model);
  advice->findings[0].measured_gain = 0.11;
  advice->findings[0].measured_operator_gain = 0.5;
  hr_confirmed confirmed = {.finding = 0,
                            .predicted_gain = 0.07,
                            .measured_gain = 0.11,
                            .measured_operator_gain = 0.5,
                            .measured_gain_low = -0.25,
                            .measured_gain_high = 0.5};
  hr_confirmation confirmation = {
      .batch = 1, .sequence = 512, .reduced = true, .complete = true, .finding_count = 1, .findings = &confirmed};
  char *text = told(advice, &confirmation);
  assert_non_null(strstr(text, "        measured at 1 × 512 tokens: step +11.0%,  between -25.0% and +50.0%,  "
                               "predicted there +7.0%,  operator +50.0%\n"));
  free(text);
  confirmation.reduced = false;
  text = told(advice, &confirmation);
  assert_non_null(strstr(text, "        measured: step +11.0%,  between -25.0% and +50.0%,  operator +50.0%\n"));
  free(text);
  hr_advice_free(advice);
}

/* 4 · 2048 tokens of 32 heads of 80; fused, with 8 heads of K and V. */
static void a_call_that_replaces_gemms_is_reported_with_them(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b(), changed = model;
  hr_advice *advice = advise_unfused("h200", &model);
  hr_workload workload = advice->workload;
  static hr_operators fused;
  hr_error error;
  workload.attention = HR_ATTENTION_FUSED;
  changed.groups[0].attention.k_heads = changed.groups[0].attention.v_heads = 8;
  assert_ok(hr_operators_list(&changed, &workload, &fused, &error), error);
  const hr_operators *unfused = &advice->step.operators;
  hr_confirmation_row row = {.before_count = 3,
                             .before = {*hr_operators_find(unfused, HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD),
                                        *hr_operators_find(unfused, HR_OP_SOFTMAX, HR_PASS_FORWARD),
                                        *hr_operators_find(unfused, HR_OP_ATTENTION_OVER_VALUE, HR_PASS_FORWARD)},
                             .after = *hr_operators_find(&fused, HR_OP_ATTENTION, HR_PASS_FORWARD),
                             .token_ratio = 2, /* as if it processed twice the tokens */
                             .predicted_before_ns = 3e6,
                             .predicted_after_ns = 1.5e6,
                             .comparison = {.before = {.samples = 10, .median_ns = 3e6},
                                            .after = {.samples = 10, .median_ns = 1e6},
                                            .ratio = 3}};
  hr_confirmation confirmation = {.batch = 4, .sequence = 2048, .complete = true, .count = 1, .rows = &row};
  char *text = told(advice, &confirmation);
  assert_non_null(strstr(text, "  attention  2048×2048×80 ×128, unfused  2048×2048×80 ×128, 8 K/V heads   3.00 ms  "
                               "1.00 ms      +300%     +500%"));
  free(text);
  hr_report_options options = hr_report_options_default();
  options.format = HR_FORMAT_CSV;
  options.csv = HR_CSV_MEASUREMENTS;
  text = written(advice, &confirmation, &options);
  assert_non_null(strstr(text, ",attention,3000000,1000000,2048,2048,80,128,2048,2048,80,128,"));
  assert_non_null(
      strstr(text, ",attention_score softmax attention_over_value,gemm m=2048 n=2048 k=80 batch=128 dtype=bf16 ta=0 "
                   "tb=1 + gemm m=2048 n=80 k=2048 batch=128 dtype=bf16 ta=0 tb=0,attention batch=4 "
                   "q_len=2048 kv_len=2048 q_heads=32 k_heads=8 v_heads=8 qk_dim=80 v_dim=80 "));
  free(text);
  hr_advice_free(advice);
}

static void of_a_pair_the_half_without_a_time_is_reported(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *advice = advise("h200", &model);
  const hr_operator *logit = hr_operators_find(&advice->step.operators, HR_OP_LOGIT, HR_PASS_FORWARD);
  hr_confirmation_row row = {
      .before_count = 1,
      .before = {*logit},
      .after = *logit,
      .token_ratio = 1,
      .comparison = {.before = {.status = HR_ERROR_NOISY, .samples = 10, .median_ns = 3e6, .reason = "unsettled"},
                     .after = {.status = HR_ERROR_TIMEOUT, .median_ns = NAN, .reason = "too slow"},
                     .ratio = NAN}};
  hr_confirmation confirmation = {.batch = 4, .sequence = 2048, .complete = true, .count = 1, .rows = &row};
  hr_report_options options = hr_report_options_default();
  options.format = HR_FORMAT_CSV;
  options.csv = HR_CSV_MEASUREMENTS;
  char *text = written(advice, &confirmation, &options);
  assert_non_null(strstr(text, ",timeout,too slow,"));
  free(text);
  text = told(advice, &confirmation);
  assert_non_null(strstr(text, "the first: too slow"));
  free(text);
  hr_advice_free(advice);
}

static void a_small_share_of_the_peak_is_not_shown_as_zero(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.phase = HR_PHASE_DECODE;
  workload.batch = 1;
  workload.context = 100;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  assert_true(advice->step.about.model_efficiency > 0.0001 && advice->step.about.model_efficiency < 0.01);
  char *text = told(advice, NULL);
  assert_null(strstr(text, " 0% of the peak rate"));
  free(text);
  hr_advice_free(advice);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gains_wrap_in_a_narrow_terminal),
      cmocka_unit_test(measured_gains_have_an_interval_and_their_size),
      cmocka_unit_test(a_call_that_replaces_gemms_is_reported_with_them),
      cmocka_unit_test(of_a_pair_the_half_without_a_time_is_reported),
      cmocka_unit_test(a_small_share_of_the_peak_is_not_shown_as_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The report of an advice as people read it. */
#include "test.h"

#include "advice.h"
#include "models.h"

#include <headroom/report.h>
#include <stdlib.h>

static char *told_in(const hr_advice *advice, const hr_confirmation *confirmation, int width)
{
  hr_report_options options = hr_report_options_default();
  options.width = width;
  hr_error error;
  char *text;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  assert_ok(hr_report_advice(out, &options, advice, confirmation, &error), error);
  fclose(out);
  return text;
}

static char *told(const hr_advice *advice, const hr_confirmation *confirmation)
{
  return told_in(advice, confirmation, 0);
}

static void gains_go_on_below_in_a_narrow_terminal(void **state)
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

static void measured_gains_say_how_sure_they_are_and_at_which_size(void **state)
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

static void a_small_share_of_the_peak_is_not_said_to_be_none(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.phase = HR_PHASE_DECODE;
  workload.batch = 1;
  workload.context = 100;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  assert_true(advice->step.model_efficiency > 0.0001 && advice->step.model_efficiency < 0.01);
  char *text = told(advice, NULL);
  assert_null(strstr(text, " 0% of the peak rate"));
  free(text);
  hr_advice_free(advice);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gains_go_on_below_in_a_narrow_terminal),
      cmocka_unit_test(measured_gains_say_how_sure_they_are_and_at_which_size),
      cmocka_unit_test(a_small_share_of_the_peak_is_not_said_to_be_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

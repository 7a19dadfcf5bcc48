/* SPDX-License-Identifier: Apache-2.0 */
/* Confirmation by whole steps on this machine's CPU: which findings it takes, and what their gains are. No
 * measured time is compared. */
#include "confirm_fixture.h"

#include "runtime/device/plan.h"

static hr_device *open_cpu(void)
{
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  return device;
}

static hr_advice *make_running_advice(void)
{
  hr_advice *advice = make_advice();
  advice->workload.attention = HR_ATTENTION_FUSED;
  advice->workload.framework = HR_FRAMEWORK_HEADROOM;
  return advice;
}

static hr_confirmation *confirm(hr_device *device, hr_advice *advice, double budget_ns, hr_progress_fn progress)
{
  hr_confirmation *confirmation = NULL;
  hr_error error;
  hr_confirm_options options = hr_confirm_options_default();
  options.budget_ns = budget_ns;
  options.progress = progress;
  assert_ok(hr_confirm(device, advice, &options, &confirmation, &error), error);
  return confirmation;
}

static void close_all(hr_confirmation *confirmation, hr_advice *advice, hr_device *device)
{
  hr_confirmation_free(confirmation);
  free(advice);
  hr_device_close(device);
}

static void a_gain_is_of_whole_steps_where_both_models_run(void **state)
{
  (void)state;
  const hr_phase phases[] = {HR_PHASE_FORWARD, HR_PHASE_PREFILL, HR_PHASE_DECODE};
  for (int i = 0; i < 3; i++) {
    hr_device *device = open_cpu();
    hr_advice *advice = make_running_advice();
    advice->workload.phase = phases[i], advice->workload.context = 32;
    add_finding(advice, "logit")->model.vocabulary = 128;
    hr_confirmation *confirmation = confirm(device, advice, 5e9, NULL);
    const hr_confirmed *confirmed = &confirmation->findings[0];
    assert_true(confirmed->by_steps && confirmed->status == HR_OK);
    assert_string_equal(confirmed->reason, "");
    assert_true(confirmed->measured_gain_low <= confirmed->measured_gain);
    assert_true(confirmed->measured_gain <= confirmed->measured_gain_high);
    assert_true(isfinite(confirmed->measured_operator_gain));
    assert_true(advice->findings[0].measured_gain == confirmed->measured_gain);
    assert_int_equal(confirmation->count, 1); /* the logits, within the steps */
    const hr_confirmation_row *row = &confirmation->rows[0];
    assert_true(row->before[0].gemm.n == 100 && row->after.gemm.n == 128);
    assert_true(row->comparison.before.median_ns > 0 && row->comparison.after.median_ns > 0);
    close_all(confirmation, advice, device);
  }
}

static void a_change_of_layers_has_a_measured_gain_of_steps(void **state)
{
  (void)state;
  hr_device *device = open_cpu();
  hr_advice *advice = make_running_advice();
  hr_layer_group *layers = &add_finding(advice, "mlp_norm")->model.groups[0];
  layers->parallel_block = true;
  hr_confirmation *confirmation = confirm(device, advice, 5e9, NULL);
  assert_true(confirmation->findings[0].by_steps && isfinite(confirmation->findings[0].measured_gain));
  close_all(confirmation, advice, device);
}

/* Steps of 2 sequences take 1/0.8 as long: 2 · 0.8 − 1; the logits 300 ns for one and 400 ns for two: 2 · 3/4 − 1. */
static void gains_of_steps_are_per_token(void **state)
{
  (void)state;
  hr_device *device = open_cpu();
  hr_advice *advice = make_running_advice();
  add_finding(advice, "logit")->workload.batch = 2;
  hr_confirm_run *c = choose(device, advice, 1e12);
  hr_confirm_subject *subject = &c->subjects[0];
  assert_int_equal(c->job_count, 1);
  assert_true(c->jobs[0].steps == subject && subject->by_steps);
  subject->done = subject->timed = true;
  subject->steps = (hr_comparison){.ratio = 0.8, .ratio_low = 0.7, .ratio_high = 0.9};
  hr_confirmed confirmed;
  hr_error error;
  for (size_t i = 0; i < c->before.operators.count; i++) {
    const bool logit = c->before.operators.items[i].id == HR_OP_LOGIT;
    subject->operators_ns[0][i] = logit ? 300 : 1e6, subject->operators_ns[1][i] = logit ? 400 : 1;
  }
  assert_ok(hr_confirm_gains(c, subject, &confirmed, &error), error);
  assert_near(confirmed.measured_gain, 0.6);
  assert_near(confirmed.measured_gain_low, 0.4);
  assert_near(confirmed.measured_gain_high, 0.8);
  assert_near(confirmed.measured_operator_gain, 0.5);
  free_all(c, advice, device);
}

typedef struct refused_row {
  const char *words;
  void (*change)(hr_advice *advice, hr_finding *finding);
} refused_row;

static void unfuse(hr_advice *advice, hr_finding *finding)
{
  advice->workload.attention = finding->workload.attention = HR_ATTENTION_UNFUSED;
}

static void compile(hr_advice *advice, hr_finding *finding)
{
  advice->workload.framework = finding->workload.framework = HR_FRAMEWORK_COMPILED;
}

static void split(hr_advice *advice, hr_finding *finding)
{
  (void)advice;
  finding->workload.tensor_parallel = 2;
}

static void divide(hr_advice *advice, hr_finding *finding)
{
  (void)advice;
  finding->workload.pipeline_stages = 2;
}

static void activate(hr_advice *advice, hr_finding *finding)
{
  (void)advice;
  strcpy(finding->model.activation, "mish");
}

static void what_no_step_runs_is_measured_by_operators_and_says_why(void **state)
{
  (void)state;
  static const refused_row rows[] = {{"unfused attention", unfuse},
                                     {"Headroom's kernels", compile},
                                     {"compared on one device", split},
                                     {"compared on one device", divide},
                                     {"the activation mish", activate}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hr_device *device = open_cpu();
    hr_advice *advice = make_running_advice();
    hr_finding *finding = add_finding(advice, "logit");
    finding->model.vocabulary = 128;
    rows[i].change(advice, finding);
    hr_confirm_run *c = choose(device, advice, 1e12);
    hr_confirmed confirmed;
    hr_error error;
    set_times(c, 1000, 5000, 2, 2, 2);
    assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
    assert_true(!confirmed.by_steps && isfinite(confirmed.measured_gain));
    if (!strstr(confirmed.reason, "by operators: ") || !strstr(confirmed.reason, rows[i].words))
      fail_msg("\"%s\" does not say \"%s\"", confirmed.reason, rows[i].words);
    free_all(c, advice, device);
  }
}

static void weights_that_take_half_of_the_budget_leave_operators(void **state)
{
  (void)state;
  hr_device *device = open_cpu();
  hr_advice *advice = make_running_advice();
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1);
  assert_false(c->subjects[0].by_steps);
  assert_non_null(strstr(c->subjects[0].why, "half of the budget"));
  assert_true(c->job_count > 1);
  free_all(c, advice, device);
}

/* A billion layers of 64 · 64 · 12 weights. */
static void models_that_do_not_fit_together_leave_operators(void **state)
{
  (void)state;
  hr_device *device = open_cpu();
  hr_advice *advice = make_running_advice();
  advice->model.groups[0].count = (int64_t)1 << 30;
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1e18);
  assert_false(c->subjects[0].by_steps);
  assert_non_null(strstr(c->subjects[0].why, "half of the free memory"));
  free_all(c, advice, device);
}

/* A step needs norms, too, whose kernels are missed when its plans are made. */
static void leave_rowwise_out(hr_device *device, hr_kernel *kernels)
{
  size_t count = 0;
  for (size_t i = 0; i < device->kernel_count; i++) {
    if (strcmp(device->kernels[i].info->operation, "rowwise") != 0)
      kernels[count++] = device->kernels[i];
  }
  device->kernels = kernels;
  device->kernel_count = count;
}

static void steps_that_fail_are_measured_by_operators(void **state)
{
  (void)state;
  hr_kernel kernels[256];
  hr_device *device = open_cpu();
  hr_advice *advice = make_running_advice();
  assert_true(device->kernel_count <= 256);
  leave_rowwise_out(device, kernels);
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirmation *confirmation = confirm(device, advice, 5e9, NULL);
  const hr_confirmed *confirmed = &confirmation->findings[0];
  assert_true(!confirmed->by_steps && isfinite(confirmed->measured_gain));
  assert_non_null(strstr(confirmed->reason, "by operators: "));
  assert_true(confirmation->complete && confirmation->count == 1);
  close_all(confirmation, advice, device);
}

static int stop_in_the_steps(void *context, double done, const char *what)
{
  (void)context, (void)done;
  return strstr(what, "steps: a rule") != NULL;
}

static void stopped_steps_have_no_gain(void **state)
{
  (void)state;
  hr_device *device = open_cpu();
  hr_advice *advice = make_running_advice();
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirmation *confirmation = confirm(device, advice, 5e9, stop_in_the_steps);
  assert_false(confirmation->complete);
  assert_int_equal(confirmation->findings[0].status, HR_ERROR_INTERRUPTED);
  assert_true(isnan(advice->findings[0].measured_gain));
  close_all(confirmation, advice, device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gain_is_of_whole_steps_where_both_models_run),
      cmocka_unit_test(a_change_of_layers_has_a_measured_gain_of_steps),
      cmocka_unit_test(gains_of_steps_are_per_token),
      cmocka_unit_test(what_no_step_runs_is_measured_by_operators_and_says_why),
      cmocka_unit_test(weights_that_take_half_of_the_budget_leave_operators),
      cmocka_unit_test(models_that_do_not_fit_together_leave_operators),
      cmocka_unit_test(steps_that_fail_are_measured_by_operators),
      cmocka_unit_test(stopped_steps_have_no_gain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

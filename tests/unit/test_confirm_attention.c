/* SPDX-License-Identifier: Apache-2.0 */
/* Confirmation of findings that change fused attention: how measured calls become gains, with times set by hand; and
 * the run itself, with kernel doubles and with this machine's kernels. No measured time is compared. */
#include "analysis/advise/advice.h"
#include "confirm_fixture.h"
#include "machine.h"

#include "runtime/device/plan.h"

static void make_fused(hr_workload *workload)
{
  workload->attention = HR_ATTENTION_FUSED;
}

/* The same shape with 2 heads of 32. */
static hr_finding *add_larger_heads(hr_advice *advice)
{
  hr_finding *finding = add_finding(advice, "attention");
  hr_mixer_attention *attention = &finding->model.groups[0].attention;
  attention->q_heads = attention->k_heads = attention->v_heads = 2;
  attention->qk_dim = attention->v_dim = 32;
  return finding;
}

static const hr_confirm_job *job_of_attention(const hr_confirm_run *c, bool pair)
{
  for (size_t i = 0; i < c->job_count; i++) {
    const hr_confirm_job *job = &c->jobs[i];
    if (job->pair == pair && (pair ? &job->after : &job->before[0])->kind == HR_KIND_ATTENTION)
      return job;
  }
  return NULL;
}

static hr_measurement failed(hr_status status, const char *reason)
{
  hr_measurement m = {.status = status, .median_ns = NAN};
  strcpy(m.reason, reason);
  return m;
}

/* ---- gains ---- */

static void the_time_of_a_changed_call_is_divided_by_the_ratio_of_the_pair(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  make_fused(&advice->workload);
  add_larger_heads(advice);
  hr_confirm_run *c = choose(device, advice, 1e12);
  assert_int_equal(c->job_count, 6); /* qkv, projection, up, down and the logits alone, and the attention as a pair */
  const hr_confirm_job *pair = job_of_attention(c, true);
  assert_ptr_equal(pair, &c->jobs[5]);
  assert_int_equal(pair->before_count, 1);
  assert_int_equal(pair->before[0].attention.q_heads, 4);
  assert_int_equal(pair->after.attention.q_heads, 2);
  assert_int_equal(pair->after.attention.qk_dim, 32);
  set_times(c, 1000, 5000, 2, 1.25, 2.5);
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  /* 2 layers · (4 · 1000 + 5000) + logits 1000 ns, after: 5000/2 = 2500, at the ends 4000 and 2000. */
  double rest = predicted_rest(&c->before), rest_after = predicted_rest(&c->after);
  assert_near(confirmed.measured_gain, (19000 + rest) / (14000 + rest_after) - 1);
  assert_near(confirmed.measured_gain_low, (19000 + rest) / (17000 + rest_after) - 1);
  assert_near(confirmed.measured_gain_high, (19000 + rest) / (13000 + rest_after) - 1);
  assert_near(confirmed.measured_operator_gain, 1.0);
  assert_int_equal(confirmed.status, HR_OK);
  free_all(c, advice, device);
}

static void an_unchanged_call_is_timed_alone_for_all_findings(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  make_fused(&advice->workload);
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1e12);
  assert_int_equal(c->job_count, 6);
  assert_non_null(job_of_attention(c, false));
  set_times(c, 1000, 5000, 2, 2, 2);
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  double rest = predicted_rest(&c->before), rest_after = predicted_rest(&c->after);
  assert_near(confirmed.measured_gain, (15000 + rest) / (12500 + rest_after) - 1); /* 2 layers · 5 · 1000, logits */
  free_all(c, advice, device);
}

static void one_call_that_replaces_several_is_compared_with_all_of_them(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  make_fused(&add_finding(advice, "attention_score softmax attention_over_value attention")->workload);
  hr_confirm_run *c = choose(device, advice, 1e12);
  /* qkv, score, softmax, attention over value, projection, up, down, logits alone, and the pair */
  assert_int_equal(c->job_count, 9);
  const hr_confirm_job *pair = job_of_attention(c, true);
  assert_ptr_equal(pair, &c->jobs[8]);
  assert_int_equal(pair->before_count, 3);
  assert_int_equal(pair->before[0].id, HR_OP_ATTENTION_SCORE);
  assert_int_equal(pair->before[1].id, HR_OP_SOFTMAX);
  assert_int_equal(pair->before[2].id, HR_OP_ATTENTION_OVER_VALUE);
  set_times(c, 1000, 5000, 4, 4, 4);
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  /* 2 layers · 7 · 1000 + logits 1000; after: 3 · 1000 over 4 are 750. */
  double rest = predicted_rest(&c->before), rest_after = predicted_rest(&c->after);
  assert_near(confirmed.measured_gain, (15000 + rest) / (2 * 4750 + 1000 + rest_after) - 1);
  assert_near(confirmed.measured_operator_gain, 3.0); /* the ratio, because one call replaces the others */
  free_all(c, advice, device);
}

/* Unfused, the score GEMMs of layers with and without a window are the same; fused, the layers need two different
 * calls. */
static void each_kind_of_layer_is_a_separate_call(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  give_window(&advice->model, 1, 16);
  make_fused(&add_finding(advice, "attention_score")->workload);
  hr_confirm_run *c = choose(device, advice, 1e12);
  assert_int_equal(c->job_count, 10);
  assert_true(c->jobs[8].pair && c->jobs[8].before_count == 3 && c->jobs[8].after.attention.window == 0);
  assert_true(c->jobs[9].pair && c->jobs[9].before_count == 3 && c->jobs[9].after.attention.window == 16);
  free_all(c, advice, device);
}

static void a_changed_backward_pass_has_no_measured_gain(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  advice->workload.phase = HR_PHASE_TRAIN;
  make_fused(&advice->workload);
  add_larger_heads(advice);
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1e12);
  assert_non_null(job_of_attention(c, true)); /* the forward pass has its job */
  set_times(c, 1000, 5000, 2, 2, 2);
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  assert_true(isnan(confirmed.measured_gain) && isnan(confirmed.measured_operator_gain));
  assert_int_equal(confirmed.status, HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(confirmed.reason, "backward pass of fused attention"));
  assert_ok(hr_confirm_gains(c, &c->subjects[1], &confirmed, &error), error);
  assert_true(isfinite(confirmed.measured_gain)); /* it is unchanged and is used as predicted */
  free_all(c, advice, device);
}

static void a_call_without_a_kernel_is_the_reason_only_for_findings_that_change_it(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  make_fused(&advice->workload);
  add_finding(advice, "logit")->model.vocabulary = 128;
  add_larger_heads(advice);
  hr_confirm_run *c = choose(device, advice, 1e12);
  set_times(c, 1000, 5000, 2, 2, 2);
  hr_confirm_job *pair = &c->jobs[job_of_attention(c, true) - c->jobs];
  pair->result.ratio = pair->result.ratio_low = pair->result.ratio_high = NAN;
  pair->result.before = pair->result.after = failed(HR_ERROR_UNSUPPORTED, "no kernel");
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[1], &confirmed, &error), error);
  assert_true(isnan(confirmed.measured_gain));
  assert_int_equal(confirmed.status, HR_ERROR_UNSUPPORTED);
  assert_string_equal(confirmed.reason, "attention: no kernel");
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  assert_true(isfinite(confirmed.measured_gain)); /* the attention as predicted, before and after */
  pair->result.before = failed(HR_ERROR_OUT_OF_MEMORY, "too big");
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  assert_true(isnan(confirmed.measured_gain)); /* it has a kernel, so that a prediction does not replace its time */
  assert_string_equal(confirmed.reason, "attention: too big");
  pair->result.before = (hr_measurement){.median_ns = 5000};
  pair->result.after = failed(HR_ERROR_TIMEOUT, "too slow");
  assert_ok(hr_confirm_gains(c, &c->subjects[1], &confirmed, &error), error);
  assert_int_equal(confirmed.status, HR_ERROR_TIMEOUT);
  assert_string_equal(confirmed.reason, "attention: too slow");
  free_all(c, advice, device);
}

/* ---- a run ---- */

extern const hr_kernel_functions hr_kernel_gemm_reference, hr_kernel_attention_reference, hr_kernel_rowwise_reference,
    hr_kernel_decode_reference;

static const hr_kernel_info infos[] = {
    {"attention_naive_here", "attention", "reference", "fp32", "", "best here, but with scores in memory"},
    {"attention_flash_here", "attention", "reference", "fp32", "", "the reference under a flash kernel's name"},
    {"gemm_here", "gemm", "reference", "fp32", "", "the reference"},
    {"rowwise_here", "rowwise", "reference", "fp32", "", "the reference"}};
static const hr_kernel table[] = {{&infos[0], &hr_kernel_attention_reference},
                                  {&infos[1], &hr_kernel_attention_reference},
                                  {&infos[2], &hr_kernel_gemm_reference},
                                  {&infos[3], &hr_kernel_rowwise_reference}};

static hr_confirmation *confirm(hr_device *device, hr_advice *advice)
{
  hr_confirmation *confirmation = NULL;
  hr_error error;
  hr_confirm_options options = hr_confirm_options_default();
  options.budget_ns = 5e9;
  assert_ok(hr_confirm(device, advice, &options, &confirmation, &error), error);
  assert_true(confirmation->complete);
  return confirmation;
}

static void close_all(hr_confirmation *confirmation, hr_advice *advice, hr_device *device)
{
  hr_confirmation_free(confirmation);
  free(advice);
  hr_device_close(device);
}

static void calls_run_in_the_best_kernel_that_keeps_the_scores_on_the_chip(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  device->kernels = table, device->kernel_count = 4;
  hr_advice *advice = make_advice();
  make_fused(&add_finding(advice, "attention_score")->workload);
  hr_confirmation *confirmation = confirm(device, advice);
  assert_int_equal(confirmation->count, 1);
  const hr_confirmation_row *row = &confirmation->rows[0];
  assert_int_equal(row->before_count, 3);
  assert_int_equal(row->before[1].id, HR_OP_SOFTMAX);
  assert_int_equal(row->after.id, HR_OP_ATTENTION);
  assert_true(row->predicted_before_ns > 0 && row->predicted_after_ns > 0);
  assert_string_equal(row->comparison.before.kernel, "");
  assert_string_equal(row->comparison.after.kernel, "attention_flash_here");
  assert_true(row->comparison.after.rows_checked > 0);
  assert_true(row->comparison.ratio > 0);
  assert_true(isfinite(advice->findings[0].measured_gain));
  close_all(confirmation, advice, device);
}

static void calls_of_a_decode_step_run_in_a_decode_kernel(void **state)
{
  (void)state;
  static const hr_kernel_info decode = {"decode_split_here", "decode", "reference", "fp32", "", "the reference"};
  const hr_kernel with_decode[] = {table[0], table[1], table[2], table[3], {&decode, &hr_kernel_decode_reference}};
  hr_device *device = open_reference();
  device->kernels = with_decode, device->kernel_count = 5;
  hr_advice *advice = make_advice();
  advice->workload.phase = HR_PHASE_DECODE, advice->workload.context = 64;
  make_fused(&advice->workload);
  add_larger_heads(advice);
  hr_confirmation *confirmation = confirm(device, advice);
  for (size_t i = 0; i < confirmation->count; i++) {
    const hr_comparison *pair = &confirmation->rows[i].comparison;
    if (confirmation->rows[i].after.id != HR_OP_ATTENTION)
      continue;
    assert_string_equal(pair->before.kernel, "decode_split_here");
    assert_string_equal(pair->after.kernel, "decode_split_here");
    assert_true(pair->after.rows_checked > 0);
  }
  assert_true(confirmation->count > 0);
  close_all(confirmation, advice, device);
}

static void without_such_a_kernel_the_finding_has_a_reason_instead_of_a_gain(void **state)
{
  (void)state;
  hr_device *device = open_reference(); /* its only kernel is the reference */
  hr_advice *advice = make_advice();
  make_fused(&add_finding(advice, "attention_score")->workload);
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirmation *confirmation = confirm(device, advice);
  assert_int_equal(confirmation->count, 2);
  assert_int_equal(confirmation->rows[0].comparison.after.status, HR_ERROR_UNSUPPORTED);
  assert_true(confirmation->rows[0].comparison.before.median_ns > 0);
  assert_int_equal(confirmation->findings[0].status, HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(confirmation->findings[0].reason, "attention: reference: no attention_flash kernel"));
  assert_true(isnan(advice->findings[0].measured_gain));
  assert_true(isfinite(advice->findings[1].measured_gain));
  close_all(confirmation, advice, device);
}

static void assert_timed_on_the_chip(const hr_measurement *m)
{
  assert_true(strncmp(m->kernel, "attention_flash_", 16) == 0);
  assert_true(m->status == HR_OK || m->status == HR_ERROR_NOISY);
  assert_true(m->rows_checked > 0);
}

/* GEMMs need a library, which may be missing: then it is the reason. An emulated GPU captures no launches, so that it
 * has no graph of several operators. */
static void assert_measured_or_excused(const hr_confirmed *confirmed)
{
  assert_true((confirmed->status == HR_OK) == (bool)isfinite(confirmed->measured_gain));
  if (confirmed->status != HR_OK && !strstr(confirmed->reason, "gemm") &&
      !strstr(confirmed->reason, "not supported by the emulation"))
    fail_msg("%s", confirmed->reason);
}

/* Closes the device. Times do not matter: no operand needs to be cold. */
static void confirm_here(hr_device *device)
{
  device->cache_bytes = 0;
  hr_advice *advice = make_advice();
  make_fused(&add_finding(advice, "attention_score")->workload);
  hr_confirmation *confirmation = confirm(device, advice);
  assert_int_equal(confirmation->count, 1);
  assert_timed_on_the_chip(&confirmation->rows[0].comparison.after);
  assert_measured_or_excused(&confirmation->findings[0]);
  hr_confirmation_free(confirmation);
  free(advice);

  advice = make_advice();
  make_fused(&advice->workload);
  add_larger_heads(advice);
  confirmation = confirm(device, advice);
  assert_int_equal(confirmation->count, 1);
  assert_timed_on_the_chip(&confirmation->rows[0].comparison.before);
  assert_timed_on_the_chip(&confirmation->rows[0].comparison.after);
  assert_true(confirmation->rows[0].comparison.ratio > 0);
  assert_measured_or_excused(&confirmation->findings[0]);
  close_all(confirmation, advice, device);
}

static void changes_of_attention_are_confirmed_on_this_processor(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  confirm_here(device);
}

static void changes_of_attention_are_confirmed_on_this_gpu(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  device->settled = true; /* times do not matter */
  device->settled_clock_hz = (double)NAN;
  confirm_here(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_time_of_a_changed_call_is_divided_by_the_ratio_of_the_pair),
      cmocka_unit_test(an_unchanged_call_is_timed_alone_for_all_findings),
      cmocka_unit_test(one_call_that_replaces_several_is_compared_with_all_of_them),
      cmocka_unit_test(each_kind_of_layer_is_a_separate_call),
      cmocka_unit_test(a_changed_backward_pass_has_no_measured_gain),
      cmocka_unit_test(a_call_without_a_kernel_is_the_reason_only_for_findings_that_change_it),
      cmocka_unit_test(calls_run_in_the_best_kernel_that_keeps_the_scores_on_the_chip),
      cmocka_unit_test(calls_of_a_decode_step_run_in_a_decode_kernel),
      cmocka_unit_test(without_such_a_kernel_the_finding_has_a_reason_instead_of_a_gain),
      cmocka_unit_test(changes_of_attention_are_confirmed_on_this_processor),
      cmocka_unit_test(changes_of_attention_are_confirmed_on_this_gpu),
  };
  if (test_asks_for("gpu"))
    cmocka_set_test_filter("*_on_this_gpu");
  return cmocka_run_group_tests(tests, NULL, NULL);
}

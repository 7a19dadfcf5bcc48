/* SPDX-License-Identifier: Apache-2.0 */
/* Confirmation: how times of GEMMs become gains, with times set by hand; and the run itself, with a kernel double. No
 * measured time is compared. */
#include "analysis/advise/advice.h"
#include "confirm_fixture.h"

#include "experiment/budget.h"
#include "runtime/device/plan.h"

static void a_step_is_the_sum_of_its_gemms_with_the_ratio_of_the_changed_one(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1e12);
  /* qkv, score, softmax, attention over value, projection, up, down alone, and the logits as a pair */
  assert_int_equal(c->job_count, 8);
  assert_true(c->jobs[7].pair && c->jobs[7].before[0].gemm.n == 100 && c->jobs[7].after.gemm.n == 128);
  set_times(c, 1000, 5000, 2, 1.25, 2.5);
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  /* 2 layers · 7 · 1000 ns + logits 5000 ns, after: 5000/2 = 2500, at the ends 4000 and 2000. */
  double rest = predicted_rest(&c->before), rest_after = predicted_rest(&c->after);
  assert_near(confirmed.measured_gain, (19000 + rest) / (16500 + rest_after) - 1);
  assert_near(confirmed.measured_gain_low, (19000 + rest) / (18000 + rest_after) - 1);
  assert_near(confirmed.measured_gain_high, (19000 + rest) / (16000 + rest_after) - 1);
  assert_near(confirmed.measured_operator_gain, 1.0);
  assert_near(confirmed.predicted_gain, c->before.about.time_ns / c->after.about.time_ns - 1);
  assert_int_equal(confirmed.status, HR_OK);
  free_all(c, advice, device);
}

static void gains_of_a_changed_batch_are_per_token(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  add_finding(advice, "mlp_up")->workload.batch = 2;
  hr_confirm_run *c = choose(device, advice, 1e12);
  assert_int_equal(c->job_count, 8);
  set_times(c, 0, 1000, 0.8, 0.8, 0.8); /* each takes 1250 ns for twice the tokens */
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  double before = 15000 + predicted_rest(&c->before), after = 18750 + predicted_rest(&c->after);
  assert_near(confirmed.measured_gain, before / (after / 2) - 1);
  assert_near(confirmed.measured_operator_gain, 0.6); /* 2 · 0.8 − 1 */
  assert_near(hr_confirm_token_ratio(&c->size.workload, &c->subjects[0].workload), 2);
  free_all(c, advice, device);
}

/* Two stages: of 2 microbatches one in three rounds is a bubble, of 4 one in five. */
static void gains_of_more_microbatches_have_the_smaller_bubble(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  advice->workload.pipeline_stages = 2;
  advice->workload.microbatches = 2;
  add_finding(advice, "mlp_up")->workload.microbatches = 4;
  hr_confirm_run *c = choose(device, advice, 1e12);
  hr_confirmed confirmed;
  hr_error error;
  hr_confirm_subject *subject = &c->subjects[0];
  assert_ok(hr_confirm_gains(c, subject, &confirmed, &error), error);
  assert_near(confirmed.predicted_gain, (3.0 / 2) / (5.0 / 4) - 1);
  free_all(c, advice, device);
}

static void layers_with_a_window_are_compared_with_layers_with_a_window(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  give_window(&advice->model, 1, 16);
  advice->workload.phase = HR_PHASE_DECODE, advice->workload.context = 64;
  hr_finding *finding = add_finding(advice, "logit");
  finding->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1e12);
  /* qkv, score, softmax and attention over value of 64 and of 16 keys, projection, up, down; only the logits change */
  assert_int_equal(c->job_count, 11);
  for (size_t i = 0; i < 11; i++)
    assert_true(c->jobs[i].pair == (i == 10));
  free_all(c, advice, device);
}

/* Two groups of a layer each, with MLPs of 160 and 256; the finding makes the first as wide as the second, so that the
 * changed step has one operator where the present one has two. */
static void a_change_that_makes_layers_alike_is_compared_with_what_they_were(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  give_window(&advice->model, 1, 0);
  advice->model.groups[0].dense.width = 160;
  add_finding(advice, "mlp_up mlp_down")->model.groups[0].dense.width = 256;
  hr_confirm_run *c = choose(device, advice, 1e12);
  /* qkv, score, softmax, attention over value, projection, wide up and down and the logits alone; two pairs */
  assert_int_equal(c->job_count, 10);
  for (size_t i = 0; i < 10; i++)
    assert_true(c->jobs[i].pair == (i >= 8));
  assert_true(c->jobs[8].before[0].gemm.n == 160 && c->jobs[8].after.gemm.n == 256 && c->jobs[8].after.count == 2);
  set_times(c, 1000, 800, 0.8, 0.8, 0.8);
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  assert_int_equal(confirmed.status, HR_OK);
  /* 2 layers · 5 · 1000 + 2 · (800 + 1000) + logits 1000; after: 800/0.8 = 1000 for each up and down */
  double rest = predicted_rest(&c->before), rest_after = predicted_rest(&c->after);
  assert_near(confirmed.measured_gain, (14600 + rest) / (15000 + rest_after) - 1);
  assert_near(confirmed.measured_operator_gain, -0.1);
  free_all(c, advice, device);
}

static void heads_whose_sharing_is_not_measured_give_no_gain_of_their_gemms(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  advice->workload.phase = HR_PHASE_DECODE, advice->workload.context = 64;
  for (int i = 0; i < 2; i++) {
    hr_finding *finding = add_finding(advice, i == 0 ? "attention_score attention_over_value" : "qkv_transform");
    finding->model.groups[0].attention.k_heads = finding->model.groups[0].attention.v_heads = 2;
  }
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1e12);
  set_times(c, 1000, 5000, 2, 2, 2);
  hr_confirmed confirmed[3];
  hr_error error;
  for (int i = 0; i < 3; i++) {
    assert_ok(hr_confirm_gains(c, &c->subjects[i], &confirmed[i], &error), error);
    assert_int_equal(confirmed[i].status, HR_OK);
    assert_true(confirmed[i].measured_gain > 0);
    assert_true((strstr(confirmed[i].reason, "its own K and V") != NULL) == (i < 2));
  }
  assert_true(isnan(confirmed[0].measured_operator_gain) && confirmed[0].predicted_operator_gain > 0);
  assert_near(confirmed[1].measured_operator_gain, 1.0);
  free_all(c, advice, device);
}

static void a_change_that_is_only_predicted_has_no_measured_gain(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  add_finding(advice, "mlp_norm")->model.groups[0].parallel_block = true;
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1e12);
  set_times(c, 1000, 5000, 2, 2, 2);
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  assert_true(isnan(confirmed.measured_gain) && isfinite(confirmed.predicted_gain));
  assert_int_equal(confirmed.status, HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(confirmed.reason, "changes no GEMM, softmax or fused attention"));
  assert_ok(hr_confirm_gains(c, &c->subjects[1], &confirmed, &error), error);
  assert_true(isfinite(confirmed.measured_gain));
  free_all(c, advice, device);
}

static void a_gemm_without_a_time_is_named_as_the_reason(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1e12);
  set_times(c, 1000, 5000, 2, 2, 2);
  c->jobs[5].result.before = (hr_measurement){.status = HR_ERROR_OUT_OF_MEMORY, .median_ns = NAN, .reason = "too big"};
  hr_confirmed confirmed;
  hr_error error;
  assert_ok(hr_confirm_gains(c, &c->subjects[0], &confirmed, &error), error);
  assert_true(isnan(confirmed.measured_gain));
  assert_int_equal(confirmed.status, HR_ERROR_OUT_OF_MEMORY);
  assert_string_equal(confirmed.reason, "mlp_up: too big");
  assert_near(confirmed.measured_operator_gain, 1.0); /* the logits themselves were measured */
  free_all(c, advice, device);
}

/* ---- sizes ---- */

/* An experiment that never fits, and the sizes that were tried. */
typedef struct tried_sizes {
  size_t count;
  hr_workload sizes[8];
} tried_sizes;

static hr_status list_size(void *context, const hr_workload *workload, hr_error *error)
{
  (void)error;
  tried_sizes *tried = context;
  assert_true(tried->count < 8);
  tried->sizes[tried->count++] = *workload;
  return HR_OK;
}

static double cost_of_tokens(const void *context)
{
  const tried_sizes *tried = context;
  const hr_workload *last = &tried->sizes[tried->count - 1];
  return (double)(last->batch * hr_budget_length(last));
}

static bool always_fits(const void *context)
{
  (void)context;
  return true;
}

static hr_budget_size choose_size(tried_sizes *tried, const hr_workload *asked, double budget_ns, bool keep_size)
{
  const hr_budget_experiment experiment = {tried, list_size, cost_of_tokens, always_fits};
  hr_budget_size size;
  hr_error error = {.status = HR_OK};
  *tried = (tried_sizes){.count = 0};
  assert_ok(hr_budget_choose_size(&experiment, asked, budget_ns, keep_size, &size, &error), error);
  return size;
}

static void sizes_shrink_by_batch_first_and_keep_the_alignment_of_a_length(void **state)
{
  (void)state;
  hr_model model = hr_model_default();
  hr_workload w = hr_workload_default(&model);
  tried_sizes tried;
  w.phase = HR_PHASE_FORWARD, w.batch = 3, w.sequence = 2047;
  /* all 63 mod 64 */
  const int64_t expected[][2] = {{3, 2047}, {2, 2047}, {1, 2047}, {1, 1023}, {1, 511}, {1, 255}, {1, 127}};
  hr_budget_size size = choose_size(&tried, &w, 0, false); /* nothing fits: the smallest size is chosen */
  assert_int_equal(tried.count, 7);
  for (size_t i = 0; i < 7; i++) {
    assert_int_equal(tried.sizes[i].batch, expected[i][0]);
    assert_int_equal(tried.sizes[i].sequence, expected[i][1]);
  }
  assert_int_equal(size.workload.sequence, 127);
  assert_true(size.asked_ns == 3 * 2047);
  assert_false(size.memory_short);
  w.phase = HR_PHASE_DECODE, w.batch = 1, w.context = 4096, w.sequence = 2048;
  size = choose_size(&tried, &w, 4095, false);
  assert_int_equal(size.workload.context, 2048);
  assert_int_equal(size.workload.sequence, 2048);
}

static void a_fixed_or_fitting_size_is_not_made_smaller(void **state)
{
  (void)state;
  hr_model model = hr_model_default();
  hr_workload w = hr_workload_default(&model);
  tried_sizes tried;
  w.phase = HR_PHASE_FORWARD, w.batch = 4, w.sequence = 2048;
  assert_int_equal(choose_size(&tried, &w, 0, true).workload.batch, 4);
  assert_int_equal(choose_size(&tried, &w, 4 * 2048, false).workload.batch, 4);
  assert_int_equal(tried.count, 1);
}

static void a_changed_size_shrinks_like_the_original_size(void **state)
{
  (void)state;
  hr_model model = hr_model_default();
  hr_workload asked = hr_workload_default(&model);
  asked.phase = HR_PHASE_FORWARD, asked.batch = 4, asked.sequence = 2047;
  hr_workload measured = asked, changed = asked;
  measured.batch = 1, measured.sequence = 255;
  changed.batch = 16, changed.sequence = 2048;
  hr_workload scaled = hr_budget_scaled(&changed, &asked, &measured);
  assert_int_equal(scaled.batch, 4);      /* 16 · 1/4 */
  assert_int_equal(scaled.sequence, 192); /* at most 2048 · 255/2047 = 255.1, and still a multiple of 64 */
  changed.batch = 1, changed.sequence = 2047;
  scaled = hr_budget_scaled(&changed, &asked, &measured);
  assert_int_equal(scaled.batch, 1);
  assert_int_equal(scaled.sequence, 255);
}

static void too_little_time_means_fewer_tokens_and_a_note(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  advice->workload.batch = 8, advice->workload.sequence = 4096;
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirm_run *c = choose(device, advice, 1); /* a nanosecond */
  assert_int_equal(c->size.workload.batch, 1);
  assert_int_equal(c->size.workload.sequence, 128);
  assert_int_equal(c->subjects[0].workload.sequence, 128);
  free_all(c, advice, device);
}

/* ---- a run ---- */

static int prepared;

static hr_status count_and_prepare(hr_device *device, const hr_problem *problem, void *kernel_state,
                                   size_t *workspace_bytes, hr_error *error)
{
  extern const hr_kernel_functions hr_kernel_gemm_reference;
  prepared++;
  return hr_kernel_gemm_reference.prepare(device, problem, kernel_state, workspace_bytes, error);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  extern const hr_kernel_functions hr_kernel_gemm_reference;
  return hr_kernel_gemm_reference.run(plan, run, error);
}

static const hr_kernel_info info = {"counted", "gemm", "reference", "fp32", "", "the reference, counted"};
static const hr_kernel_functions functions = {.prepare = count_and_prepare, .run = run};
static const hr_kernel table[] = {{&info, &functions}};

static int stop_at_the_second(void *context, double done, const char *what)
{
  assert_true(done >= 0 && done <= 1);
  assert_non_null(what);
  int *calls = context;
  return ++*calls > 1;
}

static int go_on(void *context, double done, const char *what)
{
  double *before = context;
  assert_true(done >= *before && done <= 1); /* progress never decreases */
  assert_true(strlen(what) > 0);
  *before = done;
  return 0;
}

static void a_gemm_is_measured_once_for_all_findings(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  device->kernels = table, device->kernel_count = 1;
  hr_advice *advice = make_advice();
  add_finding(advice, "logit")->model.vocabulary = 128;
  add_finding(advice, "logit")->model.vocabulary = 128;
  advice->about.combined_count = 1;
  advice->combined[0] = advice->findings[0];
  hr_confirmation *confirmation = NULL;
  hr_error error;
  double done = 0;
  prepared = 0;
  hr_confirm_options options = hr_confirm_options_default();
  options.budget_ns = 5e9, options.progress = go_on, options.context = &done;
  assert_ok(hr_confirm(device, advice, &options, &confirmation, &error), error);
  assert_int_equal(prepared, 9); /* a trial, six alone, a pair */
  assert_true(confirmation->complete);
  assert_false(confirmation->reduced);
  assert_int_equal(confirmation->finding_count, 3);
  assert_int_equal(confirmation->count, 3);
  assert_true(confirmation->rows[2].finding == 2 && confirmation->findings[2].finding == 2);
  assert_true(isfinite(confirmation->findings[0].measured_gain));
  assert_true(advice->findings[0].measured_gain == confirmation->findings[0].measured_gain);
  assert_true(advice->findings[1].measured_gain == advice->combined[0].measured_gain);
  /* The gain is computed as t / (t / ratio) - 1, which may have a rounding error. */
  double ratio = confirmation->rows[0].comparison.ratio;
  assert_true(fabs(advice->findings[0].measured_operator_gain - (ratio - 1)) < 1e-9);
  hr_confirmation_free(confirmation);
  hr_confirmation_free(NULL);
  free(advice);
  hr_device_close(device);
}

static void a_stopped_confirmation_keeps_its_results_and_says_so(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  add_finding(advice, "logit")->model.vocabulary = 128;
  hr_confirmation *confirmation = NULL;
  hr_error error;
  int calls = 0;
  hr_confirm_options options = hr_confirm_options_default();
  options.progress = stop_at_the_second, options.context = &calls;
  assert_ok(hr_confirm(device, advice, &options, &confirmation, &error), error);
  assert_false(confirmation->complete);
  assert_int_equal(confirmation->count, 0);
  assert_int_equal(confirmation->findings[0].status, HR_ERROR_INTERRUPTED);
  assert_true(isnan(advice->findings[0].measured_gain));
  hr_confirmation_free(confirmation);
  free(advice);
  hr_device_close(device);
}

static void an_advice_without_changes_confirms_nothing(void **state)
{
  (void)state;
  hr_device *device = open_reference();
  hr_advice *advice = make_advice();
  hr_confirmation *confirmation = NULL;
  hr_error error;
  hr_confirm_options options = hr_confirm_options_default();
  assert_ok(hr_confirm(device, advice, &options, &confirmation, &error), error);
  assert_true(confirmation->complete && confirmation->count == 0 && confirmation->finding_count == 0);
  hr_confirmation_free(confirmation);
  options.budget_ns = -1;
  assert_int_equal(hr_confirm(device, advice, &options, &confirmation, &error), HR_ERROR_INVALID);
  free(advice);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_is_the_sum_of_its_gemms_with_the_ratio_of_the_changed_one),
      cmocka_unit_test(gains_of_a_changed_batch_are_per_token),
      cmocka_unit_test(gains_of_more_microbatches_have_the_smaller_bubble),
      cmocka_unit_test(layers_with_a_window_are_compared_with_layers_with_a_window),
      cmocka_unit_test(a_change_that_makes_layers_alike_is_compared_with_what_they_were),
      cmocka_unit_test(heads_whose_sharing_is_not_measured_give_no_gain_of_their_gemms),
      cmocka_unit_test(a_change_that_is_only_predicted_has_no_measured_gain),
      cmocka_unit_test(a_gemm_without_a_time_is_named_as_the_reason),
      cmocka_unit_test(sizes_shrink_by_batch_first_and_keep_the_alignment_of_a_length),
      cmocka_unit_test(a_fixed_or_fitting_size_is_not_made_smaller),
      cmocka_unit_test(a_changed_size_shrinks_like_the_original_size),
      cmocka_unit_test(too_little_time_means_fewer_tokens_and_a_note),
      cmocka_unit_test(a_gemm_is_measured_once_for_all_findings),
      cmocka_unit_test(a_stopped_confirmation_keeps_its_results_and_says_so),
      cmocka_unit_test(an_advice_without_changes_confirms_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

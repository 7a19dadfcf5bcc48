/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for the gains of any advice: random models, layouts and workloads on shipped devices. The seed is fixed
 * and printed; HEADROOM_SEED chooses another. */
#include "advice.h"
#include "models.h"

#include "analysis/advise/findings.h"

#include <stdlib.h>

static uint64_t seed = 20261127;

/* xorshift64: the same sequence everywhere. */
static int64_t between(int64_t low, int64_t high)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return low + (int64_t)(seed % (uint64_t)(high - low + 1));
}

static int64_t one_of(const int64_t *values, size_t count)
{
  return values[between(0, (int64_t)count - 1)];
}

#define ONE_OF(...) one_of((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static hr_model any_model(void)
{
  static const char *const names[] = {"gpt3-2.7b", "llama-3-8b", "mixtral-8x7b-v0.1", "gpt2"};
  if (between(0, 1))
    return shipped_model(names[between(0, 3)]);
  int64_t heads = ONE_OF(12, 20, 32, 40, 64), head = ONE_OF(48, 64, 80, 100, 128);
  hr_model model = paper_model(heads * head, heads, between(6, 48), between(30000, 130000));
  model.groups[0].dense.width += ONE_OF(0, 0, 8, 33);
  return model;
}

static hr_workload any_workload(const hr_model *model)
{
  hr_workload w = hr_workload_default(model);
  w.phase = (hr_phase)between(0, HR_PHASE_DECODE);
  w.attention = (hr_attention_form)between(0, HR_ATTENTION_FUSED);
  w.framework = between(0, 3) ? HR_FRAMEWORK_COMPILED : HR_FRAMEWORK_EAGER;
  w.batch = between(1, 16);
  w.sequence = ONE_OF(512, 1000, 2048);
  w.context = ONE_OF(1024, 4000, 16384);
  w.tensor_parallel = ONE_OF(1, 1, 2, 4, 8);
  w.pipeline_stages = ONE_OF(1, 1, 2, 3, 4);
  w.microbatches = ONE_OF(0, 0, 1, 8, 32);
  w.data_parallel = ONE_OF(1, 1, 4);
  w.zero_stage = w.phase == HR_PHASE_TRAIN ? between(0, 3) : 0;
  w.recompute = w.phase == HR_PHASE_TRAIN ? (hr_recompute)between(0, HR_RECOMPUTE_FULL) : HR_RECOMPUTE_NONE;
  return w;
}

static void expect_gains_of(const hr_advice *advice, const hr_finding *finding)
{
  if (!finding->has_change)
    return;
  assert_true(isfinite(finding->predicted_gain) && isfinite(finding->predicted_operator_gain));
  assert_gain_is_of_the_step(advice, finding, advice->workload.framework, finding->predicted_gain);
  if (!isnan(finding->eager_gain))
    assert_gain_is_of_the_step(advice, finding, HR_FRAMEWORK_EAGER, finding->eager_gain);
  static hr_step step;
  hr_error error;
  assert_ok(hr_fill_step(&advice->hardware, &finding->model, &finding->workload, &step, &error), error);
  assert_true(step.about.time_ns == finding->predicted_time_ns);
}

/* Whether the combination could have had the finding alone. */
static bool is_of_class(const hr_advice *advice, const hr_finding *finding, hr_change_class most)
{
  const hr_rule_row *row = hr_rule_row_of(finding);
  const hr_workload *own = &advice->workload, *w = &finding->workload;
  bool same_plan = w->recompute == own->recompute && w->zero_stage == own->zero_stage &&
                   w->sequence_parallel == own->sequence_parallel;
  return row->combines && finding->has_change && finding->change_class <= most && same_plan &&
         finding->change_class != HR_CHANGE_DEPLOY;
}

static void expect_combined(const hr_advice *advice, const hr_finding *combined)
{
  expect_gains_of(advice, combined);
  assert_true(combined->predicted_gain > 0 && !combined->gain_per_device);
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    assert_true(!is_of_class(advice, finding, combined->change_class) ||
                combined->predicted_gain >= finding->predicted_gain - 1e-12);
  }
}

static size_t expect_advice(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload)
{
  hr_advice *advice;
  if (hr_advise(hardware, model, workload, &advice, NULL) != HR_OK)
    return 0;
  for (size_t i = 0; i < advice->about.finding_count; i++)
    expect_gains_of(advice, &advice->findings[i]);
  for (size_t i = 0; i < advice->about.combined_count; i++)
    expect_combined(advice, &advice->combined[i]);
  size_t combined = advice->about.combined_count;
  hr_advice_free(advice);
  return combined;
}

static void a_combination_gains_as_much_as_each_member_and_every_gain_is_that_of_its_times(void **state)
{
  (void)state;
  static const char *const devices[] = {"h200", "a100-sxm4-80gb", "mi250x", "l40s"};
  const char *chosen = getenv("HEADROOM_SEED");
  seed = chosen ? strtoull(chosen, NULL, 10) | 1 : seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  size_t combined = 0;
  for (int i = 0; i < 300; i++) {
    const hr_hardware hardware = device(devices[i % 4]);
    hr_model model = any_model();
    hr_workload workload = any_workload(&model);
    combined += expect_advice(&hardware, &model, &workload);
  }
  assert_true(combined > 30); /* the property is not empty */
}

static hr_workload trained_in_stages(const hr_model *model, hr_framework framework)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = HR_PHASE_TRAIN, workload.tensor_parallel = 2, workload.pipeline_stages = 4;
  workload.framework = framework;
  return workload;
}

/* 16 sequences in 16 microbatches instead of 4, and an even vocabulary: together more than each. */
static void changes_of_the_microbatches_are_combined_with_their_number(void **state)
{
  (void)state;
  hr_model model = shipped_model("gpt3-2.7b");
  hr_hardware hardware = device("h200");
  hr_workload workload = trained_in_stages(&model, HR_FRAMEWORK_COMPILED);
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *free = &advice->combined[0];
  assert_string_equal(free->rule, "combined_free");
  assert_int_equal(free->workload.batch, 1);
  assert_int_equal(free->workload.microbatches, 16);
  assert_true(free->predicted_gain > found(advice, "microbatch")->predicted_gain);
  assert_non_null(strstr(free->why, "2 changes together reduce the step from"));
  hr_advice_free(advice);
}

static void the_gain_in_eager_mode_is_that_of_the_same_change_advised_in_eager_mode(void **state)
{
  (void)state;
  hr_model model = shipped_model("gpt3-2.7b");
  hr_hardware hardware = device("h200");
  hr_workload compiled = trained_in_stages(&model, HR_FRAMEWORK_COMPILED),
              eager = trained_in_stages(&model, HR_FRAMEWORK_EAGER);
  hr_advice *advice = advise_under(&hardware, &model, &compiled), *of_eager = advise_under(&hardware, &model, &eager);
  const hr_finding *finding = found(advice, "microbatch"), *same = found(of_eager, "microbatch");
  assert_string_equal(finding->suggested, same->suggested);
  assert_true(fabs(finding->eager_gain - same->predicted_gain) < 1e-12);
  hr_advice_free(advice);
  hr_advice_free(of_eager);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_combination_gains_as_much_as_each_member_and_every_gain_is_that_of_its_times),
      cmocka_unit_test(changes_of_the_microbatches_are_combined_with_their_number),
      cmocka_unit_test(the_gain_in_eager_mode_is_that_of_the_same_change_advised_in_eager_mode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

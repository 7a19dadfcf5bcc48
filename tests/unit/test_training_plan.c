/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of a training run: which are listed, in which order, and what the run takes. */
#include "advice.h"

#include "analysis/plan/rules.h"

#include <headroom/experimental/report.h>
#include <headroom/experimental/training.h>
#include <headroom/memory.h>

static hr_training_plan *plan_of(const char *name, const char *hardware_name, const hr_training_options *options)
{
  hr_model model = shipped_model(name);
  hr_hardware hardware = device(hardware_name);
  hr_workload workload = hr_workload_default(&model);
  hr_training_plan *plan;
  hr_error error;
  workload.sequence = 4096;
  assert_ok(hr_plan_training(&(hr_subject){&model, &workload, &hardware}, options, &plan, &error), error);
  return plan;
}

static hr_training_options on_devices(int64_t devices)
{
  hr_training_options options = hr_training_options_default();
  options.device_counts = 1, options.devices[0] = devices;
  return options;
}

static void assert_predicted_alone(const hr_hardware *hardware, const hr_model *model, const hr_training_layout *layout)
{
  hr_step *step;
  hr_memory memory;
  hr_error error;
  assert_ok(hr_predict_step(hardware, model, &layout->workload, &step, &error), error);
  assert_ok(hr_memory_estimate(model, &layout->workload, &memory, &error), error);
  const hr_step_about *about = hr_step_describe(step);
  assert_true(layout->time_ns == about->time_ns && layout->tokens_per_s == about->tokens_per_s);
  assert_true(layout->low_ns == about->low_ns && layout->high_ns == about->high_ns);
  assert_true(layout->bubble == about->bubble && layout->model_efficiency == about->model_efficiency);
  assert_true(layout->communication_share == about->communication_ns / about->time_ns);
  assert_int_equal(layout->memory_bytes, memory.total_bytes);
  hr_step_free(step);
}

static void a_layout_has_the_prediction_and_memory_of_its_workload_to_the_last_bit(void **state)
{
  (void)state;
  static const char *const models[] = {"gpt3-2.7b", "llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite",
                                       "mamba-codestral-7b-v0.1"};
  hr_hardware hardware = device("h100-sxm");
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    hr_model model = shipped_model(models[i]);
    const hr_training_options options = on_devices(16);
    hr_training_plan *plan = plan_of(models[i], "h100-sxm", &options);
    assert_true(plan->layout_count > 50);
    for (size_t j = 0; j < plan->layout_count; j += 37)
      assert_predicted_alone(&hardware, &model, &plan->layouts[j]);
    hr_training_plan_free(plan);
  }
}

static void degrees_multiply_to_the_devices_and_microbatches_to_the_global_batch(void **state)
{
  (void)state;
  hr_training_options options = on_devices(48);
  options.devices[1] = 16, options.device_counts = 2, options.global_batch = 96;
  hr_training_plan *plan = plan_of("llama-3.1-8b", "h200", &options);
  assert_int_equal(plan->count_of_devices, 2);
  assert_int_equal(plan->counts[0].devices, 16);
  assert_int_equal(plan->counts[1].first, plan->counts[0].fitting);
  for (size_t i = 0; i < plan->layout_count; i++) {
    const hr_training_layout *layout = &plan->layouts[i];
    const hr_workload *w = &layout->workload;
    assert_int_equal(layout->devices, i < plan->counts[1].first ? 16 : 48);
    assert_int_equal(w->tensor_parallel * w->pipeline_stages * w->context_parallel * w->data_parallel, layout->devices);
    assert_int_equal(w->batch * w->microbatches * w->data_parallel, 96);
    assert_true(layout->memory_bytes <= plan->capacity_bytes && layout->accepted_by != 0);
  }
  hr_training_plan_free(plan);
}

/* 61 layers: two stages of 31 and 30, four of 16, 16, 16 and 13, eight of 7 · 8 and 5, sixteen of 15 · 4 and 1; not 32
 * of 2, as 30 of them leave 1 for two. 6 layers: 1, 2, 2 and 1. */
static void the_first_and_the_last_stage_may_have_fewer_layers_in_megatron(void **state)
{
  (void)state;
  const struct {
    int64_t layers, stages, first, last;
    bool whole;
  } cases[] = {{61, 1, 0, 0, true},  {61, 2, 0, 30, true},  {61, 4, 0, 13, true}, {61, 8, 0, 5, true},
               {61, 16, 0, 1, true}, {61, 32, 0, 0, false}, {6, 4, 1, 1, true},   {6, 3, 0, 0, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t first, last;
    assert_int_equal(hr_training_stage_ends(cases[i].layers, cases[i].stages, &first, &last), cases[i].whole);
    if (cases[i].whole)
      assert_true(first == cases[i].first && last == cases[i].last);
  }
  hr_model model = shipped_model("llama-3.1-8b");
  hr_hardware hardware = device("h100-sxm");
  hr_workload workload = hr_workload_default(&model);
  hr_training_options options = on_devices(16);
  hr_training_plan *plan;
  hr_error error;
  bool tried = false;
  workload.sequence = 4096, model.groups[0].count = 31;
  assert_ok(hr_plan_training(&(hr_subject){&model, &workload, &hardware}, &options, &plan, &error), error);
  for (size_t i = 0; i < plan->layout_count; i++) {
    const hr_training_layout *layout = &plan->layouts[i];
    if (layout->workload.pipeline_stages == 1)
      continue;
    tried = true;
    assert_int_equal(layout->accepted_by, HR_TRAINING_MEGATRON);
    assert_true(layout->last_stage_layers > 0 && layout->workload.virtual_stages == 1);
    if (i % 7 == 0)
      assert_predicted_alone(&hardware, &model, layout);
  }
  assert_true(tried);
  hr_training_plan_free(plan);
}

static void stages_have_parts_where_microbatches_come_in_rounds(void **state)
{
  (void)state;
  hr_training_options options = on_devices(16);
  options.tensor_parallel = 2, options.pipeline_stages = 4, options.context_parallel = 1;
  hr_training_plan *plan = plan_of("llama-3.1-8b", "h200", &options);
  bool eight = false;
  for (size_t i = 0; i < plan->layout_count; i++) {
    const hr_workload *w = &plan->layouts[i].workload;
    assert_true(w->virtual_stages == 1 || (w->microbatches % 4 == 0 && 8 % w->virtual_stages == 0));
    eight = eight || w->virtual_stages == 8;
  }
  assert_true(eight && plan->layouts->workload.virtual_stages > 1);
  hr_training_plan_free(plan);
}

static const hr_training_layout *first_with(const hr_training_plan *plan, int64_t t, int64_t p)
{
  for (size_t i = 0; i < plan->layout_count; i++) {
    const hr_workload *w = &plan->layouts[i].workload;
    if (w->tensor_parallel == t && w->pipeline_stages == p && w->context_parallel == 1)
      return &plan->layouts[i];
  }
  fail_msg("no layout with t = %d, p = %d", (int)t, (int)p);
  return NULL;
}

static void replicas_that_share_the_optimizer_come_before_slow_tensor_and_pipeline_parallelism(void **state)
{
  (void)state;
  const hr_training_options options = on_devices(64);
  hr_training_plan *plan = plan_of("llama-3.1-8b", "h100-sxm", &options);
  const hr_training_layout *best = hr_training_plan_best(plan), *slow = first_with(plan, 8, 4);
  assert_int_equal(best->workload.data_parallel, 64);
  assert_int_equal(best->workload.zero_stage, 1);
  assert_int_equal(slow->workload.data_parallel, 2);
  assert_true(best->tokens_per_s > 1.5 * slow->tokens_per_s);
  assert_true(best == plan->layouts && best->best_of_degrees && best->pareto);
  for (size_t i = 1; i < plan->layout_count; i++) {
    assert_true(plan->layouts[i].tokens_per_s <= plan->layouts[i - 1].tokens_per_s);
    assert_false(plan->layouts[i].pareto);
  }
  hr_training_plan_free(plan);
}

/* 28 query heads divide by 4, not by 8; 28 layers by 1, 2, 4, 7, 14 and 28; stages of 8 have 2, 6 · 4 and 2. */
static void degrees_that_heads_or_layers_do_not_allow_are_not_listed(void **state)
{
  (void)state;
  const hr_training_options options = on_devices(56);
  hr_training_options batch = options;
  batch.global_batch = 56 * 8;
  hr_training_plan *plan = plan_of("qwen2.5-7b", "h200", &batch);
  bool seven = false;
  for (size_t i = 0; i < plan->layout_count; i++) {
    const hr_workload *w = &plan->layouts[i].workload;
    assert_true(w->tensor_parallel <= 4);
    assert_true(28 % w->pipeline_stages == 0 || plan->layouts[i].last_stage_layers > 0);
    seven = seven || w->pipeline_stages == 7;
  }
  assert_true(seven);
  hr_training_plan_free(plan);
}

/* 4 K and V heads of qwen3-30b-a3b: t = 8 would copy them. Experts over t > 1 need sequence parallelism in both. */
static void experts_over_several_devices_have_sequence_parallelism(void **state)
{
  (void)state;
  const hr_training_options options = on_devices(64);
  hr_training_plan *plan = plan_of("qwen3-30b-a3b", "h200", &options);
  bool shared = false;
  for (size_t i = 0; i < plan->layout_count; i++) {
    const hr_workload *w = &plan->layouts[i].workload;
    assert_true(w->tensor_parallel <= 4 && (w->tensor_parallel == 1 || w->sequence_parallel));
    assert_true(w->expert_parallel == 1 || w->expert_parallel % w->tensor_parallel == 0);
    shared = shared || w->expert_parallel == 64;
  }
  assert_true(shared);
  hr_training_plan_free(plan);
}

/* torchtitan has DDP in one dimension, else FSDP with the weights shared, and norms split by tokens wherever t > 1. */
static void torchtitan_accepts_ddp_alone_or_fsdp(void **state)
{
  (void)state;
  const hr_training_options options = on_devices(8);
  hr_training_plan *plan = plan_of("gpt3-2.7b", "h200", &options);
  for (size_t i = 0; i < plan->layout_count; i++) {
    const hr_workload *w = &plan->layouts[i].workload;
    bool ddp = w->zero_stage == 0 && w->data_parallel == 8, fsdp = w->zero_stage == 3,
         one = w->data_parallel * w->context_parallel == 1;
    bool expected = (ddp || fsdp || one) && (w->tensor_parallel == 1 || w->sequence_parallel);
    assert_int_equal((plan->layouts[i].accepted_by & HR_TRAINING_TORCHTITAN) != 0, expected);
    assert_true((plan->layouts[i].accepted_by & HR_TRAINING_MEGATRON) != 0);
  }
  hr_training_plan_free(plan);
}

static void both_frameworks_accept_where_both_are_asked(void **state)
{
  (void)state;
  hr_training_options options = on_devices(8);
  hr_training_plan *either = plan_of("gpt3-2.7b", "h200", &options);
  options.accepted_by = HR_TRAINING_MEGATRON | HR_TRAINING_TORCHTITAN;
  hr_training_plan *both = plan_of("gpt3-2.7b", "h200", &options);
  size_t expected = 0;
  for (size_t i = 0; i < either->layout_count; i++)
    expected += either->layouts[i].accepted_by == options.accepted_by;
  assert_int_equal(both->layout_count, expected);
  assert_true(expected > 0 && expected < either->layout_count);
  for (size_t i = 0; i < both->layout_count; i++)
    assert_int_equal(both->layouts[i].accepted_by, options.accepted_by);
  hr_training_plan_free(either);
  hr_training_plan_free(both);
}

/* 1e12 tokens at r tokens/s: 1e12 / r s; 64 devices, 2.5 an hour, 700 W each. */
static void days_cost_and_energy_follow_from_tokens(void **state)
{
  (void)state;
  hr_training_options options = on_devices(64);
  options.tokens = 1e12, options.price_per_device_hour = 2.5, options.power_w = 700;
  hr_training_plan *plan = plan_of("llama-3.1-8b", "h100-sxm", &options);
  const hr_training_layout *best = hr_training_plan_best(plan);
  double seconds = 1e12 / best->tokens_per_s;
  assert_true(fabs(best->days / (seconds / 86400) - 1) < 1e-12);
  assert_true(fabs(best->device_hours / (64 * seconds / 3600) - 1) < 1e-12);
  assert_true(fabs(best->cost / (2.5 * 64 * seconds / 3600) - 1) < 1e-12);
  assert_true(fabs(best->energy_joules / (700 * 64 * seconds) - 1) < 1e-12);
  hr_training_plan_free(plan);
  options.tokens = 0;
  plan = plan_of("llama-3.1-8b", "h100-sxm", &options);
  assert_true(isnan(plan->layouts->days) && isnan(plan->layouts->cost) && isnan(plan->layouts->energy_joules));
  hr_training_plan_free(plan);
}

/* One sequence over 64 devices waits for its keys longer than over 8. */
static void more_devices_are_on_the_front_only_if_they_are_faster(void **state)
{
  (void)state;
  hr_training_options options = on_devices(64);
  options.devices[1] = 1, options.devices[2] = 8, options.device_counts = 3;
  options.global_batch = options.tensor_parallel = options.pipeline_stages = 1;
  hr_training_plan *plan = plan_of("gpt2", "h200", &options);
  double fastest = 0;
  for (size_t i = 0; i < plan->count_of_devices; i++) {
    const hr_training_layout *first = &plan->layouts[plan->counts[i].first];
    assert_int_equal(first->pareto, first->tokens_per_s > fastest);
    fastest = fmax(fastest, first->tokens_per_s);
  }
  assert_int_equal(hr_training_plan_best(plan)->devices, 8);
  hr_training_plan_free(plan);
}

static void named_degrees_narrow_the_plan(void **state)
{
  (void)state;
  hr_training_options options = on_devices(64);
  options.tensor_parallel = 8, options.pipeline_stages = 4, options.context_parallel = 1, options.batch = 2;
  options.virtual_stages = 1;
  options.zero_stages = 1u << 1, options.recomputes = 1u << HR_RECOMPUTE_FULL;
  hr_training_plan *plan = plan_of("llama-3.1-8b", "h100-sxm", &options);
  assert_int_equal(plan->layout_count, 2); /* with and without sequence parallelism */
  for (size_t i = 0; i < plan->layout_count; i++) {
    const hr_workload *w = &plan->layouts[i].workload;
    assert_true(w->tensor_parallel == 8 && w->pipeline_stages == 4 && w->data_parallel == 2 && w->batch == 2);
    assert_true(w->zero_stage == 1 && w->recompute == HR_RECOMPUTE_FULL && w->microbatches == 64);
  }
  hr_training_plan_free(plan);
}

static void that_nothing_fits_is_a_result_with_the_least_memory(void **state)
{
  (void)state;
  const hr_training_options options = on_devices(8);
  hr_training_plan *plan = plan_of("llama-3.1-70b", "rtx-4090", &options);
  assert_int_equal(plan->layout_count, 0);
  assert_true(plan->counts[0].tried > 0 && plan->counts[0].least_memory_bytes > plan->capacity_bytes);
  assert_null(hr_training_plan_best(plan));
  hr_training_plan_free(plan);
}

static void impossible_options_are_refused_by_name(void **state)
{
  (void)state;
  hr_model model = shipped_model("gpt2");
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  const hr_subject subject = {&model, &workload, &hardware};
  hr_training_plan *plan = NULL;
  hr_error error;
  hr_training_options options = hr_training_options_default();
  assert_int_equal(hr_plan_training(&subject, &options, &plan, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "device_counts: expected 1 to 16, found 0");
  options = on_devices(0);
  assert_int_equal(hr_plan_training(&subject, &options, &plan, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "devices: expected 1 to 1048576, found 0");
  options = on_devices(1);
  options.tokens = -1;
  assert_int_equal(hr_plan_training(&subject, &options, &plan, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "tokens: expected 0 or more, found -1");
  options = on_devices(1);
  hardware.memory_bytes = 0;
  assert_int_equal(hr_plan_training(&subject, &options, &plan, &error), HR_ERROR_UNSUPPORTED);
  assert_null(plan);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_layout_has_the_prediction_and_memory_of_its_workload_to_the_last_bit),
      cmocka_unit_test(degrees_multiply_to_the_devices_and_microbatches_to_the_global_batch),
      cmocka_unit_test(the_first_and_the_last_stage_may_have_fewer_layers_in_megatron),
      cmocka_unit_test(stages_have_parts_where_microbatches_come_in_rounds),
      cmocka_unit_test(replicas_that_share_the_optimizer_come_before_slow_tensor_and_pipeline_parallelism),
      cmocka_unit_test(degrees_that_heads_or_layers_do_not_allow_are_not_listed),
      cmocka_unit_test(experts_over_several_devices_have_sequence_parallelism),
      cmocka_unit_test(torchtitan_accepts_ddp_alone_or_fsdp),
      cmocka_unit_test(both_frameworks_accept_where_both_are_asked),
      cmocka_unit_test(days_cost_and_energy_follow_from_tokens),
      cmocka_unit_test(more_devices_are_on_the_front_only_if_they_are_faster),
      cmocka_unit_test(named_degrees_narrow_the_plan),
      cmocka_unit_test(that_nothing_fits_is_a_result_with_the_least_memory),
      cmocka_unit_test(impossible_options_are_refused_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

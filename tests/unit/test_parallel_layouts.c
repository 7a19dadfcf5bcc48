/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor-parallel degrees and pipeline stages side by side. */
#include "advice.h"

#include <headroom/experimental/parallel_layouts.h>
#include <headroom/experimental/report.h>
#include <headroom/memory.h>
#include <stdlib.h>

static void assert_near(double found_value, double expected)
{
  if (!(fabs(found_value - expected) <= 1e-9 * fabs(expected)))
    fail_msg("%g is not %g", found_value, expected);
}

static hr_parallel_layouts layouts; /* large */

static void compare(const char *name, const hr_model *model, const hr_workload *workload, int64_t nodes)
{
  hr_hardware hardware = device(name);
  hr_error error;
  assert_ok(hr_compare_parallel_layouts(&hardware, model, workload, nodes, &layouts, &error), error);
}

static void assert_degrees(size_t place, int64_t t, int64_t p)
{
  assert_true(place < layouts.count);
  assert_int_equal(layouts.items[place].workload.tensor_parallel, t);
  assert_int_equal(layouts.items[place].workload.pipeline_stages, p);
}

static void other_t_other_p_and_as_many_devices_are_listed(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b");
  hr_workload workload = workload_of(&model, 8);
  compare("h200", &model, &workload, 0);
  static const int64_t degrees[][2] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {4, 2}, {2, 4}, {1, 8}};
  assert_int_equal(layouts.count, 7);
  for (size_t i = 0; i < layouts.count; i++)
    assert_degrees(i, degrees[i][0], degrees[i][1]);
  assert_int_equal(layouts.current, 3);
  assert_int_equal(layouts.nodes, 1);
  /* 138 GB of weights fit into 126 GiB with activations of 8192 tokens only from t = 2 on. */
  assert_false(layouts.items[0].fits);
  assert_true(layouts.items[1].fits);
  assert_int_equal(layouts.fastest, 3);
  assert_int_equal(layouts.max_per_device, 1);
  assert_int_equal(layouts.fewest_devices, 1);
}

static void a_layout_has_the_prediction_and_memory_of_its_workload(void **state)
{
  (void)state;
  static hr_step step;
  hr_model model = shipped_model("llama-2-70b");
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 8);
  hr_memory memory;
  hr_error error;
  workload.phase = HR_PHASE_DECODE;
  compare("h200", &model, &workload, 0);
  const hr_parallel_layout *layout = &layouts.items[2];
  assert_ok(hr_fill_step(&hardware, &model, &layout->workload, &step, &error), error);
  assert_ok(hr_memory_estimate(&model, &layout->workload, &memory, &error), error);
  assert_near(layout->time_ns, step.about.time_ns);
  assert_near(layout->tokens_per_s, 4 / step.about.time_ns * 1e9); /* 4 sequences */
  assert_near(layout->tokens_per_s_per_device, layout->tokens_per_s / 4);
  assert_near(layout->communication_share, step.about.communication_ns / step.about.time_ns);
  assert_true(layout->communication_share > 0);
  assert_int_equal(layout->memory_bytes, memory.total_bytes);
}

/* 12 microbatches through 4 stages take 15 stage times, of which each stage works 12: 3/15 idle, a little more than the
 * ends of the model take. */
static void stages_pay_with_the_bubble_of_the_microbatches(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b");
  hr_workload workload = workload_of(&model, 1);
  workload.pipeline_stages = 4, workload.microbatches = 12;
  compare("h200", &model, &workload, 0);
  const hr_parallel_layout *four = &layouts.items[layouts.current], *one = &layouts.items[0];
  assert_degrees(0, 1, 1);
  assert_true(fabs(four->bubble - 0.2) < 0.02);
  assert_near(one->bubble, 0);
  assert_int_equal(one->workload.microbatches, 12);
  assert_true(four->tokens_per_s < 4 * one->tokens_per_s && four->tokens_per_s > 3 * one->tokens_per_s);
}

static void degrees_that_heads_or_nodes_do_not_allow_are_left_out(void **state)
{
  (void)state;
  hr_model model = shipped_model("gpt2"); /* 12 heads */
  hr_workload workload = workload_of(&model, 3);
  compare("h200", &model, &workload, 0);
  assert_degrees(0, 1, 1);
  assert_degrees(1, 2, 1);
  assert_degrees(2, 3, 1);
  assert_degrees(3, 4, 1);
  assert_degrees(4, 3, 2); /* 4 · 2 is not 3 devices, 8 does not divide 12 */
  assert_int_equal(layouts.count, 5);
}

/* 28 query heads over 8 devices are 3.5 each: frameworks refuse the fastest layout. */
static void a_layout_whose_heads_do_not_split_is_listed_as_given_but_not_the_best(void **state)
{
  (void)state;
  hr_model model = shipped_model("qwen2.5-7b");
  hr_workload workload = workload_of(&model, 8);
  compare("h200", &model, &workload, 0);
  assert_degrees(3, 8, 1);
  assert_int_equal(layouts.current, 3);
  assert_false(layouts.items[3].heads_split);
  assert_true(layouts.items[3].fits && layouts.items[3].time_ns < layouts.items[2].time_ns);
  assert_int_equal(layouts.fastest, 2); /* t = 4 */
  assert_true(layouts.items[2].heads_split);
}

static void more_nodes_allow_more_devices_and_fewer_are_refused(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b");
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 8);
  hr_error error;
  compare("h200", &model, &workload, 2);
  assert_degrees(4, 16, 1);
  assert_int_equal(layouts.items[4].nodes, 2);
  workload.pipeline_stages = 4; /* 32 devices */
  assert_int_equal(hr_compare_parallel_layouts(&hardware, &model, &workload, 3, &layouts, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "nodes: 32 devices need 4 nodes of 8, found 3");
}

static void groups_that_share_experts_count_as_devices(void **state)
{
  (void)state;
  hr_model model = shipped_model("qwen3-30b-a3b");
  hr_workload workload = workload_of(&model, 4);
  workload.expert_parallel = 8;
  compare("h200", &model, &workload, 0);
  for (size_t i = 0; i < layouts.count; i++) { /* whatever t is, 8 devices share the experts; each t has its batch */
    const hr_parallel_layout *layout = &layouts.items[i];
    assert_int_equal(layout->devices, 8 * layout->workload.pipeline_stages);
    assert_near(layout->tokens_per_s, layout->tokens_per_s_per_device * (double)layout->devices);
  }
  assert_true(layouts.count > 2);
}

static int64_t batch_that_describe_names(const hr_hardware *hardware, const hr_model *model,
                                         const hr_workload *workload)
{
  char *text = NULL;
  size_t length = 0;
  hr_error error;
  hr_report_options options = hr_report_options_default();
  options.format = HR_FORMAT_JSON;
  FILE *out = open_memstream(&text, &length);
  assert_ok(hr_report_description(
                out, &options, &(hr_subject){.model = model, .workload = workload, .hardware = hardware}, NULL, &error),
            error);
  fclose(out);
  const char *found_at = strstr(text, "\"largest_batch\": ");
  assert_non_null(found_at);
  int64_t batch = strtoll(found_at + strlen("\"largest_batch\": "), NULL, 10);
  free(text);
  return batch;
}

static void describe_and_advise_agree_on_what_fits(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b");
  hr_hardware hardware = device("h200");
  static const hr_phase phases[] = {HR_PHASE_FORWARD, HR_PHASE_DECODE, HR_PHASE_TRAIN};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    hr_workload workload = workload_of(&model, 8);
    workload.phase = phases[i];
    workload.pipeline_stages = phases[i] == HR_PHASE_TRAIN ? 4 : 1;
    int64_t largest = batch_that_describe_names(&hardware, &model, &workload);
    assert_true(largest > 0);
    for (int64_t more = 0; more < 2; more++) {
      workload.batch = largest + more;
      hr_advice *advice = advise_under(&hardware, &model, &workload);
      const hr_parallel_layout *own = &advice->layouts.items[advice->layouts.current];
      assert_int_equal(own->largest_batch, largest);
      assert_true(own->fits == (more == 0));
      assert_true((strstr(found(advice, "microbatch")->why, "does not fit") == NULL) == (more == 0));
      hr_advice_free(advice);
    }
  }
}

/* One node takes 8 devices, two take 16. */
static void an_advice_compares_layouts_on_as_many_nodes_as_it_is_asked_for(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b");
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 8);
  hr_advise_options options = hr_advise_options_default();
  hr_error error;
  for (int64_t nodes = 0; nodes <= 2; nodes++) {
    static hr_parallel_layouts expected;
    hr_advice *advice;
    options.nodes = nodes;
    assert_ok(hr_advise_with(&hardware, &model, &workload, &options, &advice, &error), error);
    assert_ok(hr_compare_parallel_layouts(&hardware, &model, &workload, nodes, &expected, &error), error);
    assert_int_equal(hr_advice_describe(advice)->layouts->nodes, nodes > 0 ? nodes : 1);
    assert_int_equal(hr_advice_describe(advice)->layouts->count, expected.count);
    hr_advice_free(advice);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_advice_compares_layouts_on_as_many_nodes_as_it_is_asked_for),
      cmocka_unit_test(other_t_other_p_and_as_many_devices_are_listed),
      cmocka_unit_test(a_layout_has_the_prediction_and_memory_of_its_workload),
      cmocka_unit_test(stages_pay_with_the_bubble_of_the_microbatches),
      cmocka_unit_test(degrees_that_heads_or_nodes_do_not_allow_are_left_out),
      cmocka_unit_test(a_layout_whose_heads_do_not_split_is_listed_as_given_but_not_the_best),
      cmocka_unit_test(more_nodes_allow_more_devices_and_fewer_are_refused),
      cmocka_unit_test(groups_that_share_experts_count_as_devices),
      cmocka_unit_test(describe_and_advise_agree_on_what_fits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

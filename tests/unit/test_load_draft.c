/* SPDX-License-Identifier: Apache-2.0 */
/* Speculation by a model: what its steps and its memory cost a server. */
#include "analysis/predict/step.h"

#include "devices.h"
#include "load_costs.h"
#include "models.h"

#include <headroom/experimental/model.h>
#include <math.h>

static void a_model_that_drafts_takes_its_steps(void **state)
{
  (void)state;
  const hr_load_step decode = {.sequences = 1, .context = 1, .rows = 4}, prompt = {.prefill_tokens = 1};
  hr_load_costs drafter = plain_costs, costs = plain_costs;
  drafter.decode_ns[0][0] = 1, drafter.prefill_ns[0] = 5;
  costs.drafter = &drafter, costs.drafts = 3;
  assert_true(hr_load_step_ns(&costs, &decode) == 10 + 3 * 1);
  assert_true(hr_load_step_ns(&costs, &prompt) == 100 + 5);
}

/* Llama 3 8B on an H200, in every test. */
typedef struct served {
  hr_hardware hardware;
  hr_model model;
  hr_workload workload;
  hr_serve_options serve;
  hr_load_options load;
} served;

static void serve_llama(served *s)
{
  s->hardware = device("h200");
  s->model = llama3_8b();
  s->workload = hr_workload_default(&s->model);
  s->serve = hr_serve_options_default();
  s->load = hr_load_options_default();
  s->serve.prompt_tokens = 1024, s->serve.output_tokens = 65, s->serve.tensor_parallel = 1;
  s->load.clients = 4, s->load.requests = 40;
}

static hr_status simulate(const served *s, hr_load_result **result, hr_error *error)
{
  const hr_subject subject = {.model = &s->model, .workload = &s->workload, .hardware = &s->hardware};
  return hr_serve_load(&subject, &s->serve, &s->load, result, error);
}

static double tpot_ns(const hr_model *drafter, int64_t drafts)
{
  served s;
  hr_load_result *result;
  hr_error error;
  serve_llama(&s);
  s.load.draft = drafts, s.load.accept = drafts > 0 ? 0.7 : 0, s.load.draft_model = drafter;
  assert_ok(simulate(&s, &result, &error), error);
  assert_int_equal(result->count, 1);
  const double mean = result->points[0].tpot_ns.mean;
  hr_load_result_free(result);
  return mean;
}

/* The large one is the model itself, of which each draft takes as long. */
static void drafts_of_a_small_model_pay_and_of_a_large_one_do_not(void **state)
{
  (void)state;
  const hr_model small = paper_model(768, 12, 12, 50304), large = llama3_8b();
  const double alone = tpot_ns(NULL, 0), free_drafts = tpot_ns(NULL, 4);
  const double by_small = tpot_ns(&small, 4), by_large = tpot_ns(&large, 4);
  assert_true(free_drafts < by_small && by_small < alone && alone < by_large);
}

static void what_drafts_takes_memory_of_the_cache(void **state)
{
  (void)state;
  const hr_serve_layout layout = {.tensor_parallel = 1, .expert_parallel = 1, .pipeline_stages = 1, .devices = 1};
  served s;
  hr_serve_state one, other;
  hr_memory alone, both, drafter;
  hr_error error;
  serve_llama(&s);
  assert_ok(hr_serve_fill_state(&s.hardware, &s.model, &s.workload, &s.serve, &one, &error), error);
  other = one, other.options.reserve_bytes = 0;
  assert_ok(hr_serve_memory(&one, &layout, 8, &alone, &error), error);
  assert_ok(hr_serve_memory(&other, &layout, 8, &drafter, &error), error);
  one.drafter = &other;
  assert_ok(hr_serve_memory(&one, &layout, 8, &both, &error), error);
  assert_int_equal(both.weight_bytes, 2 * alone.weight_bytes);
  assert_int_equal(both.kv_cache_bytes, 2 * alone.kv_cache_bytes);
  assert_int_equal(both.total_bytes, alone.total_bytes + drafter.total_bytes - drafter.activation_bytes);
}

static void a_draft_model_that_cannot_be_is_refused(void **state)
{
  (void)state;
  served s;
  hr_load_result *result;
  hr_error error;
  serve_llama(&s);
  s.load.draft_model = &s.model;
  assert_int_equal(simulate(&s, &result, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "draft_model: it drafts no tokens");
}

/* ---- disaggregated ---- */

static hr_step step;

static double step_ns(const hr_hardware *hardware, const hr_model *model, hr_phase phase, int64_t tokens)
{
  hr_workload workload = hr_workload_default(model);
  hr_error error;
  workload.phase = phase, workload.batch = 1, workload.sequence = workload.context = tokens;
  assert_ok(hr_fill_step(hardware, model, &workload, &step, &error), error);
  return step.about.time_ns;
}

/* A client alone, whose drafts are never accepted, so that each step gives a token. */
static hr_load_point apart_point(const hr_model *drafter)
{
  served s;
  hr_load_result *result;
  hr_error error;
  serve_llama(&s);
  hr_hardware prefilling = device("h100-sxm");
  s.serve.disaggregated = true, s.serve.prefill_hardware = &prefilling, s.serve.prefill_tensor_parallel = 1;
  s.load.clients = 1, s.load.draft = 3, s.load.accept = 0, s.load.draft_model = drafter;
  assert_ok(simulate(&s, &result, &error), error);
  assert_int_equal(result->count, 1);
  hr_load_point point = result->points[0];
  hr_load_result_free(result);
  return point;
}

static void disaggregated_prompts_pass_what_drafts_where_they_are_prefilled(void **state)
{
  (void)state;
  const hr_model drafter = paper_model(768, 12, 12, 50304);
  const hr_hardware h100 = device("h100-sxm"), h200 = device("h200");
  const hr_load_point free_drafts = apart_point(NULL), drafted = apart_point(&drafter);
  const double prompt_ns = step_ns(&h100, &drafter, HR_PHASE_PREFILL, 1024);
  const double draft_ns = step_ns(&h200, &drafter, HR_PHASE_DECODE, 1024 + 32);
  assert_near(drafted.ttft_ns.p50 - free_drafts.ttft_ns.p50, prompt_ns, 0.01);
  /* Its K and V of a token have 2 · 768 · layers values of two bytes, which an H100's 50 GB/s send; a 64th of what all
   * tokens of the prompt take belongs to each later token. */
  const double transfer_ns = 1024 * 2.0 * 768 * 2 * (double)hr_model_layers(&drafter) / 50.0;
  assert_near(h100.network_bytes_per_s, 50e9, 1e-12);
  assert_near(drafted.tpot_ns.p50 - free_drafts.tpot_ns.p50, 3 * draft_ns + transfer_ns / 64, 0.003);
}

static void disaggregated_what_drafts_takes_memory_on_both_sides(void **state)
{
  (void)state;
  served s;
  hr_load_result *result;
  hr_error error;
  serve_llama(&s);
  hr_hardware one_model = device("h200");
  one_model.memory_bytes = (int64_t)24 << 30; /* two have 30 GiB of weights */
  s.serve.disaggregated = true, s.load.draft = 2, s.load.accept = 0.5;
  s.serve.prefill_hardware = &one_model, s.serve.prefill_tensor_parallel = 1;
  assert_ok(simulate(&s, &result, &error), error);
  hr_load_result_free(result);
  s.load.draft_model = &s.model;
  assert_int_equal(simulate(&s, &result, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message,
                      "prefill: the model, the model that drafts and a prompt do not fit, or do not split, "
                      "with t = 1 on h200");
  s.hardware = one_model;
  s.serve.prefill_hardware = NULL, s.serve.prefill_tensor_parallel = 2;
  assert_ok(simulate(&s, &result, &error), error);
  assert_int_equal(result->count, 0);
  hr_load_result_free(result);
}

static hr_load_point fewest_copies(const hr_model *drafter)
{
  served s;
  hr_load_result *result;
  hr_error error;
  serve_llama(&s);
  s.serve.disaggregated = true, s.serve.ttft_limit_ns = 200e6;
  s.load.clients = 0, s.load.rate_per_s = 100, s.load.requests = 2000, s.load.instances = s.load.prefill_instances = 0;
  s.load.draft = 2, s.load.accept = 0.5, s.load.draft_model = drafter;
  assert_ok(simulate(&s, &result, &error), error);
  assert_non_null(result->best);
  hr_load_point best = *result->best;
  hr_load_result_free(result);
  return best;
}

/* The model itself drafts: a prompt takes twice as long, and a step three times. */
static void disaggregated_what_drafts_takes_copies_of_both_kinds(void **state)
{
  (void)state;
  const hr_model model = llama3_8b();
  const hr_load_point free_drafts = fewest_copies(NULL), drafted = fewest_copies(&model);
  assert_true(drafted.prefill_instances > free_drafts.prefill_instances);
  assert_true(drafted.keeps_up && drafted.ttft_ns.p90 <= 200e6 && drafted.ttft_high_ns.p90 > drafted.ttft_ns.p90);
  assert_true(drafted.tpot_ns.p50 > 2 * free_drafts.tpot_ns.p50);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_model_that_drafts_takes_its_steps),
                                     cmocka_unit_test(drafts_of_a_small_model_pay_and_of_a_large_one_do_not),
                                     cmocka_unit_test(what_drafts_takes_memory_of_the_cache),
                                     cmocka_unit_test(a_draft_model_that_cannot_be_is_refused),
                                     cmocka_unit_test(disaggregated_prompts_pass_what_drafts_where_they_are_prefilled),
                                     cmocka_unit_test(disaggregated_what_drafts_takes_memory_on_both_sides),
                                     cmocka_unit_test(disaggregated_what_drafts_takes_copies_of_both_kinds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

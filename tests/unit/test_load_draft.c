/* SPDX-License-Identifier: Apache-2.0 */
/* Speculation by a model: what its steps and its memory cost a server. */
#include "analysis/load/simulation.h"

#include "devices.h"
#include "models.h"

/* Each step with a prompt takes 100 ns, each other one 10 ns. */
static const hr_load_costs costs_alone = {.batches = 1,
                                          .contexts = 1,
                                          .prefills = 1,
                                          .stages = 1,
                                          .batch = {1},
                                          .context = {1},
                                          .decode_ns = {{10}},
                                          .tokens = {1},
                                          .prefill_ns = {100}};

static void a_model_that_drafts_takes_its_steps(void **state)
{
  (void)state;
  const hr_load_step decode = {.sequences = 1, .context = 1, .rows = 4}, prompt = {.prefill_tokens = 1};
  hr_load_costs drafter = costs_alone, costs = costs_alone;
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
  s.load.draft = 2, s.load.accept = 0.5, s.serve.disaggregated = true;
  assert_int_equal(simulate(&s, &result, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "draft_model: disaggregated plans have none");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_model_that_drafts_takes_its_steps),
                                     cmocka_unit_test(drafts_of_a_small_model_pay_and_of_a_large_one_do_not),
                                     cmocka_unit_test(what_drafts_takes_memory_of_the_cache),
                                     cmocka_unit_test(a_draft_model_that_cannot_be_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

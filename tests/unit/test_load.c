/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "analysis/predict/step.h"
#include "devices.h"
#include "load_costs.h"
#include "models.h"

#include <headroom/experimental/serve.h>
#include <math.h>
#include <string.h>

#define RECORDS_MAX 200000
static hr_load_record records[RECORDS_MAX];

static hr_load_server plain_server(void)
{
  return (hr_load_server){.costs = &plain_costs,
                          .engine = {.mixes = true, .splits = true},
                          .slots = 8,
                          .prefill_tokens = 1000,
                          .rows = 1,
                          .tokens_per_step = 1};
}

static hr_load_counts simulate(const hr_load_server *server, size_t count, int64_t clients)
{
  hr_load_counts counts;
  hr_error error;
  assert_ok(hr_load_simulate(server, records, count, clients, &counts, &error), error);
  return counts;
}

/* ---- one server against closed forms ---- */

/* Mean wait of prompts that are served one by one, each in 100 ns, at a load of `busy`. */
static double mean_wait_ns(double busy)
{
  hr_load_server server = plain_server();
  server.slots = 1;
  hr_load_options load = {.rate_per_s = busy / 100e-9,
                          .requests = RECORDS_MAX,
                          .prompt_min = 1,
                          .prompt_max = 1,
                          .output_min = 1,
                          .output_max = 1,
                          .seed = 1};
  hr_load_fill_requests(&load, records);
  simulate(&server, RECORDS_MAX, 0);
  double sum = 0;
  for (size_t i = 0; i < RECORDS_MAX; i++)
    sum += records[i].admitted_ns - records[i].arrival_ns;
  return sum / RECORDS_MAX;
}

static void prompts_served_one_by_one_wait_as_in_an_m_d_1_queue(void **state)
{
  (void)state;
  /* Pollaczek and Khinchine: busy · service / (2 (1 - busy)). */
  assert_near(mean_wait_ns(0.1), 0.1 * 100 / (2 * 0.9), 0.03);
  assert_near(mean_wait_ns(0.5), 0.5 * 100 / (2 * 0.5), 0.03);
  assert_near(mean_wait_ns(0.8), 0.8 * 100 / (2 * 0.2), 0.05);
}

static void a_queue_never_gets_shorter_with_more_load(void **state)
{
  (void)state;
  double last = 0;
  for (int percent = 5; percent <= 150; percent += 5) {
    double wait = mean_wait_ns(percent / 100.0);
    if (!(wait >= last))
      fail_msg("at %d%% the wait is %g, at 5%% less %g", percent, wait, last);
    last = wait;
  }
}

static void one_client_sees_a_prefill_and_steps_without_waiting(void **state)
{
  (void)state;
  hr_hardware hardware = device("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = &hardware};
  hr_serve_options serve = hr_serve_options_default();
  hr_load_options load = hr_load_options_default();
  hr_serve_result *plan;
  hr_load_result *result;
  hr_error error;
  serve.prompt_tokens = 1024, serve.output_tokens = 65, serve.tensor_parallel = 1, serve.batch = 1;
  serve.engine = HR_SERVE_NONE;
  load.clients = 1, load.requests = 5;
  assert_ok(hr_serve_plan(&hardware, &model, &workload, &serve, &plan, &error), error);
  assert_ok(hr_serve_load(&subject, &serve, &load, &result, &error), error);
  assert_int_equal(result->count, 1);
  const hr_load_point *point = &result->points[0];
  assert_near(point->ttft_ns.p50, plan->points[0].ttft_ns, 0.01);
  assert_near(point->ttft_ns.p99, point->ttft_ns.p50, 1e-9);
  assert_near(point->tpot_ns.p50, plan->points[0].tpot_ns, 0.01);
  assert_near(point->output_tokens_per_s, plan->points[0].output_tokens_per_s, 0.01);
  assert_near(point->resident_mean, 1, 1e-9);
  assert_true(point->queue_ns.p99 == 0);
  hr_load_result_free(result);
  hr_serve_result_free(plan);
}

static void a_pipeline_under_a_load_is_as_fast_as_in_its_plan(void **state)
{
  (void)state;
  hr_hardware hardware = device("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = &hardware};
  static const struct {
    int64_t stages, clients, prompt, output;
  } cases[] = {{2, 1, 1024, 65}, {4, 1, 1024, 65}, {2, 64, 64, 257}, {4, 64, 64, 257}, {4, 2, 64, 257}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_serve_options serve = hr_serve_options_default();
    hr_load_options load = hr_load_options_default();
    hr_serve_result *plan;
    hr_load_result *result;
    hr_error error;
    serve.prompt_tokens = cases[i].prompt, serve.output_tokens = cases[i].output, serve.tensor_parallel = 1;
    serve.pipeline_stages = cases[i].stages, serve.batch = cases[i].clients, serve.engine = HR_SERVE_NONE;
    load.clients = cases[i].clients, load.requests = 10 * cases[i].clients;
    load.output_min = cases[i].output - cases[i].output / 5, load.output_max = cases[i].output + cases[i].output / 5;
    assert_ok(hr_serve_plan(&hardware, &model, &workload, &serve, &plan, &error), error);
    assert_ok(hr_serve_load(&subject, &serve, &load, &result, &error), error);
    const hr_load_point *point = &result->points[0];
    assert_int_equal(point->devices, cases[i].stages);
    /* Prompts share steps with the sequences that decode, so that they hold them up for less than in a plan. */
    assert_true(point->tpot_ns.p50 > 0.98 * plan->points[0].decode_step_ns);
    assert_true(point->tpot_ns.p50 < 1.02 * plan->points[0].tpot_ns);
    if (cases[i].clients == 1)
      assert_near(point->ttft_ns.p50, plan->points[0].ttft_ns, 0.02);
    hr_load_result_free(result);
    hr_serve_result_free(plan);
  }
}

static void groups_of_an_expert_parallel_layout_share_the_clients(void **state)
{
  (void)state;
  hr_hardware hardware = device("h200");
  hr_model model = shipped_model("mixtral-8x7b-v0.1");
  hr_workload workload = hr_workload_default(&model);
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = &hardware};
  hr_serve_options serve = hr_serve_options_default();
  hr_load_options load = hr_load_options_default();
  hr_serve_result *plan;
  hr_error error;
  serve.prompt_tokens = 1024, serve.output_tokens = 65, serve.tensor_parallel = 2, serve.expert_parallel = 8;
  serve.batch = 1, serve.engine = HR_SERVE_NONE;
  assert_ok(hr_serve_plan(&hardware, &model, &workload, &serve, &plan, &error), error);
  assert_int_equal(plan->points[0].sequences, 4);
  static const int64_t clients[] = {1, 4, 8}; /* one group of four; all; and each with one that waits */
  for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
    hr_load_result *result;
    load.clients = clients[i], load.requests = 200;
    assert_ok(hr_serve_load(&subject, &serve, &load, &result, &error), error);
    const hr_load_point *point = &result->points[0];
    double busy = (double)(clients[i] < 4 ? clients[i] : 4);
    assert_int_equal(point->devices, 8);
    assert_near(point->output_tokens_per_s, plan->points[0].output_tokens_per_s * busy / 4, 0.02);
    assert_near(point->tpot_ns.p50, plan->points[0].tpot_ns, 0.02);
    assert_near(point->resident_mean, busy, 0.02);
    assert_true(clients[i] == 8 ? point->queue_ns.p50 > 0.9 * plan->points[0].request_ns : point->queue_ns.p50 == 0);
    hr_load_result_free(result);
  }
  hr_serve_result_free(plan);
}

static hr_step step;

static void interpolated_steps_are_near_predicted_ones(void **state)
{
  (void)state;
  static const struct {
    hr_phase phase;
    int64_t batch, tokens;
  } steps[] = {{HR_PHASE_DECODE, 1, 1000},  {HR_PHASE_DECODE, 7, 300},  {HR_PHASE_DECODE, 50, 1500},
               {HR_PHASE_DECODE, 120, 700}, {HR_PHASE_PREFILL, 1, 700}, {HR_PHASE_PREFILL, 5, 1000},
               {HR_PHASE_PREFILL, 1, 2000}, {HR_PHASE_PREFILL, 3, 500}};
  hr_hardware hardware = device("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  hr_serve_options serve = hr_serve_options_default();
  hr_serve_layout layout = {.tensor_parallel = 2, .expert_parallel = 1, .pipeline_stages = 1, .devices = 2};
  hr_serve_state serving = {0};
  static hr_load_costs costs[HR_LOAD_ENDS];
  hr_error error;
  assert_ok(hr_serve_fill_state(&hardware, &model, &workload, &serve, &serving, &error), error);
  serving.step = &step;
  assert_ok(hr_load_fill_costs(&serving, &layout, 128, 1000, 2048, costs, &error), error);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    double batch = (double)steps[i].batch, tokens = (double)steps[i].tokens;
    hr_load_step work = {.sequences = batch, .context = tokens, .rows = batch};
    if (steps[i].phase == HR_PHASE_PREFILL)
      work = (hr_load_step){.prefill_tokens = batch * tokens, .pairs = 0.5 * batch * tokens * tokens};
    hr_serve_time time;
    assert_ok(hr_serve_predict(&serving, &layout, steps[i].phase, steps[i].batch, steps[i].tokens, &time, &error),
              error);
    assert_near(hr_load_step_ns(costs, &work), time.ns, 0.06);
  }
}

/* ---- the order of steps, by hand ---- */

/* A, then B 5 ns after A's first token. */
static void fill_two(int64_t output)
{
  records[0] = (hr_load_record){.arrival_ns = 0, .prompt = 4, .output = output};
  records[1] = (hr_load_record){.arrival_ns = 105, .prompt = 4, .output = 2};
}

static void an_engine_that_mixes_decodes_in_the_step_of_a_prompt(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  fill_two(3);
  simulate(&server, 2, 0);
  /* A: prefill to 100, a step to 110, its last token in B's step to 210. */
  assert_near(records[0].first_ns, 100, 1e-12);
  assert_near(records[0].finish_ns, 210, 1e-12);
  assert_near(records[1].admitted_ns, 110, 1e-12);
  assert_near(records[1].first_ns, 210, 1e-12);
  assert_near(records[1].finish_ns, 220, 1e-12);
}

static void an_engine_that_does_not_mix_lets_the_others_wait(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.engine.mixes = false;
  fill_two(3);
  hr_load_counts counts = simulate(&server, 2, 0);
  assert_near(records[0].finish_ns, 220, 1e-12);
  assert_near(records[1].first_ns, 210, 1e-12);
  assert_near(counts.busy_ns, 220, 1e-12);
  assert_int_equal(counts.resident_max, 2);
}

static void a_prompt_leaves_its_stage_to_the_next_one_while_it_passes_the_others(void **state)
{
  (void)state;
  hr_load_costs costs = plain_costs;
  hr_load_server server = plain_server();
  costs.stages = 4, costs.behind[0] = 3;
  server.costs = &costs, server.prefill_tokens = 10;
  for (size_t i = 0; i < 2; i++)
    records[i] = (hr_load_record){.prompt = 10, .output = 3};
  hr_load_counts counts = simulate(&server, 2, 0);
  /* The first stage has A until 100 and B until 200; A is out of the last one at 400, B at 500. A sequence has its turn
   * in each stage for 10 of the 40 ns of a token. */
  assert_near(records[0].first_ns, 400, 1e-12);
  assert_near(records[0].finish_ns, 480, 1e-12);
  assert_near(records[1].first_ns, 500, 1e-12);
  assert_near(records[1].finish_ns, 580, 1e-12);
  assert_near(counts.busy_ns, 2 * 100 + 2 * 80, 1e-12);
}

static void prompts_wait_for_others_as_many_steps_as_told(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.wait_steps = 20;
  fill_two(100);
  simulate(&server, 2, 0);
  assert_near(records[1].admitted_ns, 110 + 20 * 10, 1e-12);
  server.prefill_tokens = 4; /* B alone fills a step */
  fill_two(100);
  simulate(&server, 2, 0);
  assert_near(records[1].admitted_ns, 110, 1e-12);
}

static void a_decode_step_gives_the_first_token_where_the_prefill_gives_none(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.engine.decodes_first = true;
  fill_two(3);
  simulate(&server, 2, 0);
  /* A: prefill to 100, a first token to 110, B's step to 210, its last token to 220, in the step of B's first one. */
  assert_near(records[0].first_ns, 110, 1e-12);
  assert_near(records[0].finish_ns, 220, 1e-12);
  assert_near(records[1].first_ns, 220, 1e-12);
  assert_near(records[1].finish_ns, 230, 1e-12);
  records[0] = (hr_load_record){.prompt = 1, .output = 2}; /* of which nothing is left to prefill */
  simulate(&server, 1, 0);
  assert_near(records[0].first_ns, 10, 1e-12);
  assert_near(records[0].finish_ns, 20, 1e-12);
}

static void the_scheduler_sees_a_request_after_the_engine_s_own_time(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.engine.arrival_ns = 30, server.engine.step_ns = 1, server.engine.sequence_ns = 2;
  records[0] = (hr_load_record){.prompt = 1, .output = 3};
  simulate(&server, 1, 0);
  assert_near(records[0].first_ns, 30 + 101, 1e-12);
  assert_near(records[0].finish_ns, 30 + 101 + 2 * (10 + 1 + 2), 1e-12);
}

static void a_long_prompt_takes_several_steps(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.prefill_tokens = 4;
  records[0] = (hr_load_record){.prompt = 10, .output = 1};
  simulate(&server, 1, 0);
  assert_near(records[0].finish_ns, 300, 1e-12);
  server.cached = 0.6; /* 4 tokens are left */
  records[0] = (hr_load_record){.prompt = 10, .output = 1};
  simulate(&server, 1, 0);
  assert_near(records[0].finish_ns, 100, 1e-12);
}

static void an_engine_that_does_not_split_takes_whole_prompts(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.prefill_tokens = 10;
  for (int splits = 0; splits < 2; splits++) {
    server.engine.splits = splits;
    for (size_t i = 0; i < 5; i++)
      records[i] = (hr_load_record){.prompt = 6, .output = 1};
    simulate(&server, 5, 0);
    /* 30 tokens: 3 steps of 10, or 5 of one prompt. */
    assert_near(records[4].finish_ns, splits ? 300 : 500, 1e-12);
  }
}

static void accepted_drafts_save_steps(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.rows = 4, server.tokens_per_step = 4;
  records[0] = (hr_load_record){.prompt = 1, .output = 9};
  simulate(&server, 1, 0);
  assert_near(records[0].finish_ns, 100 + 2 * 10, 1e-12); /* 8 tokens after the first, 4 in a step */
}

static void clients_send_when_their_last_request_has_ended(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.slots = 1;
  for (size_t i = 0; i < 3; i++)
    records[i] = (hr_load_record){.prompt = 1, .output = 2};
  simulate(&server, 3, 2);
  /* One slot: 110 ns each. The third is sent as the first ends, and waits for the second. */
  assert_near(records[1].admitted_ns, 110, 1e-12);
  assert_near(records[2].arrival_ns, 110, 1e-12);
  assert_near(records[2].finish_ns, 330, 1e-12);
}

static void a_simulation_that_would_not_end_is_refused(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  hr_load_counts counts;
  hr_error error;
  server.prefill_tokens = 1;
  for (size_t i = 0; i < 2; i++)
    records[i] = (hr_load_record){.prompt = HR_LOAD_TOKENS_MAX, .output = 1};
  assert_int_equal(hr_load_simulate(&server, records, 2, 0, &counts, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "requests: they would take more than 20000000 steps"));
}

/* ---- the cache ---- */

static void fill_many(size_t count, uint64_t seed)
{
  hr_load_options load = {.rate_per_s = 20e6,
                          .requests = (int64_t)count,
                          .prompt_min = 1,
                          .prompt_max = 40,
                          .output_min = 1,
                          .output_max = 60,
                          .seed = seed};
  hr_load_fill_requests(&load, records);
}

static void assert_every_request_ends_once(bool decodes_first)
{
  static const int64_t caches[] = {0, 100, 130, 200, 400};
  static const double reserved[] = {0, 0.7, 1};
  for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
    for (size_t j = 0; j < sizeof reserved / sizeof *reserved; j++) {
      hr_load_server server = plain_server();
      server.cache_tokens = caches[i], server.engine.output_reserved = reserved[j];
      server.engine.decodes_first = decodes_first;
      fill_many(2000, i + 1);
      hr_load_counts counts = simulate(&server, 2000, 0);
      for (size_t k = 0; k < 2000; k++) {
        const hr_load_record *record = &records[k];
        assert_true(record->arrival_ns <= record->admitted_ns && record->admitted_ns < record->first_ns);
        assert_true(record->output == 1 ? record->finish_ns == record->first_ns : record->finish_ns > record->first_ns);
        assert_int_equal(record->made, record->output);
      }
      assert_true(counts.resident_max <= 8);
      if (reserved[j] == 1)
        assert_int_equal(counts.preempted, 0);
      if (reserved[j] == 0 && caches[i] > 0 && caches[i] < 400)
        assert_true(counts.preempted > 0);
    }
  }
}

static void every_request_ends_once_however_small_the_cache(void **state)
{
  (void)state;
  assert_every_request_ends_once(false);
  assert_every_request_ends_once(true);
}

static void a_full_cache_sends_the_last_request_back(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  server.cache_tokens = 20;
  for (size_t i = 0; i < 2; i++)
    records[i] = (hr_load_record){.prompt = 5, .output = 10};
  hr_load_counts counts = simulate(&server, 2, 0);
  /* Both have 6 tokens at 100, and grow to 10 by 4 steps. A then decodes 5 more to 190. B's 5 prompt and 5 output
   * tokens are prefilled again, which gives its sixth; 4 steps are left. */
  assert_int_equal(counts.preempted, 1);
  assert_near(records[0].finish_ns, 190, 1e-12);
  assert_near(records[1].first_ns, 100, 1e-12);
  assert_near(records[1].finish_ns, 190 + 100 + 4 * 10, 1e-12);
}

/* ---- instances that prefill beside others that decode ---- */

static hr_load_cluster plain_cluster(const hr_load_server *prefill, size_t prefilling, const hr_load_server *decode,
                                     size_t decoding)
{
  return (hr_load_cluster){.prefill = {.server = prefill, .instances = prefilling},
                           .decode = {.server = decode, .instances = decoding},
                           .least_prefill_ns = 100};
}

static void a_request_is_handed_over_when_its_prompt_is_prefilled(void **state)
{
  (void)state;
  hr_load_server prefill = plain_server(), decode = plain_server();
  prefill.hands_over = true, prefill.prefill_tokens = 10;
  static const struct {
    size_t prefilling, decoding;
    double first[2], finish[2];
  } cases[] = {/* A's K and V come at 107 and decode at once, B's at 207. */
               {1, 1, {100, 200}, {127, 227}},
               /* Both come at 107, and share steps. */
               {2, 1, {100, 100}, {127, 127}},
               {2, 2, {100, 100}, {127, 127}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_load_cluster cluster = plain_cluster(&prefill, cases[i].prefilling, &decode, cases[i].decoding);
    hr_error error;
    cluster.transfer_ns = 2, cluster.transfer_ns_per_token = 0.5;
    for (size_t j = 0; j < 2; j++)
      records[j] = (hr_load_record){.prompt = 10, .output = 3};
    assert_ok(hr_load_simulate_cluster(&cluster, records, 2, 0, &error), error);
    for (size_t j = 0; j < 2; j++) {
      assert_near(records[j].first_ns, cases[i].first[j], 1e-12);
      assert_near(records[j].finish_ns, cases[i].finish[j], 1e-12);
    }
    assert_near(cluster.prefill.counts.busy_ns, 200, 1e-12);
    assert_near(cluster.decode.counts.busy_ns, cases[i].prefilling == 2 && cases[i].decoding == 1 ? 20 : 40, 1e-12);
  }
}

static void decoding_goes_on_while_others_are_prefilled(void **state)
{
  (void)state;
  hr_load_server prefill = plain_server(), decode = plain_server();
  hr_load_cluster cluster = plain_cluster(&prefill, 1, &decode, 1);
  hr_error error;
  prefill.hands_over = true;
  fill_two(30); /* B's prompt takes 100 ns of A's 290 */
  assert_ok(hr_load_simulate_cluster(&cluster, records, 2, 0, &error), error);
  assert_near(records[0].finish_ns, 100 + 29 * 10, 1e-12);
  fill_two(30);
  simulate(&decode, 2, 0);
  assert_near(records[0].finish_ns, 100 + 28 * 10 + 100, 1e-12);
}

static void every_request_ends_once_however_many_instances_there_are(void **state)
{
  (void)state;
  static const struct {
    size_t prefilling, decoding;
    int64_t clients, cache;
  } cases[] = {{1, 1, 0, 0}, {2, 3, 0, 130}, {3, 1, 0, 100}, {1, 1, 1, 0}, {2, 3, 20, 0}, {3, 2, 7, 130}, {5, 0, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_load_server prefill = plain_server(), decode = plain_server();
    hr_load_cluster cluster = plain_cluster(&prefill, cases[i].prefilling, &decode, cases[i].decoding);
    hr_error error;
    double last = 0;
    prefill.hands_over = true, decode.cache_tokens = cases[i].cache;
    fill_many(2000, i + 1);
    assert_ok(hr_load_simulate_cluster(&cluster, records, 2000, cases[i].clients, &error), error);
    for (size_t k = 0; k < 2000; k++) {
      const hr_load_record *record = &records[k];
      bool one = record->output == 1 || cases[i].decoding == 0;
      assert_true(record->arrival_ns <= record->admitted_ns && record->admitted_ns < record->first_ns);
      assert_true(one ? record->finish_ns == record->first_ns : record->finish_ns > record->first_ns);
      last = fmax(last, record->finish_ns);
    }
    if (cases[i].clients == 1) { /* a client alone waits for nobody */
      double sum = 0;
      for (size_t k = 0; k < 2000; k++)
        sum += 100 + 10 * (double)(records[k].output - 1);
      assert_near(last - records[0].arrival_ns, sum, 1e-9);
    }
    assert_true(cases[i].cache == 0 || cluster.decode.counts.preempted > 0);
  }
}

/* Llama 3 8B on H200s that decode, prefilled on H100s. */
static hr_load_result *apart_load(const hr_load_options *load, double ttft_limit_ns, double tpot_limit_ns, int64_t sure)
{
  static hr_hardware decoding, prefilling;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = &decoding};
  hr_serve_options serve = hr_serve_options_default();
  hr_load_result *result;
  hr_error error;
  decoding = device("h200"), prefilling = device("h100-sxm");
  serve.disaggregated = true, serve.prefill_hardware = &prefilling;
  serve.tensor_parallel = serve.prefill_tensor_parallel = 1;
  serve.prompt_tokens = 4096, serve.output_tokens = 65;
  serve.ttft_limit_ns = ttft_limit_ns, serve.tpot_limit_ns = tpot_limit_ns, serve.sure = sure;
  serve.price_per_device_hour = 7.2, serve.prefill_price_per_device_hour = 3.6;
  assert_ok(hr_serve_load(&subject, &serve, load, &result, &error), error);
  assert_int_equal(result->count, 1);
  return result;
}

static void one_client_of_two_device_types_sees_the_prefill_of_one_and_the_steps_of_the_other(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.clients = 1, load.requests = 5;
  hr_load_result *result = apart_load(&load, 0, 0, 0);
  const hr_load_point *point = &result->points[0];
  hr_hardware h100 = device("h100-sxm"), h200 = device("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  workload.batch = 1, workload.sequence = 4096, workload.phase = HR_PHASE_PREFILL;
  assert_ok(hr_fill_step(&h100, &model, &workload, &step, &error), error);
  double prefill_ns = step.about.time_ns;
  workload.phase = HR_PHASE_DECODE, workload.context = 4096 + 32;
  assert_ok(hr_fill_step(&h200, &model, &workload, &step, &error), error);
  /* vLLM's own times at t = 1: 25 ms before a request is seen, 0.5 ms a step, 0.03 ms a sequence. K and V of a token
   * are 128 KiB, which an H100's 50 GB/s send; a 64th of that belongs to each later token. */
  double transfer_ns = 4096 * 131072 / 50.0 + h100.network_latency_ns;
  assert_near(h100.network_bytes_per_s, 50e9, 1e-12);
  assert_near(point->ttft_ns.p50, prefill_ns + 25e6 + 0.5e6, 0.01);
  assert_near(point->tpot_ns.p50, step.about.time_ns + 0.53e6 + transfer_ns / 64, 0.01);
  assert_int_equal(point->prefill_tensor_parallel, 1);
  assert_int_equal(point->devices, 2);
  /* 10.8 an hour are 0.003 a second. */
  assert_near(point->cost_per_million_output_tokens * point->output_tokens_per_s, 0.003 * 1e6, 1e-9);
  hr_load_result_free(result);
}

static void as_few_instances_are_taken_as_keep_up_within_the_limits(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.requests = 3000;
  load.instances = load.prefill_instances = 0;
  load.rate_per_s = 100;
  hr_load_result *found = apart_load(&load, 500e6, 7e6, 0);
  hr_load_point few = found->points[0];
  assert_ptr_equal(found->best, &found->points[0]);
  assert_true(few.prefill_instances > 1 && few.instances > 1 && few.keeps_up);
  assert_true(few.ttft_ns.p90 <= 500e6 && few.tpot_ns.p90 <= 7e6);
  assert_int_equal(few.devices, few.instances + few.prefill_instances * few.prefill_tensor_parallel);
  hr_load_result_free(found);
  load.instances = few.instances, load.prefill_instances = few.prefill_instances - 1;
  hr_load_result *slower = apart_load(&load, 500e6, 7e6, 0);
  assert_true(!slower->points[0].keeps_up || !slower->points[0].meets_ttft);
  hr_load_result_free(slower);
  load.instances = few.instances - 1, load.prefill_instances = few.prefill_instances;
  slower = apart_load(&load, 500e6, 7e6, 0);
  assert_true(!slower->points[0].keeps_up || !slower->points[0].meets_tpot);
  assert_near(slower->points[0].ttft_ns.p90, few.ttft_ns.p90, 1e-9);
  hr_load_result_free(slower);
}

static void instances_are_counted_at_the_high_end_of_the_band_to_be_sure(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.instances = load.prefill_instances = 0;
  load.rate_per_s = 100;
  hr_load_result *predicted = apart_load(&load, 500e6, 9e6, 0), *sure = apart_load(&load, 500e6, 9e6, 90);
  const hr_load_point *few = predicted->best, *more = sure->best;
  assert_non_null(few);
  assert_non_null(more);
  assert_true(!few->band_meets_tpot || !few->band_meets_ttft || !few->band_keeps_up);
  assert_true(more->band_meets_tpot && more->band_meets_ttft && more->band_keeps_up);
  assert_true(more->instances >= few->instances && more->prefill_instances > few->prefill_instances);
  hr_load_result_free(predicted);
  hr_load_result_free(sure);
}

static void limits_that_no_number_of_instances_meets_are_missed_by_those_that_keep_up(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.instances = load.prefill_instances = 0;
  load.rate_per_s = 30;
  hr_load_result *result = apart_load(&load, 1e3, 1e3, 0);
  assert_null(result->best);
  assert_true(result->shown->keeps_up && !result->shown->meets_ttft && !result->shown->meets_tpot);
  hr_load_result_free(result);
}

/* ---- options ---- */

static hr_load_result *surely_load_of(const hr_load_options *load, double ttft_limit_ns, int64_t sure)
{
  hr_hardware hardware = device("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = &hardware};
  hr_serve_options serve = hr_serve_options_default();
  hr_load_result *result;
  hr_error error;
  serve.prompt_tokens = 512, serve.output_tokens = 64, serve.devices_max = 2, serve.ttft_limit_ns = ttft_limit_ns;
  serve.price_per_device_hour = 3.6, serve.sure = sure;
  assert_ok(hr_serve_load(&subject, &serve, load, &result, &error), error);
  return result;
}

static hr_load_result *load_of(const hr_load_options *load, double ttft_limit_ns)
{
  return surely_load_of(load, ttft_limit_ns, 0);
}

static void a_sure_layout_is_within_the_limits_at_the_high_end_of_its_band(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.rate_per_s = 10;
  hr_load_result *loose = load_of(&load, 0);
  const hr_load_point *one = &loose->points[0], *two = &loose->points[1];
  assert_true(one->ttft_low_ns.p90 < one->ttft_ns.p90 && one->ttft_ns.p90 < one->ttft_high_ns.p90);
  /* vLLM on an H200 by engines.inc: steps of 0.96 to 1.17 times the predicted ones, and 0.53 ms at least of its own. */
  assert_true(one->tpot_low_ns.p50 > 0.95 * one->tpot_ns.p50 && one->tpot_low_ns.p50 < 0.99 * one->tpot_ns.p50);
  assert_true(one->tpot_high_ns.p50 > 1.1 * one->tpot_ns.p50 && one->tpot_high_ns.p50 < 1.3 * one->tpot_ns.p50);
  double limit = (two->ttft_high_ns.p90 + one->ttft_high_ns.p90) / 2;
  assert_true(one->ttft_ns.p90 < limit);
  hr_load_result *predicted = load_of(&load, limit), *sure = surely_load_of(&load, limit, 90);
  assert_ptr_equal(predicted->best, &predicted->points[0]);
  assert_ptr_equal(sure->best, &sure->points[1]);
  hr_load_result_free(loose);
  hr_load_result_free(predicted);
  hr_load_result_free(sure);
}

static void vllm_has_its_own_times_on_b200(void **state)
{
  (void)state;
  const hr_hardware b200 = device("b200"), h200 = device("h200"), rtx = device("rtx-pro-6000");
  assert_near(hr_load_engine_of(&h200, HR_SERVE_VLLM, 8).step_ns, 1.2e6, 1e-12);
  assert_near(hr_load_engine_of(&rtx, HR_SERVE_VLLM, 8).step_ns, 1.2e6, 1e-12);
  assert_near(hr_load_engine_of(&b200, HR_SERVE_VLLM, 8).step_ns, 0.6e6, 1e-12);
  assert_near(hr_load_engine_of(&b200, HR_SERVE_VLLM, 3).step_ns, 0.7e6, 1e-12);
  assert_near(hr_load_engine_of(&h200, HR_SERVE_VLLM, 8).arrival_ns, 25e6, 1e-12);
  assert_near(hr_load_engine_of(&b200, HR_SERVE_VLLM, 8).arrival_ns, 75e6, 1e-12);
  assert_true(hr_load_engine_of(&b200, HR_SERVE_TRTLLM, 8).step_ns == 0);
}

static void servers_that_send_many_tokens_have_a_wider_band(void **state)
{
  (void)state;
  const hr_load_engine engine = {.ttft_high = 1.5, .ttft_busy = 9};
  hr_load_point point = {.instances = 1, .output_tokens_per_s = 2 * HR_LOAD_BUSY};
  assert_true(hr_load_ttft_high(&engine, &point) == 9);
  point.instances = 2;
  assert_true(hr_load_ttft_high(&engine, &point) == 1.5);
  point.instances = 0, point.prefill_instances = 1; /* which send none to clients */
  assert_true(hr_load_ttft_high(&engine, &point) == 1.5);
}

static void copies_share_a_load_that_one_does_not_carry(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.requests = 3000;
  load.rate_per_s = 300;
  hr_load_result *one = load_of(&load, 0);
  assert_true(!one->points[0].keeps_up && one->points[0].instances == 1 && one->points[0].devices == 1);
  load.instances = 0;
  hr_load_result *enough = load_of(&load, 200e6);
  for (size_t i = 0; i < 2; i++) {
    const hr_load_point *point = &enough->points[i];
    assert_true(point->instances > 1 && point->keeps_up && point->meets_ttft);
    assert_int_equal(point->devices, point->instances * point->tensor_parallel);
    assert_near(point->requests_per_s, 300, 0.1);
    assert_true(point->busy_share < 1);
    /* 3.6 an hour and device are 0.001 a second. */
    assert_near(point->cost_per_million_output_tokens * point->output_tokens_per_s, 1e3 * (double)point->devices, 1e-9);
  }
  assert_true(enough->best->devices <= enough->points[0].devices && enough->best->devices <= enough->points[1].devices);
  load.instances = enough->points[0].instances - 1;
  hr_load_result *fewer = load_of(&load, 200e6);
  assert_int_equal(fewer->points[0].instances, load.instances);
  assert_true(!fewer->points[0].keeps_up || !fewer->points[0].meets_ttft);
  hr_load_result_free(one);
  hr_load_result_free(enough);
  hr_load_result_free(fewer);
}

static void a_load_that_one_copy_carries_takes_one(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.rate_per_s = 10, load.requests = 1000;
  hr_load_result *one = load_of(&load, 0);
  load.instances = 0;
  hr_load_result *fewest = load_of(&load, 0);
  for (size_t i = 0; i < 2; i++)
    assert_memory_equal(&one->points[i], &fewest->points[i], sizeof one->points[i]);
  hr_load_result_free(one);
  hr_load_result_free(fewest);
}

static void the_same_seed_gives_the_same_result(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.rate_per_s = 10, load.prompt_min = 100, load.prompt_max = 1000;
  hr_load_result *first = load_of(&load, 0), *second = load_of(&load, 0);
  assert_int_equal(first->count, 2);
  assert_int_equal(first->load.requests, 1000);
  for (size_t i = 0; i < first->count; i++)
    assert_memory_equal(&first->points[i], &second->points[i], sizeof first->points[i]);
  load.seed = 2;
  hr_load_result *other = load_of(&load, 0);
  assert_true(first->points[0].ttft_ns.mean != other->points[0].ttft_ns.mean);
  hr_load_result_free(first);
  hr_load_result_free(second);
  hr_load_result_free(other);
}

static void the_best_layout_has_the_fewest_devices_that_keep_up_within_the_limits(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.rate_per_s = 10;
  hr_load_result *loose = load_of(&load, 0);
  assert_ptr_equal(loose->best, &loose->points[0]);
  double between = (loose->points[0].ttft_ns.p90 + loose->points[1].ttft_ns.p90) / 2;
  hr_load_result *tight = load_of(&load, between), *none = load_of(&load, 1);
  assert_ptr_equal(tight->best, &tight->points[1]);
  assert_null(none->best);
  assert_non_null(none->shown);
  hr_load_result_free(loose);
  hr_load_result_free(tight);
  hr_load_result_free(none);
  load.rate_per_s = 500; /* beyond what either does */
  hr_load_result *beyond = load_of(&load, 0);
  assert_null(beyond->best);
  assert_false(beyond->points[1].keeps_up);
  hr_load_result_free(beyond);
}

static void a_short_trace_of_requests_that_wait_for_nobody_is_kept_up_with(void **state)
{
  (void)state;
  static const hr_load_request trace[] = {{0, 100, 5}, {0.25e9, 200, 64}, {0.5e9, 100, 500}, {0.75e9, 100, 20}};
  for (size_t count = 1; count <= 4; count++) {
    hr_load_options load = hr_load_options_default();
    load.trace = trace, load.trace_count = count;
    hr_load_result *result = load_of(&load, 0);
    assert_ptr_equal(result->best, &result->points[0]);
    hr_load_result_free(result);
  }
}

static void outputs_of_one_token_have_no_time_between_tokens(void **state)
{
  (void)state;
  hr_load_server server = plain_server();
  hr_load_counts counts;
  hr_load_point point = {0};
  hr_error error;
  for (size_t i = 0; i < 3; i++)
    records[i] = (hr_load_record){.arrival_ns = 10, .prompt = 1, .output = 1};
  counts = simulate(&server, 3, 0);
  assert_ok(hr_load_summarize(records, 3, &counts, &point, &error), error);
  assert_true(isnan(point.tpot_ns.mean) && isnan(point.tpot_ns.p90));
  assert_near(point.ttft_ns.p50, 100, 1e-12);
  assert_true(point.keeps_up);
}

static void the_timeline_has_all_requests_and_all_tokens(void **state)
{
  (void)state;
  hr_load_options load = hr_load_options_default();
  load.rate_per_s = 40, load.requests = 300;
  hr_load_result *result = load_of(&load, 0);
  const hr_load_point *point = &result->points[0];
  int64_t arrivals = 0;
  double tokens = 0, resident = 0;
  for (size_t i = 0; i < HR_LOAD_INTERVALS; i++) {
    const hr_load_interval *interval = &point->timeline[i];
    arrivals += interval->arrivals;
    tokens += interval->output_tokens_per_s * (interval->end_ns - interval->begin_ns) * 1e-9;
    resident += interval->resident / HR_LOAD_INTERVALS;
  }
  assert_int_equal(arrivals, 300);
  assert_near(tokens, 300 * 64, 1e-9);
  assert_near(point->cost_per_million_output_tokens, 1e-3 / point->output_tokens_per_s * 1e6, 1e-9);
  assert_near(resident, point->resident_mean, 1e-9);
  hr_load_result_free(result);
}

static void a_load_that_cannot_be_is_named(void **state)
{
  (void)state;
  static const hr_load_request backwards[] = {{5, 1, 1}, {4, 1, 1}};
  const struct {
    hr_load_options load;
    const char *message;
  } cases[] = {
      {{.seed = 1}, "load: none of rate_per_s, clients and trace are given"},
      {{.rate_per_s = 1, .clients = 1}, "load: several of rate_per_s, clients and trace are given"},
      {{.clients = 1, .cached = 1}, "cached: expected a number from 0 to 0.999999, found 1"},
      {{.clients = 1, .prompt_min = 9, .prompt_max = 8}, "prompt_min: expected a number from 1 to 8, found 9"},
      {{.clients = -1, .rate_per_s = 1}, "clients: expected a number from 0 to 1000000, found -1"},
      {{.trace = backwards, .trace_count = 2}, "trace: request 2 arrives before the one before it"},
      {{.clients = 1, .prefill_instances = 2}, "prefill_instances: only those of disaggregated plans prefill alone"},
  };
  hr_hardware hardware = device("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = &hardware};
  hr_serve_options serve = hr_serve_options_default();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_load_options load = cases[i].load;
    hr_load_result *result;
    hr_error error;
    load.struct_size = sizeof load;
    assert_int_equal(hr_serve_load(&subject, &serve, &load, &result, &error), HR_ERROR_INVALID);
    assert_string_equal(error.message, cases[i].message);
  }
}

static void a_trace_is_read_or_its_line_is_named(void **state)
{
  (void)state;
  const struct {
    const char *text, *message; /* NULL: it is read */
  } cases[] = {
      {"arrival_s,prompt,output\n0,5,6\n0.5,7,8\n", NULL},
      {"arrival_s,prompt,output\n1,5,6\n0.5,7,8\n",
       "t: line 3: arrival_s: expected an arrival that is not before the one above it, found \"0.5\""},
      {"arrival_s,prompt,output\n-1,5,6\n", "t: line 2: arrival_s: expected seconds from 0 on, found \"-1\""},
      {"arrival_s,prompt,output\nnan,5,6\n", "t: line 2: arrival_s: expected seconds from 0 on, found \"nan\""},
      {"arrival_s,prompt,output\n1,0,6\n", "t: line 2: prompt: expected an integer from 1 on, found \"0\""},
      {"arrival_s,prompt,output\n1,5,99999999\n",
       "t: line 2: output: expected at most 16777216 tokens, found \"99999999\""},
      {"arrival_s,prompt\n1,5\n", "t: line 2: output: is missing"},
      {"arrival_s,prompt,output\n", "t: has no request"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_load_request *requests = NULL;
    size_t count = 0;
    hr_error error;
    hr_input input = {.text = cases[i].text, .length = strlen(cases[i].text), .name = "t"};
    hr_status status = hr_load_trace_parse(&input, &requests, &count, &error);
    assert_int_equal(status, cases[i].message ? HR_ERROR_INVALID : HR_OK);
    if (cases[i].message)
      assert_string_equal(error.message, cases[i].message);
    else
      assert_true(count == 2 && requests[1].arrival_ns == 5e8 && requests[1].prompt == 7 && requests[1].output == 8);
    hr_load_trace_free(requests);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prompts_served_one_by_one_wait_as_in_an_m_d_1_queue),
      cmocka_unit_test(a_queue_never_gets_shorter_with_more_load),
      cmocka_unit_test(one_client_sees_a_prefill_and_steps_without_waiting),
      cmocka_unit_test(a_pipeline_under_a_load_is_as_fast_as_in_its_plan),
      cmocka_unit_test(groups_of_an_expert_parallel_layout_share_the_clients),
      cmocka_unit_test(interpolated_steps_are_near_predicted_ones),
      cmocka_unit_test(an_engine_that_mixes_decodes_in_the_step_of_a_prompt),
      cmocka_unit_test(an_engine_that_does_not_mix_lets_the_others_wait),
      cmocka_unit_test(a_prompt_leaves_its_stage_to_the_next_one_while_it_passes_the_others),
      cmocka_unit_test(prompts_wait_for_others_as_many_steps_as_told),
      cmocka_unit_test(a_decode_step_gives_the_first_token_where_the_prefill_gives_none),
      cmocka_unit_test(the_scheduler_sees_a_request_after_the_engine_s_own_time),
      cmocka_unit_test(a_long_prompt_takes_several_steps),
      cmocka_unit_test(an_engine_that_does_not_split_takes_whole_prompts),
      cmocka_unit_test(accepted_drafts_save_steps),
      cmocka_unit_test(clients_send_when_their_last_request_has_ended),
      cmocka_unit_test(a_simulation_that_would_not_end_is_refused),
      cmocka_unit_test(every_request_ends_once_however_small_the_cache),
      cmocka_unit_test(a_full_cache_sends_the_last_request_back),
      cmocka_unit_test(a_request_is_handed_over_when_its_prompt_is_prefilled),
      cmocka_unit_test(decoding_goes_on_while_others_are_prefilled),
      cmocka_unit_test(every_request_ends_once_however_many_instances_there_are),
      cmocka_unit_test(one_client_of_two_device_types_sees_the_prefill_of_one_and_the_steps_of_the_other),
      cmocka_unit_test(as_few_instances_are_taken_as_keep_up_within_the_limits),
      cmocka_unit_test(instances_are_counted_at_the_high_end_of_the_band_to_be_sure),
      cmocka_unit_test(limits_that_no_number_of_instances_meets_are_missed_by_those_that_keep_up),
      cmocka_unit_test(a_sure_layout_is_within_the_limits_at_the_high_end_of_its_band),
      cmocka_unit_test(vllm_has_its_own_times_on_b200),
      cmocka_unit_test(servers_that_send_many_tokens_have_a_wider_band),
      cmocka_unit_test(copies_share_a_load_that_one_does_not_carry),
      cmocka_unit_test(a_load_that_one_copy_carries_takes_one),
      cmocka_unit_test(the_same_seed_gives_the_same_result),
      cmocka_unit_test(the_best_layout_has_the_fewest_devices_that_keep_up_within_the_limits),
      cmocka_unit_test(a_short_trace_of_requests_that_wait_for_nobody_is_kept_up_with),
      cmocka_unit_test(outputs_of_one_token_have_no_time_between_tokens),
      cmocka_unit_test(the_timeline_has_all_requests_and_all_tokens),
      cmocka_unit_test(a_load_that_cannot_be_is_named),
      cmocka_unit_test(a_trace_is_read_or_its_line_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "analysis/predict/step.h"
#include "analysis/serve/plan.h"
#include "devices.h"
#include "hardware/hardware.h"
#include "models.h"
#include "unit/served.h"

#include <headroom/experimental/serve.h>
#include <headroom/experimental/workload.h>
#include <math.h>
#include <stdio.h>

static hr_step step;

static void assert_near(double value, double expected, double tolerance)
{
  if (!(fabs(value - expected) <= tolerance))
    fail_msg("%.17g instead of %.17g", value, expected);
}

static hr_serve_result *plan(const char *name, const hr_model *model, const hr_serve_options *options)
{
  hr_hardware hardware = device(name);
  hr_workload workload = hr_workload_default(model);
  hr_serve_result *result;
  hr_error error;
  assert_ok(hr_serve_plan(&hardware, model, &workload, options, &result, &error), error);
  return result;
}

static double step_ns(const char *name, const hr_model *model, hr_phase phase, int64_t batch, int64_t tokens, int64_t t)
{
  hr_hardware hardware = device(name);
  hr_workload workload = hr_workload_default(model);
  hr_error error;
  workload.phase = phase;
  workload.batch = batch;
  workload.sequence = workload.context = tokens;
  workload.tensor_parallel = t;
  assert_ok(hr_fill_step(&hardware, model, &workload, &step, &error), error);
  return step.about.time_ns;
}

static void a_slot_finishes_a_request_while_all_others_are_prefilled_once(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.prompt_tokens = 64;
  options.output_tokens = 5;
  options.batch = 6;
  options.tensor_parallel = 2;
  options.price_per_device_hour = 3.6;
  hr_serve_result *result = plan("h200", &model, &options);
  assert_int_equal(result->count, 1);
  const hr_serve_point *point = &result->points[0];

  /* The prompt gives token 1; tokens 2 to 5 are decoded with 65 to 68 tokens in the cache. */
  double prefill = step_ns("h200", &model, HR_PHASE_PREFILL, 1, 64, 2), decode = 0;
  for (int64_t context = 65; context <= 68; context++)
    decode += step_ns("h200", &model, HR_PHASE_DECODE, 6, context, 2);
  double cycle = 6 * prefill + decode;
  assert_int_equal(point->prefill_batch, 1);
  assert_near(point->ttft_ns / prefill, 1, 1e-12);
  assert_near(point->decode_step_ns / (decode / 4), 1, 1e-12);
  assert_near(point->tpot_ns / ((decode + 5 * prefill) / 4), 1, 1e-12);
  assert_near(point->request_ns / cycle, 1, 1e-12);
  assert_near(point->requests_per_s / (6 / cycle * 1e9), 1, 1e-12);
  assert_near(point->output_tokens_per_s / (6 * 5 / cycle * 1e9), 1, 1e-12);
  assert_near(point->tokens_per_s / (6 * 69 / cycle * 1e9), 1, 1e-12);
  assert_near(point->output_tokens_per_s_per_device / (6 * 5 / cycle * 1e9 / 2), 1, 1e-12);
  assert_near(point->prefill_share / (6 * prefill / cycle), 1, 1e-12);
  /* 2 devices · 3.6 an hour = 0.002 a second. */
  assert_near(point->cost_per_million_output_tokens * point->output_tokens_per_s, 0.002 * 1e6, 1e-6);
  assert_near(point->cost_per_million_tokens * 69, point->cost_per_million_output_tokens * 5, 1e-9);
  assert_true(point->ttft_low_ns < point->ttft_ns && point->ttft_ns < point->ttft_high_ns);
  assert_true(point->tpot_low_ns < point->tpot_ns && point->tpot_ns < point->tpot_high_ns);
  assert_true(point->requests_per_s_low < point->requests_per_s && point->requests_per_s < point->requests_per_s_high);
  hr_serve_result_free(result);
}

static void devices_that_only_prefill_leave_decoding_uninterrupted(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.batch = 16;
  options.tensor_parallel = 2;
  hr_serve_result *together = plan("h200", &model, &options);
  options.disaggregated = true;
  hr_serve_result *apart = plan("h200", &model, &options);
  const hr_serve_point *a = together->points, *b = apart->points;
  assert_near(b->tpot_ns, b->decode_step_ns, 0);
  assert_near(a->decode_step_ns, b->decode_step_ns, 0);
  assert_true(a->tpot_ns > b->tpot_ns);
  /* The work of a request is the same: so are the tokens of a device, and its share of prefill. */
  assert_near(a->output_tokens_per_s_per_device / b->output_tokens_per_s_per_device, 1, 1e-12);
  assert_near(b->prefill_devices / (b->prefill_devices + 2), a->prefill_share, 1e-12);
  hr_serve_result_free(together);
  hr_serve_result_free(apart);
}

static void prompts_may_be_prefilled_on_another_device_with_another_t(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-3-70b");
  static hr_hardware h100;
  hr_serve_options options = hr_serve_options_default();
  h100 = device("h100-sxm");
  options.disaggregated = true, options.tensor_parallel = 2, options.batch = 16, options.recommend = 3;
  options.prefill_hardware = &h100, options.price_per_device_hour = 7.2, options.prefill_price_per_device_hour = 3.6;
  hr_serve_result *result = plan("h200", &model, &options);
  const hr_serve_point *point = &result->points[0];
  /* An H100 has no room for 131 GiB of weights; two take the least of their time, four less until the first token. */
  double two_ns = step_ns("h100-sxm", &model, HR_PHASE_PREFILL, 1, 2048, 2);
  double four_ns = step_ns("h100-sxm", &model, HR_PHASE_PREFILL, 1, 2048, 4);
  assert_int_equal(point->prefill_tensor_parallel, 2);
  assert_near(point->ttft_ns / two_ns, 1, 1e-12);
  assert_near(point->tpot_ns, point->decode_step_ns, 0);
  double prefilling = point->requests_per_s * two_ns / 1e9 * 2;
  assert_near(point->prefill_devices / prefilling, 1, 1e-12);
  double price_per_s = (2 * 7.2 + prefilling * 3.6) / 3600;
  assert_near(point->cost_per_million_output_tokens * point->output_tokens_per_s / (price_per_s * 1e6), 1, 1e-12);
  const hr_serve_fleet *fleet = &result->fleets[0];
  assert_int_equal(fleet->prefill_instances, (int64_t)ceil(3 * two_ns / 1e9));
  assert_int_equal(fleet->devices, 2 * fleet->instances + 2 * fleet->prefill_instances);
  assert_near(fleet->cost_per_hour, 2 * 7.2 * (double)fleet->instances + 2 * 3.6 * (double)fleet->prefill_instances,
              1e-9);
  hr_serve_result_free(result);

  options.ttft_limit_ns = (two_ns + four_ns) / 2;
  result = plan("h200", &model, &options);
  assert_int_equal(result->points[0].prefill_tensor_parallel, 4);
  hr_serve_result_free(result);
  options.prefill_hardware = NULL, options.prefill_tensor_parallel = 8;
  result = plan("h200", &model, &options);
  assert_near(result->points[0].ttft_ns / step_ns("h200", &model, HR_PHASE_PREFILL, 1, 2048, 8), 1, 1e-12);
  hr_serve_result_free(result);

  hr_hardware h200 = device("h200");
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  options.prefill_tensor_parallel = 1, options.prefill_hardware = &h100;
  assert_int_equal(hr_serve_plan(&h200, &model, &workload, &options, &result, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message,
                      "prefill: the model and a prompt do not fit, or do not split, with t = 1 on h100-sxm");
}

static void prompts_that_slots_are_free_for_in_one_step_are_prefilled_together(void **state)
{
  (void)state;
  const struct {
    int64_t prompt, output, batch, together;
  } cases[] = {
      {128, 129, 1024, 8},                     /* 1024 / 128 requests end in a step; 8192 / 128 = 64 would be held */
      {128, 129, 64, 1},                       /* one ends every other step */
      {4096, 129, 1024, 2},                    /* 8192 / 4096 */
      {20000, 129, 1024, 1}, {128, 1, 16, 16}, /* nothing is decoded: every step is a prefill */
      {128, 1, 100, 64},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_serve_options options = hr_serve_options_default();
    options.prompt_tokens = cases[i].prompt;
    options.output_tokens = cases[i].output;
    assert_int_equal(hr_serve_prefill_batch(&options, cases[i].batch), cases[i].together);
  }
}

static void the_mean_decode_step_is_that_of_every_context(void **state)
{
  (void)state;
  const struct {
    hr_model model;
    int64_t prompt, output;
  } cases[] = {{llama3_8b(), 2048, 257}, {llama3_8b(), 16, 600}, {mistral_7b(), 3900, 401} /* across its window */};
  hr_hardware hardware = device("h200");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_serve_state planned = {.hardware = &hardware,
                              .model = &cases[i].model,
                              .workload = hr_workload_default(&cases[i].model),
                              .options = hr_serve_options_default(),
                              .step = &step};
    planned.options.prompt_tokens = cases[i].prompt;
    planned.options.output_tokens = cases[i].output;
    hr_serve_layout layout = {.tensor_parallel = 1, .expert_parallel = 1, .devices = 1};
    hr_serve_time mean;
    hr_error error;
    assert_ok(hr_serve_mean_decode(&planned, &layout, 32, &mean, &error), error);
    /* Predictions of operators that are known are those that are made anew. */
    static hr_known_operator known[HR_KNOWN_OPERATORS];
    hr_serve_time same;
    planned.known = known;
    assert_ok(hr_serve_mean_decode(&planned, &layout, 32, &same, &error), error);
    assert_true(same.ns == mean.ns && same.low_ns == mean.low_ns && same.high_ns == mean.high_ns);
    hr_workload decode = planned.workload;
    decode.phase = HR_PHASE_DECODE;
    decode.batch = 32;
    double sum = 0;
    for (int64_t k = 1; k < cases[i].output; k++) {
      decode.context = cases[i].prompt + k;
      assert_ok(hr_fill_step(&hardware, planned.model, &decode, &step, &error), error);
      sum += step.about.time_ns;
    }
    assert_near(mean.ns / (sum / (double)(cases[i].output - 1)), 1, 0.002);
  }
}

static void a_device_holds_weights_and_whole_pages_of_every_sequence(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_hardware hardware = device("h200");
  hr_serve_options options = hr_serve_options_default();
  options.output_tokens = 250;
  hr_serve_result *result = plan("h200", &model, &options);
  /* 2048 + 250 − 1 = 2297 tokens, in pages of 16: 144 pages. A token has 32 layers · (8 K + 8 V heads) · 128 · 2 B =
   * 131,072 B. */
  assert_int_equal(result->cached_tokens, 2304);
  assert_int_equal(result->capacity_bytes, (int64_t)(0.9 * (double)hardware.memory_bytes));
  assert_int_equal(result->layout_count, 4);
  for (size_t i = 0; i < result->layout_count; i++) {
    const hr_serve_layout *layout = &result->layouts[i];
    assert_int_equal(layout->devices, (int64_t)1 << i);
    assert_int_equal(layout->sequence_bytes, 2304 * 131072 / layout->devices);
  }
  /* Weights: 8,030,261,248 parameters in 2 bytes. */
  assert_int_equal(result->layouts[0].weight_bytes, 2 * INT64_C(8030261248));
  int64_t largest = result->layouts[0].largest_batch;
  int64_t by_cache = (result->capacity_bytes - result->layouts[0].weight_bytes) / (2304 * 131072);
  assert_true(largest <= by_cache && largest > by_cache - 16); /* the rest are activations */
  for (size_t i = 0; i < result->count; i++)
    assert_true(result->points[i].memory_bytes <= result->capacity_bytes);
  hr_serve_result_free(result);

  options.tensor_parallel = 1;
  options.batch = largest;
  result = plan("h200", &model, &options);
  assert_int_equal(result->count, 1);
  hr_serve_result_free(result);
  options.batch = largest + 1;
  result = plan("h200", &model, &options);
  assert_int_equal(result->count, 0);
  assert_int_equal(result->devices_needed, 0); /* one sequence does fit */
  hr_serve_result_free(result);
}

/* vLLM reports 53.29 GiB for the KV cache of Llama 3 8B on an H100 at a share of 0.9 (vllm-project/vllm pull request
 * 10511, 2024-12-14): 53.29 · 2^30 / 131,072 B = 436,552 tokens. */
static void the_tokens_that_fit_are_near_those_that_a_server_reports(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.tensor_parallel = 1;
  hr_serve_result *result = plan("h100-sxm", &model, &options);
  assert_near((double)result->layouts[0].cache_tokens / 436552, 1, 0.05);
  /* 85,017,493,504 B: cuDeviceTotalMem() of an H100 80GB HBM3 (driver 580.159.04, 2026-11-28). */
  assert_int_equal(result->capacity_bytes, (int64_t)(0.9 * 85017493504));
  hr_serve_result_free(result);
}

/* Llama 3 8B on an H100 of M = 85,017,493,504 B: W = 16,060,522,496 B of weights, R = 1 GiB, A for the largest step.
 * SGLang keeps 1.5 · 8192 + 2 · 256 = 12,800 MiB out of its share. */
static void each_engine_gives_k_and_v_what_its_rule_leaves(void **state)
{
  (void)state;
  const double m = 85017493504, w = 16060522496, r = 0x1p30, kept_out = 12800 * 0x1p20;
  hr_model model = llama3_8b();
  hr_hardware hardware = device("h100-sxm");
  for (int engine = 0; engine < HR_SERVE_ENGINE_COUNT; engine++) {
    hr_serve_options options = hr_serve_options_default();
    hr_error error;
    assert_ok(hr_serve_options_set_engine(&options, (hr_serve_engine)engine, &hardware, &error), error);
    options.tensor_parallel = 1;
    hr_serve_result *result = plan("h100-sxm", &model, &options);
    const hr_serve_layout *layout = &result->layouts[0];
    const double largest = (double)layout->step_bytes;
    const double rooms[HR_SERVE_ENGINE_COUNT] = {[HR_SERVE_VLLM] = 0.9 * m - w - r - largest,
                                                 [HR_SERVE_SGLANG] = m - kept_out - w - r,
                                                 [HR_SERVE_TRTLLM] = 0.9 * (m - w - r - largest),
                                                 [HR_SERVE_TURBOMIND] = 0.8 * (m - w - r),
                                                 [HR_SERVE_NONE] = m - w - r - largest};
    assert_near((double)layout->cache_tokens / (rooms[engine] / 131072), 1, 1e-5);
    assert_int_equal(layout->largest_batch, (int64_t)(rooms[engine] / (131072.0 * (double)result->cached_tokens)));
    hr_serve_result_free(result);
  }
}

/* vLLM 0.26 reports 37.42 GiB, 306,528 tokens, for Qwen3-32B with weights and cache in fp8 on an H100
 * (cogentica-ai/kvlm, profiling-notes.md, 2026-08-08). */
static void the_tokens_that_fit_are_near_those_of_a_quantized_model(void **state)
{
  (void)state;
  hr_model model = shipped_model("qwen3-32b");
  hr_serve_options options = hr_serve_options_default();
  hr_error error;
  assert_ok(hr_model_store_in_fp8(&model, HR_PHASE_DECODE, true, true, &error), error);
  options.tensor_parallel = 1;
  hr_serve_result *result = plan("h100-sxm", &model, &options);
  assert_int_equal(result->layouts[0].sequence_bytes, 2304 * 131072);
  assert_near((double)result->layouts[0].cache_tokens / 306528, 1, 0.02);
  hr_serve_result_free(result);
}

/* SGLang reports 367,404 tokens for Qwen3-235B-A22B-FP8 on four H100 at a share of 0.93 (vllm-project/vllm issue 21348,
 * 2025-07-22). It has the layers of Qwen3-30B-A3B, 94 of them with 64 heads, 4 K and V heads and experts of 1536. */
static void the_tokens_that_fit_are_near_those_that_sglang_reports(void **state)
{
  (void)state;
  hr_model model = shipped_model("qwen3-30b-a3b");
  hr_layer_group *layer = &model.groups[0];
  hr_hardware hardware = device("h100-sxm");
  hr_serve_options options = hr_serve_options_default();
  hr_error error;
  model.hidden = 4096, layer->count = 94, layer->attention.q_heads = 64, layer->experts.width = 1536;
  assert_ok(hr_model_set_weights(&model, "fp8", &error), error);
  assert_ok(hr_serve_options_set_engine(&options, HR_SERVE_SGLANG, &hardware, &error), error);
  options.memory_share = 0.93, options.tensor_parallel = 4, options.expert_parallel = 1;
  hr_serve_result *result = plan("h100-sxm", &model, &options);
  assert_int_equal(result->layout_count, 1);
  assert_near((double)result->layouts[0].cache_tokens / 367404, 1, 0.07);
  hr_serve_result_free(result);
}

/* An A100 has the defaults of small devices in vLLM, and its own in SGLang. */
static void defaults_of_an_engine_are_those_of_the_device(void **state)
{
  (void)state;
  static const struct {
    const char *device;
    hr_serve_engine engine;
    int64_t prefill_tokens, batch_max, page_tokens;
  } rows[] = {{"h100-sxm", HR_SERVE_VLLM, 8192, 1024, 16},      {"l40s", HR_SERVE_VLLM, 2048, 256, 16},
              {"a100-sxm4-80gb", HR_SERVE_VLLM, 2048, 256, 16}, {"b200", HR_SERVE_SGLANG, 16384, 2048, 1},
              {"l40s", HR_SERVE_SGLANG, 4096, 2048, 1},         {"h200", HR_SERVE_TRTLLM, 8192, 2048, 32},
              {"h200", HR_SERVE_TURBOMIND, 8192, 1024, 64},     {"l4", HR_SERVE_NONE, 8192, 1024, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hr_serve_options options = hr_serve_options_default();
    hr_hardware hardware = device(rows[i].device);
    hr_error error;
    assert_ok(hr_serve_options_set_engine(&options, rows[i].engine, &hardware, &error), error);
    assert_int_equal(options.prefill_tokens, rows[i].prefill_tokens);
    assert_int_equal(options.batch_max, rows[i].batch_max);
    assert_int_equal(options.page_tokens, rows[i].page_tokens);
    hr_serve_engine read;
    assert_int_equal(hr_serve_engine_parse(hr_serve_engine_name(rows[i].engine), &read), HR_OK);
    assert_int_equal(read, rows[i].engine);
  }
  hr_serve_options options = hr_serve_options_default();
  hr_hardware hardware = device("h100-sxm");
  hr_error error;
  assert_int_equal(hr_serve_options_set_engine(&options, HR_SERVE_ENGINE_COUNT, &hardware, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "engine: 5 is not in the list");
}

/* 2048 + 256 − 1 = 2303 tokens. */
static void a_sequence_takes_whole_pages(void **state)
{
  (void)state;
  static const int64_t rows[][2] = {{1, 2303}, {16, 2304}, {64, 2304}, {256, 2304}, {1000, 3000}};
  hr_model model = llama3_8b();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hr_serve_options options = hr_serve_options_default();
    options.page_tokens = rows[i][0], options.tensor_parallel = 1;
    hr_serve_result *result = plan("h100-sxm", &model, &options);
    assert_int_equal(result->cached_tokens, rows[i][1]);
    assert_int_equal(result->layouts[0].sequence_bytes, rows[i][1] * 131072);
    hr_serve_result_free(result);
  }
}

/* Gemma 3 1B: 4 of 26 layers see all tokens, the others 512; a token of a layer is 2 · 256 · 2 B. */
static void uniform_pages_keep_all_tokens_of_layers_with_a_window(void **state)
{
  (void)state;
  hr_model model = shipped_model("gemma-3-1b");
  for (int uniform = 0; uniform < 2; uniform++) {
    hr_serve_options options = hr_serve_options_default();
    options.prompt_tokens = 7937, options.tensor_parallel = 1, options.uniform_pages = uniform;
    hr_serve_result *result = plan("h100-sxm", &model, &options);
    assert_int_equal(result->cached_tokens, 8192);
    const int64_t rows = uniform ? 26 * 8192 : 4 * 8192 + 22 * 512;
    assert_int_equal(result->layouts[0].sequence_bytes, rows * 1024);
    assert_true(result->points[0].memory_bytes > result->layouts[0].weight_bytes + rows * 1024);
    hr_serve_result_free(result);
  }
}

static void the_reserve_and_the_largest_step_take_the_place_of_tokens(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.tensor_parallel = 1, options.batch = 1;
  hr_serve_result *result = plan("h100-sxm", &model, &options);
  hr_serve_layout usual = result->layouts[0];
  int64_t memory_bytes = result->points[0].memory_bytes;
  assert_int_equal(memory_bytes, usual.weight_bytes + usual.sequence_bytes + usual.step_bytes + ((int64_t)1 << 30));
  hr_serve_result_free(result);

  options.reserve_bytes = (int64_t)3 << 30; /* 2 GiB more: 2^31 / 131,072 = 16,384 tokens */
  result = plan("h100-sxm", &model, &options);
  assert_near((double)(usual.cache_tokens - result->layouts[0].cache_tokens), 16384, 1);
  hr_serve_result_free(result);

  options.prefill_tokens = 2048; /* a quarter of the step: one prompt instead of four */
  result = plan("h100-sxm", &model, &options);
  assert_near((double)result->layouts[0].step_bytes / (double)usual.step_bytes, 0.25, 0.01);
  hr_serve_result_free(result);
}

static void a_band_beyond_the_limit_is_told_from_a_time_within_it(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.tpot_limit_ns = 12e6;
  hr_serve_result *result = plan("h100-sxm", &model, &options);
  size_t within = 0, beyond = 0;
  for (size_t i = 0; i < result->count; i++) {
    const hr_serve_point *point = &result->points[i];
    assert_int_equal(point->band_meets_tpot, point->tpot_high_ns <= 12e6);
    assert_true(point->band_meets_ttft); /* no limit */
    within += point->band_meets_tpot;
    beyond += point->meets_tpot && !point->band_meets_tpot;
  }
  assert_true(within > 0 && beyond > 0);
  hr_serve_result_free(result);
}

static void plans_that_are_sure_meet_the_limits_at_the_high_end_of_the_band(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.tensor_parallel = 1;
  options.tpot_limit_ns = 12e6;
  hr_serve_result *likely = plan("h100-sxm", &model, &options);
  options.sure = 90;
  hr_serve_result *certain = plan("h100-sxm", &model, &options);
  assert_true(likely->cheapest->tpot_high_ns > 12e6 && certain->cheapest->tpot_high_ns <= 12e6);
  /* It is the largest such batch. */
  options.batch = certain->cheapest->batch + 1;
  hr_serve_result *larger = plan("h100-sxm", &model, &options);
  assert_true(larger->points[0].tpot_high_ns > 12e6 && larger->points[0].meets_tpot);
  assert_false(larger->points[0].meets_limits);
  assert_null(larger->cheapest);
  assert_ptr_equal(larger->nearest, larger->points);
  for (size_t i = 0; i < certain->count; i++)
    assert_true(!certain->points[i].pareto || certain->points[i].tpot_high_ns <= 12e6);
  hr_serve_result_free(likely);
  hr_serve_result_free(certain);
  hr_serve_result_free(larger);
}

/* 70 billion weights in 4 bits are 35 GB, an L4 has 24. */
static void weights_that_would_fit_fit_in_the_given_layout(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-3-70b");
  hr_serve_options options = hr_serve_options_default();
  options.devices_max = 8, options.tensor_parallel = 1;
  hr_serve_result *result = plan("l4", &model, &options);
  assert_string_equal(result->weights_needed, "");
  hr_serve_result_free(result);
}

static void larger_batches_give_more_tokens_and_longer_waits(void **state)
{
  (void)state;
  hr_model model = shipped_model("mixtral-8x7b-v0.1");
  hr_serve_options options = hr_serve_options_default();
  hr_serve_result *result = plan("h200", &model, &options);
  assert_true(result->count > 50);
  for (size_t i = 1; i < result->count; i++) {
    const hr_serve_point *a = &result->points[i - 1], *b = &result->points[i];
    if (a->tensor_parallel != b->tensor_parallel || a->expert_parallel != b->expert_parallel)
      continue;
    assert_true(b->batch > a->batch && b->tpot_ns > a->tpot_ns && b->memory_bytes > a->memory_bytes);
    assert_true(b->output_tokens_per_s > 0.98 * a->output_tokens_per_s); /* tiles and waves are quantized */
  }
  hr_serve_result_free(result);
}

static void the_largest_batch_within_the_limits_is_found(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.tensor_parallel = 1;
  options.tpot_limit_ns = 30e6;
  hr_serve_result *result = plan("h200", &model, &options);
  int64_t largest = result->cheapest->batch;
  assert_true((largest & (largest - 1)) != 0); /* no power of two */
  assert_true(result->cheapest->tpot_ns <= 30e6);
  for (size_t i = 1; i < result->count; i++)
    assert_true(result->points[i].batch > result->points[i - 1].batch);
  hr_serve_result_free(result);
  options.batch = largest + 1;
  result = plan("h200", &model, &options);
  assert_true(result->points[0].tpot_ns > 30e6);
  assert_null(result->cheapest);
  hr_serve_result_free(result);
}

/* "t/e" of every layout, in their order; those that do not split in parentheses. */
static void write_layouts(const hr_serve_result *result, char *to, size_t size)
{
  to[0] = '\0';
  for (size_t i = 0, used = 0; i < result->layout_count; i++) {
    const hr_serve_layout *layout = &result->layouts[i];
    used += (size_t)snprintf(to + used, size - used, layout->splits ? "%s%d/%d" : "%s(%d/%d)", i > 0 ? " " : "",
                             (int)layout->tensor_parallel, (int)layout->expert_parallel);
    assert_true(layout->splits ? layout->largest_batch > 0 : layout->largest_batch == 0 && layout->split[0] != '\0');
  }
}

static void layouts_divide_heads_and_experts(void **state)
{
  (void)state;
  const struct {
    const char *model;
    int64_t devices, t, e;
    const char *layouts;
  } cases[] = {
      {"llama-3-8b", 0, 0, 0, "1/1 2/1 4/1 8/1"},
      {"falcon-7b", 0, 0, 0, "1/1 (2/1) (4/1) (8/1)"}, /* 71 heads */
      {"gpt2", 0, 0, 0, "1/1 2/1 4/1 (8/1)"},          /* 12 heads */
      {"gpt2", 0, 3, 0, "3/1"},                        /* named */
      {"gpt2", 0, 8, 0, "(8/1)"},                      /* named */
      {"llama-3-8b", 0, 16, 0, "16/1"},                /* more than a node */
      {"llama-3-8b", 2, 0, 0, "1/1 2/1"},              /* 8 K/V heads */
      {"mixtral-8x7b-v0.1", 4, 0, 0, "1/1 1/2 2/1 2/2 1/4 2/4 4/1 4/4"},
      {"mixtral-8x7b-v0.1", 0, 2, 8, "2/8"},
      {"mixtral-8x7b-v0.1", 0, 0, 1, "1/1 2/1 4/1 8/1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_model model = shipped_model(cases[i].model);
    hr_serve_options options = hr_serve_options_default();
    options.batch = 1;
    options.devices_max = cases[i].devices;
    options.tensor_parallel = cases[i].t;
    options.expert_parallel = cases[i].e;
    hr_serve_result *result = plan("h200", &model, &options);
    char layouts[160];
    write_layouts(result, layouts, sizeof layouts);
    assert_string_equal(layouts, cases[i].layouts);
    hr_serve_result_free(result);
  }
}

static void groups_that_share_experts_each_have_a_batch(void **state)
{
  (void)state;
  hr_model model = shipped_model("mixtral-8x7b-v0.1");
  hr_serve_options options = hr_serve_options_default();
  options.tensor_parallel = 2;
  options.expert_parallel = 8;
  options.batch = 16;
  hr_serve_result *result = plan("h200", &model, &options);
  const hr_serve_point *point = result->points;
  assert_int_equal(point->devices, 8);
  assert_int_equal(point->sequences, 4 * 16); /* 8 / 2 groups */
  assert_near(point->requests_per_s * point->request_ns / 1e9, 64, 1e-9);
  hr_serve_result_free(result);
}

/* A pass of `batch` sequences through four stages of an H200 and its time in the slowest one. */
static void pass_ns(const hr_model *model, hr_phase phase, int64_t batch, int64_t tokens, double *all, double *slowest)
{
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(model);
  hr_error error;
  workload.phase = phase, workload.batch = batch, workload.sequence = workload.context = tokens;
  workload.tensor_parallel = 2, workload.pipeline_stages = 4;
  assert_ok(hr_fill_step(&hardware, model, &workload, &step, &error), error);
  *all = step.about.time_ns, *slowest = step.about.stage_time_ns;
}

static void parts_of_a_batch_take_turns_in_the_stages_of_a_pipeline(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.prompt_tokens = 64, options.output_tokens = 3, options.batch = 8;
  options.tensor_parallel = 2, options.pipeline_stages = 4;
  hr_serve_result *result = plan("h200", &model, &options);
  const hr_serve_point *point = &result->points[0];
  /* Four parts of two sequences. The first has its turn again when it has passed all stages and all parts the slowest,
   * which is the last one, as it has the logits. Seven other prompts take the slowest stage's time each. */
  double prefill, stage, decode = 0;
  for (int64_t context = 65; context <= 66; context++) {
    double all, slowest;
    pass_ns(&model, HR_PHASE_DECODE, 2, context, &all, &slowest);
    assert_true(4 * slowest > all);
    decode += 4 * slowest;
  }
  pass_ns(&model, HR_PHASE_PREFILL, 1, 64, &prefill, &stage);
  assert_true(stage < prefill / 3);
  assert_int_equal(point->devices, 8);
  assert_int_equal(point->sequences, 8);
  assert_near(point->ttft_ns / prefill, 1, 1e-12);
  assert_near(point->tpot_ns / ((decode + 7 * stage) / 2), 1, 1e-12);
  assert_near(point->requests_per_s / (8 / (prefill + 7 * stage + decode) * 1e9), 1, 1e-12);
  hr_serve_result_free(result);

  options.batch = 1; /* three stages are idle at any time */
  result = plan("h200", &model, &options);
  double all, slowest;
  pass_ns(&model, HR_PHASE_DECODE, 1, 65, &all, &slowest);
  assert_near(result->points[0].decode_step_ns / all, 1, 0.001);
  hr_serve_result_free(result);
}

static void an_engine_without_pipelines_has_one_stage(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  for (int engine = 0; engine < HR_SERVE_ENGINE_COUNT; engine++) {
    hr_serve_options options = hr_serve_options_default();
    hr_serve_result *result = NULL;
    options.engine = (hr_serve_engine)engine, options.pipeline_stages = 2, options.batch = 1;
    hr_status status = hr_serve_plan(&hardware, &model, &workload, &options, &result, NULL);
    assert_int_equal(status, engine == HR_SERVE_TURBOMIND ? HR_ERROR_INVALID : HR_OK);
    hr_serve_result_free(result);
  }
}

static void a_device_of_a_pipeline_holds_the_layers_of_the_fullest_stage(void **state)
{
  (void)state;
  hr_model model = llama3_8b(); /* 32 layers */
  static const struct {
    int64_t stages, layers;
    const char *split;
  } cases[] = {{1, 32, ""}, {2, 16, ""}, {3, 11, "stages of 11 and 10 layers"}, {5, 7, "stages of 7 and 6 layers"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_serve_options options = hr_serve_options_default();
    options.tensor_parallel = 1, options.pipeline_stages = cases[i].stages;
    hr_serve_result *result = plan("h200", &model, &options);
    const hr_serve_layout *layout = &result->layouts[0];
    /* 2304 tokens with K and V of 8 heads of 128, 2 bytes each. */
    assert_int_equal(layout->sequence_bytes, cases[i].layers * 2304 * 2 * 8 * 128 * 2);
    assert_int_equal(layout->devices, cases[i].stages);
    assert_string_equal(layout->split, cases[i].split);
    /* The layers and, beside them, one of the two embeddings of 128256 words where there are stages. */
    int64_t layer = 2 * (4096 * (2 * 4096 + 2 * 1024 + 3 * 14336) + 2 * 4096), words = 2 * INT64_C(128256) * 4096;
    int64_t ends = cases[i].stages == 1 ? 2 * words + 2 * 4096 : words + 2 * 4096;
    assert_int_equal(layout->weight_bytes, cases[i].layers * layer + ends);
    hr_serve_result_free(result);
  }
}

static void what_would_fit_is_named(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-3-70b");
  hr_serve_options options = hr_serve_options_default();
  options.devices_max = 2;
  hr_serve_result *result = plan("rtx-4090", &model, &options);
  assert_int_equal(result->count, 0);
  assert_null(result->latency);
  assert_null(result->nearest);
  /* 141.1 GB of weights, 21.3 GiB = 22.8 GB of each device: 7 devices, of which t can be 8. In 8 bits 70.6 GB are more
   * than 2 · 22.8 GB, in 4 bits 35.3 GB are less. */
  assert_int_equal(result->devices_needed, 8);
  assert_string_equal(result->weights_needed, "int4");
  hr_serve_result_free(result);
}

/* ---- choice ---- */

#define POINT(t, batch_, ttft, tpot, rate)                                                                          \
  {                                                                                                                 \
    .tensor_parallel = t, .devices = t, .batch = batch_, .ttft_ns = ttft, .tpot_ns = tpot,                          \
    .request_ns = (ttft) + 9 * (tpot), .output_tokens_per_s = (rate) * (t), .output_tokens_per_s_per_device = rate, \
    .meets_ttft = (ttft) <= 50, .meets_tpot = (tpot) <= 20, .meets_limits = (ttft) <= 50 && (tpot) <= 20            \
  }

static void no_point_of_the_front_is_beaten_in_both(void **state)
{
  (void)state;
  hr_serve_point points[] = {
      POINT(1, 1, 40, 10, 100),  /* front */
      POINT(1, 8, 40, 15, 400),  /* front, cheapest */
      POINT(1, 16, 40, 25, 600), /* misses TPOT */
      POINT(2, 1, 20, 6, 80),    /* front */
      POINT(2, 2, 20, 10, 90),   /* slower per device than t = 1, as short */
      POINT(2, 8, 20, 12, 300),  /* front, most tokens of one copy */
      POINT(2, 9, 20, 12, 300),  /* as good as the one before */
      POINT(4, 1, 60, 1, 900),   /* misses TTFT */
  };
  const bool front[] = {true, true, false, true, false, true, true, false};
  hr_serve_result result = {.options = hr_serve_options_default(), .count = 8, .points = points};
  result.options.ttft_limit_ns = 50;
  result.options.tpot_limit_ns = 20;
  hr_serve_choose(&result);
  for (size_t i = 0; i < result.count; i++)
    assert_int_equal(points[i].pareto, front[i]);
  assert_ptr_equal(result.latency, &points[3]);    /* 20 + 9 · 6 */
  assert_ptr_equal(result.throughput, &points[5]); /* 2 · 300, with the smaller batch */
  assert_ptr_equal(result.cheapest, &points[1]);
  assert_null(result.nearest);
}

static void the_nearest_point_exceeds_its_worst_limit_least(void **state)
{
  (void)state;
  hr_serve_point points[] = {
      POINT(1, 1, 100, 10, 100), /* TTFT twice its limit */
      POINT(2, 1, 60, 26, 80),   /* TTFT 1.2 times, TPOT 1.3 times */
      POINT(4, 1, 20, 30, 80),   /* TPOT 1.5 times */
  };
  hr_serve_result result = {.options = hr_serve_options_default(), .count = 3, .points = points};
  result.options.ttft_limit_ns = 50;
  result.options.tpot_limit_ns = 20;
  hr_serve_choose(&result);
  assert_ptr_equal(result.nearest, &points[1]);
  assert_null(result.latency);
  assert_null(result.throughput);
  assert_null(result.cheapest);
  assert_true(points[0].pareto); /* of all points, as none meets the limits */
  assert_false(points[2].pareto);
}

/* ---- published servers ---- */

/* docs/serving.md has the rows. Older servers (0.5, 0.6.1) are not held to a bound. */
static void throughput_is_near_that_of_published_servers(void **state)
{
  (void)state;
  static served rows[SERVED_MAX];
  size_t count = served_read(rows), compared = 0;
  double sum = 0;
  assert_true(count >= 300);
  for (size_t i = 0; i < count; i++) {
    bool older = strcmp(rows[i].source, "trtllm-0.17") == 0;
    if ((older && i % 4 != 0) ||
        (!older && strcmp(rows[i].source, "trtllm-1.0") != 0 && strcmp(rows[i].source, "nim-1.8") != 0))
      continue; /* the others are in the table alone, for the time that they take */
    hr_serve_point point;
    hr_error error;
    assert_ok(served_plan(&rows[i], &point, &error), error);
    double off = fabs(log(point.output_tokens_per_s / rows[i].output_tokens_per_s));
    assert_true(off < log(older ? 1.6 : 1.3));
    sum += off;
    compared++;
  }
  assert_true(compared >= 90);
  assert_true(sum / (double)compared < log(1.12));
}

/* ---- bad input ---- */

/* Rates are those of the points; a copy's devices, and those that prefill for it, are t = 2. */
static void a_fleet_has_the_fewest_copies_that_carry_the_load(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.tensor_parallel = 2, options.price_per_device_hour = 3;
  hr_serve_result *alone = plan("h200", &model, &options);
  double most = alone->throughput->requests_per_s;
  assert_int_equal(alone->fleet_count, 0);
  options.recommend = 2.5 * most;
  hr_serve_result *result = plan("h200", &model, &options);
  assert_int_equal(result->fleet_count, 1);
  const hr_serve_fleet *fleet = &result->fleets[0];
  assert_int_equal(fleet->instances, 3);
  assert_int_equal(fleet->devices, 6);
  assert_near(fleet->cost_per_hour, 18, 1e-9);
  assert_near(fleet->load_share, options.recommend / (3 * fleet->point->requests_per_s), 1e-12);
  assert_near(fleet->cost_per_million_output_tokens, 18 / (3600 * options.recommend * 256) * 1e6, 1e-9);
  /* The shortest request of the batches of which three copies suffice. */
  for (size_t i = 0; i < result->count; i++) {
    const hr_serve_point *point = &result->points[i];
    assert_true(3 * point->requests_per_s < options.recommend || point->request_ns >= fleet->point->request_ns);
  }
  assert_true(fleet->point->batch < result->throughput->batch);
  hr_serve_result_free(result);
  options.sure = 90; /* the low end of the band */
  result = plan("h200", &model, &options);
  assert_true(result->fleets[0].instances > 3);
  assert_true((double)result->fleets[0].instances * result->fleets[0].point->requests_per_s_low >= options.recommend);
  hr_serve_result_free(result);
  options.sure = 0, options.disaggregated = true, options.batch = 16;
  result = plan("h200", &model, &options);
  fleet = &result->fleets[0];
  double decoding = ceil(options.recommend / fleet->point->requests_per_s);
  double prefilling = ceil(options.recommend / fleet->point->requests_per_s * fleet->point->prefill_devices / 2);
  assert_near((double)fleet->instances, decoding, 0);
  assert_near((double)fleet->prefill_instances, prefilling, 0);
  assert_near((double)fleet->devices, 2 * (decoding + prefilling), 0);
  hr_serve_result_free(result);
  hr_serve_result_free(alone);
}

static void fleets_are_listed_by_their_devices_and_keep_the_limits(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.recommend = 30, options.tpot_limit_ns = 8e6;
  hr_serve_result *result = plan("h200", &model, &options);
  assert_true(result->fleet_count > 1 && result->fleet_count <= result->layout_count);
  for (size_t i = 0; i < result->fleet_count; i++) {
    assert_true(result->fleets[i].point->tpot_ns <= 8e6);
    assert_true(i == 0 || result->fleets[i - 1].devices <= result->fleets[i].devices);
  }
  hr_serve_result_free(result);
  options.tpot_limit_ns = 1;
  result = plan("h200", &model, &options);
  assert_int_equal(result->fleet_count, 0);
  hr_serve_result_free(result);
}

static void impossible_options_are_refused_by_name(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
#define WRONG(member_, value)                            \
  {                                                      \
#member_, offsetof(hr_serve_options, member_), value \
  }
  const struct {
    const char *member;
    size_t offset;
    int64_t value;
  } cases[] = {WRONG(prompt_tokens, 0),    WRONG(output_tokens, 0),    WRONG(output_tokens, INT64_MAX),
               WRONG(batch, -1),           WRONG(batch_max, 0),        WRONG(devices_max, HR_SERVE_DEVICES_MAX + 1),
               WRONG(tensor_parallel, -1), WRONG(prefill_tokens, 0),   WRONG(page_tokens, 0),
               WRONG(reserve_bytes, -1),   WRONG(expert_parallel, 2),  WRONG(sure, 95),
               WRONG(pipeline_stages, -1), WRONG(pipeline_stages, 33), WRONG(prefill_tensor_parallel, 2)};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_serve_options options = hr_serve_options_default();
    hr_serve_result *result = NULL;
    hr_error error;
    *(int64_t *)(void *)((char *)&options + cases[i].offset) = cases[i].value;
    assert_int_equal(hr_serve_plan(&hardware, &model, &workload, &options, &result, &error), HR_ERROR_INVALID);
    assert_int_equal(strncmp(error.message, cases[i].member, strlen(cases[i].member)), 0);
    assert_null(result);
  }
  const double numbers[] = {-1, NAN, INFINITY};
  for (size_t i = 0; i < 3; i++) {
    hr_serve_options options = hr_serve_options_default();
    hr_serve_result *result = NULL;
    options.tpot_limit_ns = numbers[i];
    assert_int_equal(hr_serve_plan(&hardware, &model, &workload, &options, &result, NULL), HR_ERROR_INVALID);
  }
  hardware.memory_bytes = 0;
  hr_serve_options options = hr_serve_options_default();
  hr_serve_result *result = NULL;
  hr_error error;
  assert_int_equal(hr_serve_plan(&hardware, &model, &workload, &options, &result, &error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "memory_bytes"));
}

static void one_output_token_takes_no_decode_step(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_serve_options options = hr_serve_options_default();
  options.output_tokens = 1;
  options.batch = 4;
  options.tensor_parallel = 1;
  hr_serve_result *result = plan("h200", &model, &options);
  const hr_serve_point *point = result->points;
  assert_int_equal(point->prefill_batch, 4);
  assert_near(point->tpot_ns, 0, 0);
  assert_near(point->request_ns, point->ttft_ns, 0);
  assert_near(point->requests_per_s * point->ttft_ns / 1e9, 4, 1e-9);
  hr_serve_result_free(result);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_slot_finishes_a_request_while_all_others_are_prefilled_once),
      cmocka_unit_test(devices_that_only_prefill_leave_decoding_uninterrupted),
      cmocka_unit_test(prompts_may_be_prefilled_on_another_device_with_another_t),
      cmocka_unit_test(prompts_that_slots_are_free_for_in_one_step_are_prefilled_together),
      cmocka_unit_test(the_mean_decode_step_is_that_of_every_context),
      cmocka_unit_test(a_device_holds_weights_and_whole_pages_of_every_sequence),
      cmocka_unit_test(the_tokens_that_fit_are_near_those_that_a_server_reports),
      cmocka_unit_test(each_engine_gives_k_and_v_what_its_rule_leaves),
      cmocka_unit_test(the_tokens_that_fit_are_near_those_of_a_quantized_model),
      cmocka_unit_test(the_tokens_that_fit_are_near_those_that_sglang_reports),
      cmocka_unit_test(defaults_of_an_engine_are_those_of_the_device),
      cmocka_unit_test(a_sequence_takes_whole_pages),
      cmocka_unit_test(uniform_pages_keep_all_tokens_of_layers_with_a_window),
      cmocka_unit_test(the_reserve_and_the_largest_step_take_the_place_of_tokens),
      cmocka_unit_test(a_band_beyond_the_limit_is_told_from_a_time_within_it),
      cmocka_unit_test(plans_that_are_sure_meet_the_limits_at_the_high_end_of_the_band),
      cmocka_unit_test(weights_that_would_fit_fit_in_the_given_layout),
      cmocka_unit_test(larger_batches_give_more_tokens_and_longer_waits),
      cmocka_unit_test(the_largest_batch_within_the_limits_is_found),
      cmocka_unit_test(layouts_divide_heads_and_experts),
      cmocka_unit_test(groups_that_share_experts_each_have_a_batch),
      cmocka_unit_test(parts_of_a_batch_take_turns_in_the_stages_of_a_pipeline),
      cmocka_unit_test(an_engine_without_pipelines_has_one_stage),
      cmocka_unit_test(a_device_of_a_pipeline_holds_the_layers_of_the_fullest_stage),
      cmocka_unit_test(what_would_fit_is_named),
      cmocka_unit_test(no_point_of_the_front_is_beaten_in_both),
      cmocka_unit_test(the_nearest_point_exceeds_its_worst_limit_least),
      cmocka_unit_test(throughput_is_near_that_of_published_servers),
      cmocka_unit_test(a_fleet_has_the_fewest_copies_that_carry_the_load),
      cmocka_unit_test(fleets_are_listed_by_their_devices_and_keep_the_limits),
      cmocka_unit_test(impossible_options_are_refused_by_name),
      cmocka_unit_test(one_output_token_takes_no_decode_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models that run: one pass, prefill and decode, slots, refusals. */
#include "machine.h"
#include "run_step.h"

#include "run/executor.h"
#include "runtime/device/buffer.h"
#include "runtime/device/device.h"

#include <headroom/experimental/run.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCABULARY 61
#define TOKENS 12

/* One small model for each way in which a family differs. */
static const struct {
  const char *name, *config;
} families[] = {
    {"llama", "{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
              "\"num_key_value_heads\":2,\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}"},
    {"qwen2", "{\"model_type\":\"qwen2\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
              "\"num_key_value_heads\":2,\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}"},
    {"qwen3", "{\"model_type\":\"qwen3\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
              "\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":48,\"vocab_size\":61,"
              "\"max_position_embeddings\":64,\"tie_word_embeddings\":true}"},
    {"mistral", "{\"model_type\":\"mistral\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                "\"num_key_value_heads\":2,\"intermediate_size\":48,\"vocab_size\":61,\"sliding_window\":4,"
                "\"max_position_embeddings\":64}"},
    {"gpt2", "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":61,\"n_positions\":64}"},
    {"gpt_neox", "{\"model_type\":\"gpt_neox\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
                 "\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}"},
    {"phi", "{\"model_type\":\"phi\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
            "\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}"},
    {"gptj", "{\"model_type\":\"gptj\",\"n_embd\":32,\"n_layer\":2,\"n_head\":2,\"rotary_dim\":8,\"vocab_size\":61,"
             "\"n_positions\":64}"},
    {"sigma", "{\"model_type\":\"sigma\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
              "\"num_key_heads\":1,\"num_value_heads\":2,\"key_head_dim\":4,\"value_head_dim\":8,"
              "\"augmented_q_dim\":20,\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}"},
    {"short form", "{\"h\":32,\"a\":4,\"L\":2,\"v\":61,\"s\":64}"},
    {"short form, Llama's layer", "{\"h\":32,\"a\":4,\"kv_heads\":2,\"L\":2,\"v\":61,\"s\":64,\"mlp\":\"swiglu\","
                                  "\"norm\":\"rms\",\"final_norm\":true,\"positions\":\"rotary\",\"bias\":false}"},
    {"short form, ALiBi", "{\"h\":32,\"a\":4,\"L\":2,\"v\":61,\"s\":64,\"positions\":\"alibi\",\"parallel\":true}"},
};

static hr_device *device;
static const int32_t ids[] = {5, 17, 0, 60, 33, 2, 8, 41, 19, 27, 50, 11};

static hr_model model_of(const char *name, const char *config)
{
  hr_model model;
  hr_error error;
  const hr_input input = {.name = name, .text = config, .length = strlen(config)};
  assert_ok(hr_model_from_json(&input, NULL, NULL, &model, &error), error);
  return model;
}

static hr_executor *open_model(const hr_model *model, hr_dtype dtype, int64_t slots)
{
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x = NULL;
  hr_error error;
  options.slots = slots;
  options.tokens = 64;
  options.dtype = dtype;
  assert_ok(hr_executor_open(device, model, &options, &x, &error), error);
  return x;
}

static float largest(const float *logits, int64_t count)
{
  float most = 0;
  for (int64_t i = 0; i < count; i++)
    most = fmaxf(most, fabsf(logits[i]));
  return most;
}

static void assert_near(const char *what, const float *found, const float *expected, float share)
{
  const float allowed = share * largest(expected, VOCABULARY);
  assert_true(allowed > 0);
  for (int i = 0; i < VOCABULARY; i++)
    if (!(fabsf(found[i] - expected[i]) <= allowed))
      fail_msg("%s: logit %d is %g, expected %g ± %g", what, i, (double)found[i], (double)expected[i], (double)allowed);
}

/* The device finds the largest logits of the last step's rows. */
static void assert_largest(hr_executor *x, const float *logits, int rows)
{
  int32_t found[TOKENS];
  hr_error error;
  memset(found, 0xFF, sizeof found);
  assert_ok(hr_executor_largest(x, found, &error), error);
  for (int row = 0; row < rows; row++) {
    const float *of = logits + row * VOCABULARY;
    int best = 0;
    for (int i = 1; i < VOCABULARY; i++)
      best = of[i] > of[best] ? i : best;
    assert_int_equal(found[row], best);
  }
}

static void check_phases(const char *name, hr_executor *x, float share)
{
  float all[TOKENS * VOCABULARY], some[TOKENS * VOCABULARY];
  char what[80];
  step(x, HR_PHASE_FORWARD, 1, TOKENS, NULL, ids, all);
  assert_largest(x, all, TOKENS);
  step(x, HR_PHASE_PREFILL, 1, 5, NULL, ids, some);
  assert_largest(x, some, 1);
  snprintf(what, sizeof what, "%s, prefill", name);
  assert_near(what, some, all + 4 * VOCABULARY, share);
  for (int i = 5; i < 9; i++) {
    step(x, HR_PHASE_DECODE, 1, 1, NULL, ids + i, some);
    snprintf(what, sizeof what, "%s, token %d", name, i);
    assert_near(what, some, all + i * VOCABULARY, share);
  }
  step(x, HR_PHASE_DECODE, 1, 3, NULL, ids + 9, some);
  assert_largest(x, some, 3);
  for (int i = 0; i < 3; i++) {
    snprintf(what, sizeof what, "%s, token %d of a chunk", name, i);
    assert_near(what, some + i * VOCABULARY, all + (9 + i) * VOCABULARY, share);
  }
  assert_int_equal(hr_executor_length(x, 0), TOKENS);
}

static void prefill_and_decode_have_the_logits_of_one_pass(void **state)
{
  (void)state;
  for (int i = 0; i < (int)(sizeof families / sizeof *families); i++) {
    const hr_model model = model_of(families[i].name, families[i].config);
    hr_executor *x = open_model(&model, HR_FP32, 1);
    check_phases(families[i].name, x, 1e-5f);
    hr_executor_close(x);
  }
}

static void slots_of_unequal_lengths_decode_together(void **state)
{
  (void)state;
  const hr_model model = model_of(families[0].name, families[0].config);
  hr_executor *x = open_model(&model, HR_FP32, 3);
  float all[TOKENS * VOCABULARY], both[2 * VOCABULARY];
  step(x, HR_PHASE_FORWARD, 1, TOKENS, NULL, ids, all);
  step(x, HR_PHASE_PREFILL, 1, 3, (const int64_t[]){2}, ids, NULL);
  step(x, HR_PHASE_PREFILL, 1, 7, (const int64_t[]){0}, ids, NULL);
  step(x, HR_PHASE_DECODE, 2, 1, (const int64_t[]){0, 2}, (const int32_t[]){ids[7], ids[3]}, both);
  assert_near("the longer slot", both, all + 7 * VOCABULARY, 1e-5f);
  assert_near("the shorter slot", both + VOCABULARY, all + 3 * VOCABULARY, 1e-5f);
  assert_int_equal(hr_executor_length(x, 0), 8);
  assert_int_equal(hr_executor_length(x, 2), 4);
  hr_executor_close(x);
}

static void a_batch_has_the_logits_of_its_sequences(void **state)
{
  (void)state;
  const hr_model model = model_of(families[0].name, families[0].config);
  hr_executor *x = open_model(&model, HR_FP32, 2);
  float one[VOCABULARY], other[VOCABULARY], both[2 * VOCABULARY];
  step(x, HR_PHASE_PREFILL, 1, 6, NULL, ids, one);
  step(x, HR_PHASE_PREFILL, 1, 6, NULL, ids + 6, other);
  step(x, HR_PHASE_PREFILL, 2, 6, NULL, ids, both);
  assert_near("the first sequence", both, one, 1e-5f);
  assert_near("the second sequence", both + VOCABULARY, other, 1e-5f);
  hr_executor_close(x);
}

static void sixteen_bits_come_near_to_fp32(void **state)
{
  (void)state;
  const hr_model model = model_of(families[0].name, families[0].config);
  if (!multiplies(device, HR_BF16))
    skip();
  hr_executor *wide = open_model(&model, HR_FP32, 1), *narrow = open_model(&model, HR_BF16, 1);
  float expected[VOCABULARY], found[VOCABULARY];
  step(wide, HR_PHASE_PREFILL, 1, TOKENS, NULL, ids, expected);
  step(narrow, HR_PHASE_PREFILL, 1, TOKENS, NULL, ids, found);
  assert_near("bf16", found, expected, 0.03f); /* seven roundings of 2^-9 in a layer */
  hr_executor_close(wide);
  hr_executor_close(narrow);
}

static void the_operators_that_ran_are_those_of_the_list(void **state)
{
  (void)state;
  const hr_model model = model_of(families[0].name, families[0].config);
  hr_executor *x = open_model(&model, HR_FP32, 1);
  static double times_ns[HR_OPERATORS_MAX];
  hr_error error;
  assert_null(hr_executor_operators(x));
  assert_int_equal(hr_executor_time_operators(x, times_ns, &error), HR_ERROR_INVALID);
  step(x, HR_PHASE_PREFILL, 1, TOKENS, NULL, ids, NULL);
  const hr_operators *list = hr_executor_operators(x);
  assert_ok(hr_executor_time_operators(x, times_ns, &error), error);
  for (size_t i = 0; i < list->count; i++)
    assert_true(times_ns[i] > 0);
  assert_int_equal(hr_executor_length(x, 0), TOKENS);
  hr_executor_close(x);
}

static void the_seed_makes_the_weights(void **state)
{
  (void)state;
  const hr_model model = model_of(families[0].name, families[0].config);
  hr_executor *x = open_model(&model, HR_FP32, 1);
  float first[VOCABULARY], again[VOCABULARY], other[VOCABULARY];
  hr_error error;
  step(x, HR_PHASE_PREFILL, 1, 4, NULL, ids, first);
  assert_ok(hr_executor_load(x, NULL, 2, NULL, NULL, &error), error);
  step(x, HR_PHASE_PREFILL, 1, 4, NULL, ids, other);
  assert_ok(hr_executor_load(x, NULL, 1, NULL, NULL, &error), error);
  step(x, HR_PHASE_PREFILL, 1, 4, NULL, ids, again);
  assert_memory_equal(first, again, sizeof first);
  assert_true(memcmp(first, other, sizeof first) != 0);
  hr_executor_close(x);
}

static hr_executor *open_random(hr_device *on, const hr_model *model)
{
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x;
  hr_error error;
  options.dtype = HR_BF16;
  options.tokens = 16;
  assert_ok(hr_executor_open(on, model, &options, &x, &error), error);
  assert_ok(hr_executor_load(x, NULL, 3, NULL, NULL, &error), error);
  return x;
}

static void compare_buffers(const hr_buffer *a, const hr_buffer *b)
{
  hr_error error;
  const size_t bytes = hr_buffer_bytes(a);
  char *found = malloc(bytes), *expected = malloc(bytes);
  assert_true(found && expected && hr_buffer_bytes(b) == bytes);
  assert_ok(hr_buffer_read(a, found, bytes, &error), error);
  assert_ok(hr_buffer_read(b, expected, bytes, &error), error);
  assert_memory_equal(found, expected, bytes);
  free(found);
  free(expected);
}

static void a_seed_makes_the_same_weights_on_every_device(void **state)
{
  (void)state;
  const hr_model model = model_of(families[0].name, families[0].config);
  hr_device *host;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &host, &error), error);
  hr_executor *x = open_random(device, &model), *y = open_random(host, &model);
  for (int64_t i = 0; i < (x->layers + 1) * HR_WEIGHT_ROLE_COUNT; i++)
    if (x->weights.of[i])
      compare_buffers(x->weights.of[i], y->weights.of[i]);
  hr_executor_close(x);
  hr_executor_close(y);
  hr_device_close(host);
}

/* ---- refusals ---- */

static void assert_step_fails(hr_executor *x, const hr_executor_input *input, const char *words)
{
  hr_error error;
  assert_int_equal(hr_executor_step(x, input, NULL, &error), HR_ERROR_INVALID);
  if (!strstr(error.message, words))
    fail_msg("expected \"%s\" in \"%s\"", words, error.message);
}

static void impossible_tokens_are_refused_and_nothing_is_lost(void **state)
{
  (void)state;
  const hr_model model = model_of(families[0].name, families[0].config);
  hr_executor *x = open_model(&model, HR_FP32, 1);
  hr_executor_input input = hr_executor_input_default();
  static const int32_t many[65], bad[] = {3, VOCABULARY};
  input.ids = many, input.tokens = 65;
  assert_step_fails(x, &input, "tokens: expected 1 to 64");
  input.ids = bad, input.tokens = 2;
  assert_step_fails(x, &input, "ids[1]: 61");
  input.tokens = 1, input.phase = HR_PHASE_DECODE;
  assert_step_fails(x, &input, "no tokens yet");
  input.batch = 2;
  assert_step_fails(x, &input, "batch: expected 1 to 1");
  step(x, HR_PHASE_PREFILL, 1, 64, NULL, many, NULL);
  input.batch = 1;
  assert_step_fails(x, &input, "more than 64 tokens");
  assert_int_equal(hr_executor_length(x, 0), 64);
  hr_executor_close(x);
}

static void no_step_has_no_largest_logit(void **state)
{
  (void)state;
  const hr_model model = model_of(families[0].name, families[0].config);
  hr_executor *x = open_model(&model, HR_FP32, 1);
  hr_error error;
  int32_t id;
  assert_int_equal(hr_executor_largest(x, &id, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "no step has run that has logits");
  assert_int_equal(hr_executor_largest(x, NULL, &error), HR_ERROR_INVALID);
  hr_executor_close(x);
}

static void what_cannot_be_run_is_refused_by_name(void **state)
{
  (void)state;
  static const struct {
    const char *config, *words;
  } rows[] = {
      {"{\"model_type\":\"xglm\",\"d_model\":64,\"attention_heads\":4,\"num_layers\":2,\"ffn_dim\":96,"
       "\"vocab_size\":61}",
       "xglm"},
      {"{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
       "\"intermediate_size\":48,\"vocab_size\":61,\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":4.0}}",
       "rotary scaling dynamic"},
      {"{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
       "\"intermediate_size\":48,\"vocab_size\":61,\"hidden_act\":\"mish\"}",
       "the activation mish with a gate"},
      {"{\"model_type\":\"deepseek_v32\",\"hidden_size\":128,\"intermediate_size\":256,\"num_hidden_layers\""
       ":2,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"q_lora_rank\":64,\"kv_lora_rank\":64,\"qk_n"
       "ope_head_dim\":32,\"qk_rope_head_dim\":16,\"v_head_dim\":32,\"vocab_size\":512,\"max_position_embedd"
       "ings\":512,\"index_topk\":32,\"index_n_heads\":4,\"index_head_dim\":32,\"first_k_dense_replace\":2,"
       "\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":64,\"n_shared_experts\":1"
       "}",
       "attention over keys that an indexer chooses"},
  };
  for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
    const hr_model model = model_of("refused", rows[i].config);
    hr_executor *x = NULL;
    hr_error error;
    assert_int_equal(hr_executor_open(device, &model, NULL, &x, &error), HR_ERROR_UNSUPPORTED);
    if (!strstr(error.message, rows[i].words))
      fail_msg("expected \"%s\" in \"%s\"", rows[i].words, error.message);
  }
}

static int recordings;

static hr_status count_recording(hr_device *recording_device, hr_status (*run)(void *context, hr_error *error),
                                 void *context, void **recording, hr_error *error)
{
  (void)recording_device, (void)run, (void)context, (void)error;
  *recording = NULL; /* the step is launched */
  recordings++;
  return HR_OK;
}

static int recordings_of(bool no_graph)
{
  const hr_model model = model_of(families[0].name, families[0].config);
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x = NULL;
  hr_error error;
  float logits[VOCABULARY];
  options.no_graph = no_graph;
  recordings = 0;
  assert_ok(hr_executor_open(device, &model, &options, &x, &error), error);
  for (int i = 0; i < 3; i++)
    step(x, HR_PHASE_PREFILL, 1, 4, NULL, ids, logits);
  hr_executor_close(x);
  return recordings;
}

static void a_step_is_recorded_once_and_never_without_a_graph(void **state)
{
  (void)state;
  const hr_backend *own = device->backend;
  hr_backend recording = *own;
  recording.record = count_recording;
  device->backend = &recording;
  const int with = recordings_of(false), without = recordings_of(true);
  device->backend = own;
  assert_int_equal(with, 1);
  assert_int_equal(without, 0);
}

static int open_device(void **state)
{
  (void)state;
  return hr_device_open(test_asks_for("gpu") ? "cuda:0" : "cpu", 0, &device, NULL) == HR_OK ? 0 : -1;
}

static int close_device(void **state)
{
  (void)state;
  hr_device_close(device);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prefill_and_decode_have_the_logits_of_one_pass),
      cmocka_unit_test(slots_of_unequal_lengths_decode_together),
      cmocka_unit_test(a_batch_has_the_logits_of_its_sequences),
      cmocka_unit_test(sixteen_bits_come_near_to_fp32),
      cmocka_unit_test(the_operators_that_ran_are_those_of_the_list),
      cmocka_unit_test(the_seed_makes_the_weights),
      cmocka_unit_test(a_seed_makes_the_same_weights_on_every_device),
      cmocka_unit_test(impossible_tokens_are_refused_and_nothing_is_lost),
      cmocka_unit_test(no_step_has_no_largest_logit),
      cmocka_unit_test(what_cannot_be_run_is_refused_by_name),
      cmocka_unit_test(a_step_is_recorded_once_and_never_without_a_graph),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in chunks: passes, prefills and decodes of Llama 4 whose tokens lie before, at and behind the ends of
 * chunks have the logits of one pass over all tokens, of which each largest one is transformers' next token. */
#include "machine.h"
#include "run_step.h"

#include <headroom/experimental/resolve.h>
#include <headroom/experimental/run.h>
#include <headroom/experimental/weights.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 16
#define PROMPT 40
#define GREEDY 64
#define TOKENS (PROMPT + GREEDY)
#define VOCABULARY 48
#define SLOTS 4
#define FP32_NEAR 2e-5f
#define TRANSFORMERS_BF16 0.0384 /* root mean square of transformers 5.17 in bf16 less fp32, tokens 20 to 99 */

static hr_device *device;
static char folder[512];
static hr_model model;
static int32_t ids[TOKENS];
static float all[TOKENS * VOCABULARY]; /* of one pass in fp32 */

static hr_executor *open_executor(hr_dtype dtype)
{
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x = NULL;
  hr_error error;
  options.slots = SLOTS;
  options.tokens = TOKENS;
  options.dtype = dtype;
  assert_ok(hr_executor_open(device, &model, &options, &x, &error), error);
  assert_ok(hr_executor_load(x, folder, 0, NULL, NULL, &error), error);
  return x;
}

static void assert_rows(const char *what, int64_t first, int64_t rows, const float *found, const float *expected)
{
  float most = 0;
  for (int64_t i = 0; i < rows * VOCABULARY; i++)
    most = fmaxf(most, fabsf(expected[i]));
  for (int64_t i = 0; i < rows * VOCABULARY; i++)
    if (!(fabsf(found[i] - expected[i]) <= FP32_NEAR * most))
      fail_msg("%s: logit %d of token %d is %g, expected %g", what, (int)(i % VOCABULARY),
               (int)(first + i / VOCABULARY), (double)found[i], (double)expected[i]);
}

/* The last of `tokens` tokens, and then the tokens of a step at a time. */
static void check_from(hr_executor *x, int64_t tokens, int64_t at_once, int64_t end)
{
  float found[16 * VOCABULARY];
  step(x, HR_PHASE_PREFILL, 1, tokens, NULL, ids, found);
  assert_rows("prefill", tokens - 1, 1, found, all + (tokens - 1) * VOCABULARY);
  for (int64_t at = tokens; at + at_once <= end; at += at_once) {
    step(x, HR_PHASE_DECODE, 1, at_once, NULL, ids + at, found);
    assert_rows("decode", at, at_once, found, all + at * VOCABULARY);
  }
}

static void one_pass_has_the_ids_of_transformers(void **state)
{
  (void)state;
  hr_executor *x = open_executor(HR_FP32);
  step(x, HR_PHASE_FORWARD, 1, TOKENS, NULL, ids, all);
  for (int64_t at = PROMPT - 1; at + 1 < TOKENS; at++) {
    const float *row = all + at * VOCABULARY;
    int best = 0;
    for (int i = 1; i < VOCABULARY; i++)
      best = row[i] > row[best] ? i : best;
    if (best != ids[at + 1])
      fail_msg("token %d is %d, expected %d", (int)at + 1, best, (int)ids[at + 1]);
  }
  hr_executor_close(x);
}

static void tokens_behind_a_prefill_of_any_length(void **state)
{
  (void)state;
  static const int64_t lengths[] = {32, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK + 1, 3 * CHUNK, 71};
  hr_executor *x = open_executor(HR_FP32);
  for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++)
    if (test_takes(i))
      check_from(x, lengths[i], 1, lengths[i] + CHUNK + 2);
  hr_executor_close(x);
}

/* Some steps begin in one chunk and end in the next. */
static void several_tokens_of_a_step_lie_in_two_chunks(void **state)
{
  (void)state;
  hr_executor *x = open_executor(HR_FP32);
  check_from(x, 13, 6, 70);
  check_from(x, 20, 16, TOKENS);
  hr_executor_close(x);
}

/* Sequences of a batch begin at different tokens, and end in a chunk or with one. */
static void a_batch_has_the_logits_of_its_sequences(void **state)
{
  (void)state;
  static const int64_t shapes[][2] = {{2, 50}, {4, 50}, {3, 20}, {3, 32}, {3, 33}, {4, 47}, {2, CHUNK}};
  hr_executor *x = open_executor(HR_FP32);
  for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
    const int64_t batch = shapes[i][0], tokens = shapes[i][1];
    int32_t some[SLOTS * TOKENS];
    float found[SLOTS * VOCABULARY], one[VOCABULARY];
    for (int64_t b = 0; b < batch && test_takes(i); b++)
      memcpy(some + b * tokens, ids + 7 * b, (size_t)tokens * sizeof *ids);
    if (test_takes(i))
      step(x, HR_PHASE_PREFILL, batch, tokens, NULL, some, found);
    for (int64_t b = 0; b < batch && test_takes(i); b++) {
      step(x, HR_PHASE_PREFILL, 1, tokens, NULL, some + b * tokens, one);
      assert_rows("a sequence of a batch", b, 1, found + b * VOCABULARY, one);
    }
  }
  hr_executor_close(x);
}

/* Some tokens for each of the slots 3, 2, 1 and 0. */
static void decode_together(hr_executor *x, int64_t *lengths, int64_t tokens)
{
  static const int64_t slots[] = {3, 2, 1, 0};
  int32_t some[SLOTS * 8];
  float found[SLOTS * 8 * VOCABULARY];
  for (int i = 0; i < SLOTS; i++)
    memcpy(some + i * tokens, ids + lengths[i], (size_t)tokens * sizeof *ids);
  step(x, HR_PHASE_DECODE, SLOTS, tokens, slots, some, found);
  for (int i = 0; i < SLOTS; i++) {
    assert_rows("a slot", lengths[i], tokens, found + i * tokens * VOCABULARY, all + lengths[i] * VOCABULARY);
    lengths[i] += tokens;
  }
}

static void slots_of_unequal_lengths_decode_together(void **state)
{
  (void)state;
  int64_t lengths[SLOTS] = {14, 31, 47, 60};
  hr_executor *x = open_executor(HR_FP32);
  for (int64_t i = 0; i < SLOTS; i++)
    step(x, HR_PHASE_PREFILL, 1, lengths[i], (const int64_t[]){SLOTS - 1 - i}, ids, NULL);
  for (int i = 0; i < 5; i++)
    decode_together(x, lengths, 1);
  decode_together(x, lengths, 8);
  hr_executor_close(x);
}

/* A token whose two best experts are near each other may get the other one, so that all tokens count together. */
static void sixteen_bits_come_as_near_to_fp32_as_transformers(void **state)
{
  (void)state;
  if (!multiplies(device, HR_BF16))
    skip();
  hr_executor *x = open_executor(HR_BF16);
  float found[16 * VOCABULARY];
  double squares = 0;
  step(x, HR_PHASE_PREFILL, 1, 20, NULL, ids, found);
  for (int64_t at = 20; at < 100; at += 16) {
    step(x, HR_PHASE_DECODE, 1, 16, NULL, ids + at, found);
    for (int64_t i = 0; i < 16 * VOCABULARY; i++)
      squares += pow((double)(found[i] - all[at * VOCABULARY + i]), 2);
  }
  const double away = sqrt(squares / (80 * VOCABULARY));
  if (!(away <= 1.5 * TRANSFORMERS_BF16))
    fail_msg("%g away, transformers %g", away, TRANSFORMERS_BF16);
  hr_executor_close(x);
}

/* ---- refusals ---- */

static void assert_refused(const hr_model *changed, bool trains, const char *words)
{
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x = NULL;
  hr_error error;
  options.trains = trains;
  assert_int_equal(hr_executor_open(device, changed, &options, &x, &error), HR_ERROR_UNSUPPORTED);
  if (!strstr(error.message, words))
    fail_msg("expected \"%s\" in \"%s\"", words, error.message);
}

static void what_cannot_be_run_is_refused_by_name(void **state)
{
  (void)state;
  hr_model changed = model;
  changed.groups[0].attention.window = 24;
  assert_refused(&changed, false, "chunks of no multiple of 16 tokens");
  changed = model;
  changed.groups[1].attention.window = 32;
  changed.groups[1].attention.window_kind = HR_WINDOW_CHUNKED;
  assert_refused(&changed, false, "chunks of several sizes");
  changed = model;
  changed.groups[1].experts.active = 2;
  assert_refused(&changed, false, "several experts with weighted inputs");
  changed = model;
  changed.groups[1] = changed.groups[0];
  assert_refused(&changed, true, "attention in chunks cannot be trained yet");
}

static void copy_ids(hr_weights *file, const char *name, int64_t count, int32_t *to)
{
  hr_weights_tensor tensor;
  hr_error error;
  assert_ok(hr_weights_find(file, name, &tensor, &error), error);
  assert_int_equal(tensor.bytes, count * 4);
  memcpy(to, tensor.data, (size_t)tensor.bytes);
}

static int open_all(void **state)
{
  (void)state;
  char path[600];
  hr_weights *file;
  hr_error error;
  snprintf(folder, sizeof folder, "%s/tests/data/checkpoints/llama4_text", HEADROOM_SOURCE_DIR);
  snprintf(path, sizeof path, "%s/expected.safetensors", folder);
  assert_ok(hr_device_open(test_asks_for("gpu") ? "cuda:0" : "cpu", 0, &device, &error), error);
  assert_ok(hr_resolve_model(folder, NULL, NULL, &model, &error), error);
  assert_ok(hr_weights_open(path, &file, &error), error);
  copy_ids(file, "prompt", PROMPT, ids);
  copy_ids(file, "greedy", GREEDY, ids + PROMPT);
  hr_weights_close(file);
  return 0;
}

static int close_all(void **state)
{
  (void)state;
  hr_device_close(device);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_pass_has_the_ids_of_transformers),
      cmocka_unit_test(tokens_behind_a_prefill_of_any_length),
      cmocka_unit_test(several_tokens_of_a_step_lie_in_two_chunks),
      cmocka_unit_test(a_batch_has_the_logits_of_its_sequences),
      cmocka_unit_test(slots_of_unequal_lengths_decode_together),
      cmocka_unit_test(sixteen_bits_come_as_near_to_fp32_as_transformers),
      cmocka_unit_test(what_cannot_be_run_is_refused_by_name),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}

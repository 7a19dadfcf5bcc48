/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models with weights in q8_0: they compute what the same model computes with the weights that q8_0 stands for,
 * and nearly what it computes with those of the checkpoint. */
#include "machine.h"

#include "run/executor.h"
#include "runtime/device/q8.h"
#include "shape/number.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/resolve.h>
#include <headroom/experimental/run.h>
#include <headroom/experimental/step.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS 12 /* more than a GEMV takes */
#define FEW 5

/* Tied and other logits, biases, Q, K and V of one matrix and of three, learned positions, gates. */
static const char *const families[] = {"llama", "qwen2", "qwen3",  "gpt2",    "gpt_neox",
                                       "phi",   "opt",   "falcon", "mistral", "gemma"};

static hr_device *device;
static const int32_t ids[TOKENS] = {5, 17, 0, 46, 33, 2, 8, 41, 19, 27, 30, 11};

static hr_model model_of(const char *family)
{
  char path[512];
  hr_model model;
  hr_error error;
  snprintf(path, sizeof path, "%s/tests/data/checkpoints/%s", HEADROOM_SOURCE_DIR, family);
  assert_ok(hr_resolve_model(path, NULL, NULL, &model, &error), error);
  return model;
}

static hr_executor *open_model(const char *family, hr_dtype dtype, const char *format)
{
  char path[512];
  hr_model model = model_of(family);
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x = NULL;
  hr_error error;
  snprintf(path, sizeof path, "%s/tests/data/checkpoints/%s", HEADROOM_SOURCE_DIR, family);
  options.tokens = 64;
  options.dtype = dtype;
  assert_ok(hr_model_set_weights(&model, format, &error), error);
  assert_ok(hr_executor_open(device, &model, &options, &x, &error), error);
  assert_ok(hr_executor_load(x, path, 0, NULL, NULL, &error), error);
  return x;
}

/* ---- the weights that q8_0 stands for ---- */

static void widen(const hr_q8_matrix *from, float *to)
{
  const int64_t blocks = hr_q8_blocks(from->columns);
  for (int64_t i = 0; i < from->rows * from->columns; i++) {
    const int64_t column = i % from->columns, block = i / from->columns * blocks + column / HR_Q8_BLOCK;
    to[i] = (float)(hr_number_load(HR_FP16, hr_q8_scales(from), (size_t)block) *
                    hr_q8_values(from)[block * HR_Q8_BLOCK + column % HR_Q8_BLOCK]);
  }
}

/* `context`: a model in fp32, whose weights become those of the block. */
static hr_status copy_block(const hr_placed_weights *w, const hr_weight_block *block, void *context, hr_error *error)
{
  const int64_t columns = block->shapes[0].columns;
  hr_buffer *to = *hr_weight_buffer(context, block->layer, block->key);
  const void *from = hr_buffer_data(*hr_weight_buffer(w, block->layer, block->key));
  if (block->q8) {
    const hr_q8_matrix matrix = {.rows = block->total / columns, .columns = columns, .data = from};
    widen(&matrix, hr_buffer_data(to));
    return HR_OK;
  }
  return hr_buffer_write(to, from, (size_t)block->total * hr_dtype_bytes(block->dtype), error);
}

/* ---- steps ---- */

static void step(hr_executor *x, hr_phase phase, int64_t tokens, const int32_t *at, float *logits)
{
  hr_executor_input input = hr_executor_input_default();
  hr_error error;
  input.phase = phase;
  input.tokens = tokens;
  input.ids = at;
  assert_ok(hr_executor_step(x, &input, logits, &error), error);
}

/* The logits of a pass of all tokens, and of a prefill of few tokens with each other one decoded behind it. */
static float *logits_of(hr_executor *x)
{
  const int64_t outputs = hr_executor_outputs(x);
  float *logits = malloc((size_t)(2 * TOKENS * outputs) * sizeof *logits);
  assert_non_null(logits);
  step(x, HR_PHASE_FORWARD, TOKENS, ids, logits);
  step(x, HR_PHASE_FORWARD, FEW, ids, logits + TOKENS * outputs);
  step(x, HR_PHASE_PREFILL, FEW, ids, logits + (TOKENS + FEW - 1) * outputs);
  for (int64_t i = FEW; i < TOKENS; i++)
    step(x, HR_PHASE_DECODE, 1, ids + i, logits + (TOKENS + i) * outputs);
  return logits;
}

static double distance(const float *a, const float *b, int64_t count)
{
  double far = 0, most = 0;
  for (int64_t i = 0; i < count; i++) {
    assert_true(isfinite(a[i]) && isfinite(b[i]));
    most = fmax(most, fabs((double)b[i]));
    far = fmax(far, fabs((double)a[i] - (double)b[i]));
  }
  return far / most;
}

/* Rounding to 1/127 of the largest of 32 weights, which is 2.3 times their deviation in the mean, is off by
 * 2.3 / 127 / √12 = 0.5% of it. Errors of GEMMs behind each other, four in a layer and the logits, add up as their
 * squares; the worst of some thousand logits is off by less than 5 deviations, and the largest of all logits is about 3
 * deviations itself. Twice that, as norms and softmax may enlarge errors. */
static double allowed_of(const hr_model *model)
{
  return 5.0 / 3 * 0.005 * sqrt(4 * (double)hr_model_layers(model) + 1) * 2;
}

static void check_family(const char *family)
{
  hr_executor *quantized = open_model(family, HR_FP32, "q8_0"), *same = open_model(family, HR_FP32, "bf16");
  const hr_model model = model_of(family);
  const int64_t count = 2 * TOKENS * hr_executor_outputs(same);
  hr_error error;
  float *found = logits_of(quantized), *of_checkpoint = logits_of(same);
  assert_ok(hr_each_weight_block(&quantized->weights, copy_block, &same->weights, &error), error);
  float *expected = logits_of(same);
  const double rounding = distance(found, expected, count), quantization = distance(found, of_checkpoint, count);
  if (!(rounding <= 1e-5))
    fail_msg("%s: %g away from the same weights in fp32", family, rounding);
  if (!(quantization > 1e-5 && quantization <= allowed_of(&model)))
    fail_msg("%s: %g away from the checkpoint, allowed are %g", family, quantization, allowed_of(&model));
  hr_executor_close(quantized);
  hr_executor_close(same);
  free(found);
  free(of_checkpoint);
  free(expected);
}

static void logits_are_those_of_the_weights_that_q8_0_stands_for(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    check_family(families[i]);
}

/* bf16 rounds activations to 2^-9, and in a pass of many tokens the widened weights. */
static void bf16_steps_are_near_fp32_ones(void **state)
{
  (void)state;
  if (!multiplies(device, HR_BF16))
    skip();
  hr_executor *fp32 = open_model("llama", HR_FP32, "q8_0"), *bf16 = open_model("llama", HR_BF16, "q8_0");
  float *exact = logits_of(fp32), *found = logits_of(bf16);
  const double far = distance(found, exact, 2 * TOKENS * hr_executor_outputs(fp32));
  if (!(far > 0 && far <= 0.03))
    fail_msg("%g away", far);
  free(exact);
  free(found);
  hr_executor_close(fp32);
  hr_executor_close(bf16);
}

static void greedy_ids_are_those_of_the_largest_logits(void **state)
{
  (void)state;
  hr_executor *x = open_model("qwen3", HR_FP32, "q8_0");
  hr_executor_input input = hr_executor_input_default();
  hr_generated *generated = NULL;
  hr_error error;
  float *logits = malloc((size_t)hr_executor_outputs(x) * sizeof *logits);
  input.tokens = FEW;
  input.ids = ids;
  assert_non_null(logits);
  assert_ok(hr_generate(x, &input, 16, &generated, &error), error);
  step(x, HR_PHASE_PREFILL, FEW, ids, logits);
  for (int64_t i = 0; i < 16; i++) {
    for (int64_t k = 0; k < hr_executor_outputs(x); k++)
      assert_true(logits[k] <= logits[generated->ids[i]]);
    step(x, HR_PHASE_DECODE, 1, generated->ids + i, logits);
  }
  hr_generated_free(generated);
  hr_executor_close(x);
  free(logits);
}

/* ---- refusals ---- */

static void expect_refusal(hr_device *on, const char *family, const char *format, const char *message)
{
  hr_model model = model_of(family);
  hr_executor *x = NULL;
  hr_error error;
  assert_ok(hr_model_set_weights(&model, format, &error), error);
  assert_int_equal(hr_executor_open(on, &model, NULL, &x, &error), HR_ERROR_UNSUPPORTED);
  if (!strstr(error.message, message))
    fail_msg("%s %s: %s", family, format, error.message);
}

static void what_does_not_run_is_refused_by_name(void **state)
{
  (void)state;
  hr_device *reference;
  hr_error error;
  assert_ok(hr_device_open("reference", 1, &reference, &error), error);
  expect_refusal(device, "mixtral", "q8_0", "experts with weights in q8_0 cannot be run yet");
  expect_refusal(device, "deepseek_v2", "q8_0", "latent attention with weights in q8_0 cannot be run yet");
  expect_refusal(device, "llama", "int8", "weights in formats other than fp8 and q8_0 cannot be run yet");
  expect_refusal(reference, "llama", "q8_0", "reference: weights in q8_0 run on a CPU alone");
  hr_device_close(reference);
}

static int open_cpu(void **state)
{
  (void)state;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  return 0;
}

static int close_cpu(void **state)
{
  (void)state;
  hr_device_close(device);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_are_those_of_the_weights_that_q8_0_stands_for),
      cmocka_unit_test(bf16_steps_are_near_fp32_ones),
      cmocka_unit_test(greedy_ids_are_those_of_the_largest_logits),
      cmocka_unit_test(what_does_not_run_is_refused_by_name),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}

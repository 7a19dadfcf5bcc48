/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models with weights in fp8 on a GPU: few tokens are multiplied with what the weights stand for, more with
 * activations in fp8, too; and the weights take one byte each. */
#include "run_step.h"

#include "run/program.h"
#include "runtime/device/device.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/resolve.h>
#include <headroom/memory.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS 13 /* more than a GEMV takes, and no multiple of 4 */
#define FEW 5

static hr_device *device;
static const int32_t ids[TOKENS] = {5, 17, 0, 46, 33, 2, 8, 41, 19, 27, 30, 11, 3};

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

static void path_of(const char *family, char path[512])
{
  snprintf(path, 512, "%s/tests/data/checkpoints/%s", HEADROOM_SOURCE_DIR, family);
}

/* `format`: of all weights; NULL: that of the configuration. */
static hr_executor *open_as(const char *family, hr_dtype dtype, const char *format)
{
  char path[512];
  hr_model model;
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x = NULL;
  hr_error error;
  path_of(family, path);
  assert_ok(hr_resolve_model(path, NULL, NULL, &model, &error), error);
  options.tokens = 64;
  options.dtype = dtype;
  if (format)
    assert_ok(hr_model_set_weights(&model, format, &error), error);
  assert_ok(hr_executor_open(device, &model, &options, &x, &error), error);
  return x;
}

static hr_executor *load_as(const char *family, hr_dtype dtype, const char *format)
{
  char path[512];
  hr_error error;
  hr_executor *x = open_as(family, dtype, format);
  path_of(family, path);
  assert_ok(hr_executor_load(x, path, 0, NULL, NULL, &error), error);
  return x;
}

/* The logits of a pass of few tokens, and of others decoded behind their prefill; or of a pass of all tokens. */
static float *logits_of(hr_executor *x, bool few)
{
  const int64_t outputs = hr_executor_outputs(x);
  float *logits = malloc((size_t)(TOKENS * outputs) * sizeof *logits);
  assert_non_null(logits);
  if (!few) {
    step(x, HR_PHASE_FORWARD, 1, TOKENS, NULL, ids, logits);
    return logits;
  }
  step(x, HR_PHASE_FORWARD, 1, FEW, NULL, ids, logits);
  step(x, HR_PHASE_PREFILL, 1, FEW, NULL, ids, logits + (FEW - 1) * outputs);
  for (int64_t i = FEW; i < TOKENS; i++)
    step(x, HR_PHASE_DECODE, 1, 1, NULL, ids + i, logits + i * outputs);
  return logits;
}

/* The root of the mean square of differences over that of b. */
static double distance(const float *a, const float *b, int64_t count)
{
  double far = 0, size = 0;
  for (int64_t i = 0; i < count; i++) {
    const double off = (double)a[i] - (double)b[i];
    assert_true(isfinite(a[i]) && isfinite(b[i]));
    far += off * off, size += (double)b[i] * (double)b[i];
  }
  return sqrt(far / size);
}

static bool keeps_fp8(void)
{
  return device->backend->keeps_fp8 && device->backend->keeps_fp8(device);
}

/* Whether the library multiplied in fp8 in the last step. */
static bool multiplied_fp8(const hr_executor *x)
{
  const hr_run_program *p = x->programs[0];
  bool found = false;
  for (int i = 0; i < p->launch_count; i++)
    found = found || p->launches[i].run == hr_launch_fp8;
  return found;
}

/* Whether one kernel runs the layers of the last step. */
static bool ran_in_one_kernel(const hr_executor *x)
{
  return x->programs[0]->persistent_count > 0;
}

/* Whether the model has such steps: of its rows 32 columns are a unit. */
static bool may_run_in_one_kernel(const char *family)
{
  return strcmp(family, "llama_fp8") == 0 && persists(device);
}

/* Whether the library has a product as attention's output projection is of TOKENS. */
static bool has_product(const hr_executor *x, hr_dtype dtype)
{
  const int64_t hidden = x->model.hidden;
  const hr_fp8_gemm gemm = {.m = (TOKENS + 15) / 16 * 16,
                            .n = hidden,
                            .k = hidden,
                            .scales = x->model.quantization.formats[0].block_inputs > 0
                                          ? hr_fp8_scales_of_blocks(128, hidden)
                                          : hr_fp8_scales_of_rows(),
                            .dtype = dtype,
                            .w_scales = hr_buffer_data(x->ones)};
  void *plan = NULL;
  size_t bytes;
  const bool found = device->backend->plan_fp8(device, &gemm, &plan, &bytes, NULL) == HR_OK;
  if (found)
    device->backend->free_fp8(device, plan);
  return found;
}

static const char *const families[] = {"llama_fp8", "qwen2_fp8"};

/* Products of few tokens are off by no more than with weights of 16 bits, but for chance. Activations in fp8 are
 * rounded to 2^-4 of each at most, 0.026 of it in the mean square (uniform within its binade: 2^-3 / √12 of 1 to 2);
 * four such in each of two layers, whose errors add up as squares, and twice that for what norms and softmax make of
 * it. */
static void check_family(const char *family, hr_dtype dtype)
{
  hr_executor *exact = load_as(family, HR_FP32, NULL), *widened = load_as(family, dtype, "bf16"),
              *kept = load_as(family, dtype, NULL);
  const int64_t count = TOKENS * hr_executor_outputs(exact);
  assert_false(exact->weights.fp8 || widened->weights.fp8);
  assert_true(kept->weights.fp8);
  assert_true(hr_executor_bytes(kept) < hr_executor_bytes(widened));
  for (int few = 0; few < 2; few++) {
    float *expected = logits_of(exact, few), *found = logits_of(kept, few), *wide = logits_of(widened, few);
    const double off = distance(found, expected, count), usual = distance(wide, expected, count);
    const double allowed = few ? 1.5 * usual : 2 * 0.026 * sqrt(8);
    assert_true(multiplied_fp8(kept) == (!few && has_product(kept, dtype)));
    assert_true(ran_in_one_kernel(kept) == (few && may_run_in_one_kernel(family)));
    if (!(off <= allowed))
      fail_msg("%s, %s, %s tokens: %g away from fp32, allowed are %g; widened %g", family, hr_dtype_name(dtype),
               few ? "few" : "many", off, allowed, usual);
    free(expected);
    free(found);
    free(wide);
  }
  hr_executor_close(exact);
  hr_executor_close(widened);
  hr_executor_close(kept);
}

static void weights_in_fp8_stay_so_on_a_gpu(void **state)
{
  (void)state;
  for (int i = 0; i < 2 * (int)(sizeof families / sizeof *families) && keeps_fp8(); i++)
    if (test_takes(i))
      check_family(families[i / 2], i % 2 ? HR_FP16 : HR_BF16);
}

/* Random weights are as large as those of other formats: rounded values, of which the largest is a whole binade. */
static void random_weights_in_fp8_are_as_large_as_others(void **state)
{
  (void)state;
  hr_error error;
  if (!keeps_fp8())
    return;
  hr_executor *kept = open_as("llama_fp8", HR_BF16, NULL), *wide = open_as("llama_fp8", HR_BF16, "bf16");
  assert_ok(hr_executor_load(kept, NULL, 3, NULL, NULL, &error), error);
  assert_ok(hr_executor_load(wide, NULL, 3, NULL, NULL, &error), error);
  float *found = logits_of(kept, true), *expected = logits_of(wide, true);
  const double off = distance(found, expected, TOKENS * hr_executor_outputs(kept));
  assert_true(off > 0 && off <= 2 * 0.026 * sqrt(8));
  free(found);
  free(expected);
  hr_executor_close(kept);
  hr_executor_close(wide);
}

/* A row in fp8 has a scale of 4 bytes where `describe` counts one for the tensor: 4 in 256 at most. */
static void weights_in_fp8_take_what_describe_says(void **state)
{
  (void)state;
  static const char *const scaled[] = {"[128,128]", "null"};
  for (int i = 0; i < 2 && keeps_fp8(); i++) {
    char text[512];
    hr_model model;
    hr_error error;
    hr_executor *x = NULL;
    hr_executor_options options = hr_executor_options_default();
    snprintf(text, sizeof text,
             "{\"model_type\":\"llama\",\"hidden_size\":256,\"intermediate_size\":640,\"num_attention_heads\":4,"
             "\"num_key_value_heads\":2,\"num_hidden_layers\":3,\"vocab_size\":96,\"max_position_embeddings\":64,"
             "\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":%s}}",
             scaled[i]);
    const hr_input input = {.text = text, .length = strlen(text), .name = "test"};
    assert_ok(hr_model_from_json(&input, NULL, NULL, &model, &error), error);
    options.tokens = 64;
    options.dtype = HR_BF16;
    assert_ok(hr_executor_open(device, &model, &options, &x, &error), error);
    hr_workload workload = hr_workload_default(&model);
    hr_memory memory;
    workload.phase = HR_PHASE_PREFILL;
    workload.batch = 1, workload.sequence = 64;
    workload.dtype = HR_BF16;
    assert_ok(hr_memory_estimate(&model, &workload, &memory, &error), error);
    const double said = (double)(memory.weight_bytes + memory.kv_cache_bytes), has = (double)hr_executor_bytes(x);
    if (fabs(has / said - 1) > 0.03)
      fail_msg("%s: weights and caches are %.0f bytes, described are %.0f", scaled[i], has, said);
    hr_executor_close(x);
  }
}

static void refuse(const char *family, const char *message)
{
  char path[512];
  hr_error error;
  hr_executor *x = open_as(family, HR_BF16, "fp8");
  path_of(family, path);
  assert_int_equal(hr_executor_load(x, path, 0, NULL, NULL, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, message);
  hr_executor_close(x);
}

/* The format has a scale for each row. */
static void weights_that_are_not_what_the_configuration_says_are_refused(void **state)
{
  (void)state;
  if (!keeps_fp8())
    return;
  refuse("qwen2",
         "model.layers.0.self_attn.q_proj.weight: expected fp8_e4m3, as the configuration says, found fp32; it "
         "can be read as bf16 (--weights-format bf16)");
  refuse("llama_fp8", "model.layers.0.mlp.down_proj.weight_scale_inv: expected one scale for rows 0 to 0, as the "
                      "configuration says, found several; they can be read as bf16 (--weights-format bf16)");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weights_in_fp8_stay_so_on_a_gpu),
      cmocka_unit_test(random_weights_in_fp8_are_as_large_as_others),
      cmocka_unit_test(weights_in_fp8_take_what_describe_says),
      cmocka_unit_test(weights_that_are_not_what_the_configuration_says_are_refused),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

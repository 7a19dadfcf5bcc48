/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of tests/data/checkpoints run: their logits and greedy ids are those of transformers, and so are the
 * losses of those that train. */
#include "test.h"

#include "run/executor.h"
#include "run/program.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/resolve.h>
#include <headroom/experimental/run.h>
#include <headroom/experimental/weights.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What transformers computed: scripts/make_checkpoints.py. */
typedef struct expectation {
  hr_weights *file;
  hr_weights_tensor prompt, greedy, logits, losses;
  bool trains;
} expectation;

static hr_device *device;

static void path_of(const char *family, const char *file, char path[512])
{
  snprintf(path, 512, "%s/tests/data/checkpoints/%s%s", HEADROOM_SOURCE_DIR, family, file);
}

static expectation expected_of(const char *family)
{
  expectation e;
  char path[512];
  hr_error error;
  path_of(family, "/expected.safetensors", path);
  assert_ok(hr_weights_open(path, &e.file, &error), error);
  assert_ok(hr_weights_find(e.file, "prompt", &e.prompt, &error), error);
  assert_ok(hr_weights_find(e.file, "greedy", &e.greedy, &error), error);
  assert_ok(hr_weights_find(e.file, "logits", &e.logits, &error), error);
  e.trains = hr_weights_find(e.file, "losses", &e.losses, NULL) == HR_OK;
  return e;
}

static int32_t *ids_of(const hr_weights_tensor *tensor)
{
  int32_t *ids = malloc((size_t)tensor->bytes);
  assert_non_null(ids);
  memcpy(ids, tensor->data, (size_t)tensor->bytes);
  return ids;
}

static void step(hr_executor *x, hr_phase phase, int64_t tokens, const int32_t *ids, float *logits)
{
  hr_executor_input input = hr_executor_input_default();
  hr_error error;
  input.phase = phase;
  input.tokens = tokens;
  input.ids = ids;
  assert_ok(hr_executor_step(x, &input, logits, &error), error);
}

static void check_logits(const char *family, hr_executor *x, const expectation *e)
{
  const int64_t tokens = e->prompt.dims[0], count = tokens * hr_executor_outputs(x);
  float *found = malloc((size_t)count * sizeof *found), *expected = malloc((size_t)e->logits.bytes), most = 0, far = 0;
  int32_t *prompt = ids_of(&e->prompt);
  assert_int_equal(e->logits.bytes, count * 4);
  memcpy(expected, e->logits.data, (size_t)e->logits.bytes);
  step(x, HR_PHASE_FORWARD, tokens, prompt, found);
  for (int64_t i = 0; i < count; i++) {
    most = fmaxf(most, fabsf(expected[i]));
    far = fmaxf(far, fabsf(expected[i] - found[i]));
  }
  if (!(far <= 1e-4f * most))
    fail_msg("%s: a logit is %g away, the largest is %g", family, (double)far, (double)most);
  free(prompt);
  free(found);
  free(expected);
}

static int32_t largest_of(const float *logits, int64_t count)
{
  int64_t best = 0;
  for (int64_t i = 1; i < count; i++)
    best = logits[i] > logits[best] ? i : best;
  return (int32_t)best;
}

static bool runs_with_others(const hr_run_program *p, size_t op)
{
  for (int i = 0; i < p->launch_count; i++)
    for (int j = 0; j < p->launches[i].op_count && p->launches[i].op_count > 1; j++)
      if (p->launches[i].ops[j] == op)
        return true;
  return false;
}

/* On a GPU hr_operator.fused is true of what ran in the kernel of another operator. */
static void check_fused(const char *family, const hr_executor *x)
{
  const hr_run_program *p = x->programs[0];
  bool experts = false;
  for (size_t g = 0; g < x->model.group_count; g++)
    experts = experts || x->model.groups[g].experts.experts > 0; /* theirs is a kernel with the router */
  for (size_t i = 0; i < p->operators.count && !experts && test_asks_for("gpu"); i++) {
    const hr_operator *op = &p->operators.items[i];
    const bool norm = op->id == HR_OP_ATTENTION_NORM || op->id == HR_OP_MLP_NORM;
    const bool residual = op->id == HR_OP_ATTENTION_RESIDUAL || op->id == HR_OP_MLP_RESIDUAL;
    if ((norm || residual || op->id == HR_OP_ACTIVATION) && op->fused != runs_with_others(p, i))
      fail_msg("%s: %s is %s a part of another kernel", family, hr_operator_id_name(op->id),
               op->fused ? "not" : "unexpectedly");
  }
}

static void check_greedy(const char *family, hr_executor *x, const expectation *e)
{
  const int64_t outputs = hr_executor_outputs(x), wanted = e->greedy.bytes / 4;
  float *logits = malloc((size_t)outputs * sizeof *logits);
  int32_t *prompt = ids_of(&e->prompt), *greedy = ids_of(&e->greedy);
  step(x, HR_PHASE_PREFILL, e->prompt.dims[0], prompt, logits);
  for (int64_t i = 0; i < wanted; i++) {
    const int32_t id = largest_of(logits, outputs);
    if (id != greedy[i])
      fail_msg("%s: token %d is %d, expected %d", family, (int)i, (int)id, (int)greedy[i]);
    if (i + 1 < wanted)
      step(x, HR_PHASE_DECODE, 1, &id, logits);
  }
  check_fused(family, x);
  free(logits);
  free(prompt);
  free(greedy);
}

/* ---- training ---- */

/* Adam divides gradients by their size, so that the smallest ones, which rounding makes, move weights as others do; and
 * rounding may give a token another expert. */
#define LOSS_NEAR 1e-4
#define LOSS_OF_EXPERTS_NEAR 5e-4

static double loss_near(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++)
    if (model->groups[i].experts.experts > 0)
      return LOSS_OF_EXPERTS_NEAR;
  return LOSS_NEAR;
}

static double mean_loss(hr_executor *x, const int32_t *ids, int64_t tokens)
{
  hr_executor_input input = hr_executor_input_default();
  float *losses = malloc((size_t)(2 * tokens) * sizeof *losses);
  double sum = 0;
  hr_error error;
  assert_non_null(losses);
  input.phase = HR_PHASE_TRAIN;
  input.batch = 2, input.tokens = tokens;
  input.ids = ids;
  assert_ok(hr_executor_step(x, &input, losses, &error), error);
  for (int64_t i = 0; i < 2 * tokens; i++)
    sum += (double)losses[i];
  free(losses);
  return sum / (double)(2 * (tokens - 1));
}

/* On the prompt and as many greedy ids, as scripts/make_checkpoints.py has trained. */
static void check_losses(const char *family, const char *path, const hr_model *model, const expectation *e)
{
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x = NULL;
  hr_error error;
  const size_t bytes = (size_t)e->prompt.bytes;
  int32_t *ids = malloc(2 * bytes);
  options.trains = true;
  options.learning_rate = 3e-3;
  assert_non_null(ids);
  memcpy(ids, e->prompt.data, bytes);
  memcpy((char *)ids + bytes, e->greedy.data, bytes);
  assert_ok(hr_executor_open(device, model, &options, &x, &error), error);
  assert_ok(hr_executor_load(x, path, 0, NULL, NULL, &error), error);
  for (int64_t i = 0; i < e->losses.bytes / 4; i++) {
    float expected;
    memcpy(&expected, (const char *)e->losses.data + 4 * i, sizeof expected);
    const double found = mean_loss(x, ids, e->prompt.dims[0]);
    if (!(fabs(found - (double)expected) <= loss_near(model) * (double)expected))
      fail_msg("%s: the loss of step %d is %g, expected %g", family, (int)i, found, (double)expected);
  }
  free(ids);
  hr_executor_close(x);
}

/* Returns HR_OK or why the family does not run. */
static hr_status check_family(const char *family, hr_error *error)
{
  char path[512];
  hr_model model;
  hr_executor *x = NULL;
  path_of(family, "", path);
  assert_ok(hr_resolve_model(path, NULL, NULL, &model, error), *error);
  hr_status status = hr_executor_open(device, &model, NULL, &x, error);
  if (status != HR_OK)
    return status;
  expectation e = expected_of(family);
  assert_ok(hr_executor_load(x, path, 0, NULL, NULL, error), *error);
  check_logits(family, x, &e);
  check_greedy(family, x, &e);
  hr_executor_close(x);
  if (e.trains)
    check_losses(family, path, &model, &e);
  hr_weights_close(e.file);
  return HR_OK;
}

static void logits_ids_and_losses_are_those_of_transformers(void **state)
{
  (void)state;
  static const char *const families[] = {"llama",
                                         "llama_fp8",
                                         "mistral",
                                         "qwen2",
                                         "qwen2_fp8",
                                         "qwen3",
                                         "phi3",
                                         "gpt2",
                                         "gpt_bigcode",
                                         "gpt_neo",
                                         "gpt_neox",
                                         "gptj",
                                         "codegen",
                                         "opt",
                                         "opt_projected",
                                         "phi",
                                         "stablelm",
                                         "starcoder2",
                                         "gemma",
                                         "gemma_erf",
                                         "cohere",
                                         "glm",
                                         "granite",
                                         "smollm3",
                                         "nemotron",
                                         "olmo",
                                         "falcon",
                                         "falcon_new",
                                         "glm4",
                                         "olmo2",
                                         "gemma2",
                                         "gemma3_text",
                                         "stablelm_per_head",
                                         "mixtral",
                                         "qwen2_moe",
                                         "qwen3_moe",
                                         "granitemoe",
                                         "glm4_moe",
                                         "deepseek_v2",
                                         "deepseek_v3",
                                         "deepseek_v3_yarn",
                                         "gpt_oss",
                                         "bloom",
                                         "mpt",
                                         "falcon_alibi",
                                         "llama4_text"};
  for (int i = 0; i < (int)(sizeof families / sizeof *families); i++) {
    hr_error error;
    if (test_takes(i) && check_family(families[i], &error) != HR_OK)
      fail_msg("%s: %s", families[i], error.message);
  }
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(logits_ids_and_losses_are_those_of_transformers)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

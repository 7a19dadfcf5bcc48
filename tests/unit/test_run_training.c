/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps: gradients beside finite differences of the loss, the optimizer, refusals. */
#include "machine.h"

#include "run/executor.h"
#include "runtime/device/buffer.h"
#include "training/training.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/run.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VOCABULARY 61
#define BATCH 2
#define TOKENS 6
#define CHANGE 0.005 /* of the loss, by a shift along all signs of a gradient */

#define SIZES "\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":61,"
#define LLAMA SIZES "\"num_key_value_heads\":2,\"intermediate_size\":48,\"max_position_embeddings\":64"
#define LATENT "\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":4,\"v_head_dim\":8,"

/* One small model for each way in which gradients differ. */
static const struct {
  const char *name, *config;
} families[] = {
    {"llama", "{\"model_type\":\"llama\"," LLAMA "}"},
    {"tied", "{\"model_type\":\"llama\"," LLAMA ",\"tie_word_embeddings\":true}"},
    {"qwen2", "{\"model_type\":\"qwen2\"," LLAMA "}"},
    {"qwen3", "{\"model_type\":\"qwen3\"," LLAMA ",\"head_dim\":16}"},
    {"mistral", "{\"model_type\":\"mistral\"," LLAMA ",\"sliding_window\":4}"},
    {"granite", "{\"model_type\":\"granite\"," LLAMA ",\"embedding_multiplier\":3.0,\"residual_multiplier\":0.5,"
                "\"logits_scaling\":2.0,\"attention_multiplier\":0.2}"},
    {"gemma2", "{\"model_type\":\"gemma2\"," LLAMA ",\"head_dim\":8,\"sliding_window\":4,\"query_pre_attn_scalar\":8,"
               "\"attn_logit_softcapping\":5.0,\"final_logit_softcapping\":3.0}"},
    {"nemotron", "{\"model_type\":\"nemotron\"," LLAMA ",\"hidden_act\":\"relu2\",\"partial_rotary_factor\":0.5}"},
    {"gpt2", "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":61,\"n_positions\":64}"},
    {"gpt_neox", "{\"model_type\":\"gpt_neox\"," SIZES "\"intermediate_size\":48,\"max_position_embeddings\":64}"},
    {"stablelm", "{\"model_type\":\"stablelm\"," LLAMA ",\"qk_layernorm\":true}"},
    {"gptj", "{\"model_type\":\"gptj\",\"n_embd\":32,\"n_layer\":2,\"n_head\":2,\"rotary_dim\":8,\"vocab_size\":61,"
             "\"n_positions\":64}"},
    {"opt",
     "{\"model_type\":\"opt\"," SIZES "\"ffn_dim\":48,\"max_position_embeddings\":64,\"word_embed_proj_dim\":16}"},
    {"bloom", "{\"model_type\":\"bloom\",\"hidden_size\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":61}"},
    {"mixtral", "{\"model_type\":\"mixtral\"," LLAMA ",\"num_local_experts\":4,\"num_experts_per_tok\":2}"},
    {"qwen2_moe", "{\"model_type\":\"qwen2_moe\"," LLAMA ",\"num_experts\":5,\"num_experts_per_tok\":3,"
                  "\"moe_intermediate_size\":12,\"shared_expert_intermediate_size\":20,\"norm_topk_prob\":false}"},
    {"qwen3_moe", "{\"model_type\":\"qwen3_moe\"," LLAMA ",\"head_dim\":16,\"num_experts\":8,"
                  "\"num_experts_per_tok\":2,\"moe_intermediate_size\":12,\"norm_topk_prob\":true}"},
    {"glm4_moe", "{\"model_type\":\"glm4_moe\"," LLAMA ",\"head_dim\":8,\"n_routed_experts\":8,"
                 "\"num_experts_per_tok\":2,\"moe_intermediate_size\":12,\"n_shared_experts\":1,\"n_group\":2,"
                 "\"topk_group\":1,\"first_k_dense_replace\":1,\"routed_scaling_factor\":1.5,"
                 "\"norm_topk_prob\":true,\"partial_rotary_factor\":0.5,\"use_qk_norm\":true}"},
    {"deepseek_v2", "{\"model_type\":\"deepseek_v2\"," LLAMA ",\"q_lora_rank\":null," LATENT
                    "\"first_k_dense_replace\":2,\"n_routed_experts\":4,\"num_experts_per_tok\":2,"
                    "\"moe_intermediate_size\":8,\"n_shared_experts\":1}"},
    {"deepseek_v3", "{\"model_type\":\"deepseek_v3\"," LLAMA ",\"q_lora_rank\":16," LATENT
                    "\"first_k_dense_replace\":1,\"n_routed_experts\":4,\"num_experts_per_tok\":2,"
                    "\"moe_intermediate_size\":8,\"n_group\":1,\"topk_group\":1,\"n_shared_experts\":1}"},
    {"sigma", "{\"model_type\":\"sigma\"," SIZES "\"num_key_heads\":1,\"num_value_heads\":2,\"key_head_dim\":4,"
              "\"value_head_dim\":8,\"augmented_q_dim\":20,\"intermediate_size\":48,\"max_position_embeddings\":64}"},
};

static hr_device *device;
static const int32_t ids[BATCH * TOKENS] = {5, 17, 0, 60, 33, 5, 8, 41, 19, 27, 50, 8};

static hr_model model_of(const char *name, const char *config)
{
  hr_model model;
  hr_error error;
  const hr_input input = {.name = name, .text = config, .length = strlen(config)};
  assert_ok(hr_model_from_json(&input, NULL, NULL, &model, &error), error);
  return model;
}

static hr_executor *open_model(const hr_model *model, const hr_executor_options *options)
{
  hr_executor *x = NULL;
  hr_error error;
  assert_ok(hr_executor_open(device, model, options, &x, &error), error);
  return x;
}

static hr_executor_options options_of(hr_dtype dtype, double learning_rate)
{
  hr_executor_options options = hr_executor_options_default();
  options.dtype = dtype;
  options.tokens = 64;
  options.trains = true;
  options.learning_rate = learning_rate;
  return options;
}

static double train(hr_executor *x)
{
  hr_executor_input input = hr_executor_input_default();
  float losses[BATCH * TOKENS];
  double sum = 0;
  hr_error error;
  input.phase = HR_PHASE_TRAIN;
  input.batch = BATCH, input.tokens = TOKENS;
  input.ids = ids;
  assert_ok(hr_executor_step(x, &input, losses, &error), error);
  for (int i = 0; i < BATCH * TOKENS; i++)
    sum += (double)losses[i];
  assert_true(losses[TOKENS - 1] == 0 && losses[BATCH * TOKENS - 1] == 0);
  return sum / (BATCH * (TOKENS - 1));
}

/* ---- gradients ---- */

typedef struct weights {
  hr_executor *x;
  float *values, *gradients, *moved;
  size_t count;
} weights;

static weights read_weights(hr_executor *x)
{
  weights w = {.x = x, .count = hr_buffer_bytes(x->weights.memory) / sizeof(float)};
  hr_error error;
  w.values = malloc(w.count * sizeof(float)), w.moved = malloc(w.count * sizeof(float));
  w.gradients = malloc(w.count * sizeof(float));
  assert_ok(hr_buffer_read(x->weights.memory, w.values, w.count * sizeof(float), &error), error);
  assert_ok(hr_buffer_read(x->gradients, w.gradients, w.count * sizeof(float), &error), error);
  return w;
}

static void free_weights(weights *w)
{
  free(w->values);
  free(w->gradients);
  free(w->moved);
}

static float direction_of(const weights *w, size_t i, int way)
{
  const uint64_t bits = (i + 1) * 0x9E3779B97F4A7C15u >> 40;
  return way == 0 ? (w->gradients[i] < 0 ? -1.0f : 1.0f) : bits % 2 ? 1.0f : -1.0f;
}

static double loss_at(const weights *w, size_t first, size_t count, int way, float shift)
{
  hr_error error;
  memcpy(w->moved, w->values, w->count * sizeof(float));
  for (size_t i = first; i < first + count; i++)
    w->moved[i] += shift * direction_of(w, i, way);
  assert_ok(hr_buffer_write(w->x->weights.memory, w->moved, w->count * sizeof(float), &error), error);
  return train(w->x);
}

/* What the loss changes by along a direction. */
static double slope_at(const weights *w, size_t first, size_t count, int way, float shift)
{
  const double above = loss_at(w, first, count, way, shift), below = loss_at(w, first, count, way, -shift);
  return (above - below) / (2 * (double)shift);
}

/* Along the signs of the gradient, and along a random direction; of a share of the cases along one. The loss is a mean
 * of fp32 numbers of about 4; ReLUs are not smooth, and where a token gets another expert it jumps: a smaller shift
 * ends before. */
static void check_part(const char *family, const weights *w, int64_t layer, int role, const hr_buffer *part)
{
  const size_t first =
      (size_t)((const float *)hr_buffer_data(part) - (const float *)hr_buffer_data(w->x->weights.memory));
  const size_t count = hr_buffer_bytes(part) / sizeof(float);
  for (int way = 0; way < 2; way++) {
    if (!test_takes(1) && way != role % 2)
      continue;
    double expected = 0, size = 0, found = (double)INFINITY;
    for (size_t i = first; i < first + count; i++) {
      expected += (double)(w->gradients[i] * direction_of(w, i, way));
      size += fabs((double)w->gradients[i]);
    }
    float shift = (float)(CHANGE / fmax(size, 0.1));
    for (int i = 0; i < 5 && !(fabs(found - expected) <= 0.03 * size + 1e-4); i++, shift /= 6)
      found = slope_at(w, first, count, way, shift);
    if (!(fabs(found - expected) <= 0.03 * size + 1e-4))
      fail_msg("%s: %s of layer %d, direction %d: the loss changes by %g, its gradient says %g of %g", family,
               hr_weight_role_name(role), (int)layer, way, found, expected, size);
  }
}

static void gradients_are_those_of_finite_differences(void **state)
{
  (void)state;
  for (int f = 0; f < (int)(sizeof families / sizeof *families); f++) {
    if (!test_takes(f))
      continue;
    const hr_model model = model_of(families[f].name, families[f].config);
    const hr_executor_options options = options_of(HR_FP32, 0);
    hr_executor *x = open_model(&model, &options);
    const double loss = train(x);
    assert_true(loss > 3 && loss < 6);
    weights w = read_weights(x);
    for (int64_t layer = -1; layer < x->layers; layer++) {
      for (int role = 0; role < HR_WEIGHT_ROLE_COUNT; role++) {
        const hr_buffer *part = x->weights.of[(layer + 1) * HR_WEIGHT_ROLE_COUNT + role];
        if (part && (test_takes(1) || layer != role / 2 % 2)) /* of a share each role in one of two layers */
          check_part(families[f].name, &w, layer, role, part);
      }
    }
    free_weights(&w);
    hr_executor_close(x);
  }
}

/* ---- the optimizer ---- */

static hr_model first_model(void)
{
  return model_of(families[0].name, families[0].config);
}

/* Losses of `steps` steps. */
static void train_model(const hr_model *model, const hr_executor_options *options, int steps, double *losses)
{
  hr_executor *x = open_model(model, options);
  for (int i = 0; i < steps; i++)
    losses[i] = train(x);
  hr_executor_close(x);
}

static hr_dtype narrow_dtype(void)
{
  return multiplies(device, HR_BF16) ? HR_BF16 : HR_FP32;
}

static hr_model model_named(const char *name)
{
  int f = 0;
  while (strcmp(families[f].name, name) != 0)
    f++;
  return model_of(name, families[f].config);
}

/* A dense model, experts, latent attention. */
static void steps_go_down_and_are_the_same_recorded_or_not(void **state)
{
  (void)state;
  static const char *const names[] = {"llama", "qwen3_moe", "deepseek_v3"};
  for (int n = 0; n < 3; n++) {
    if (!test_takes(n))
      continue;
    const hr_model model = model_named(names[n]);
    double losses[6], without[6], narrow[6];
    hr_executor_options options = options_of(HR_FP32, 3e-3);
    train_model(&model, &options, 6, losses);
    options.no_graph = true;
    train_model(&model, &options, 6, without);
    options.dtype = narrow_dtype();
    train_model(&model, &options, 6, narrow);
    for (int i = 0; i < 6; i++) {
      const bool falls = i == 0 || (losses[i] < losses[i - 1] && narrow[i] < narrow[i - 1]);
      if (!(losses[i] == without[i] && fabs(losses[i] - narrow[i]) < 0.05 * losses[i] && falls))
        fail_msg("%s: step %d has the loss %g, without a graph %g, in 16 bits %g", names[n], i, losses[i], without[i],
                 narrow[i]);
    }
  }
}

/* In all families, whose layers differ. */
static void layers_that_are_computed_again_give_the_same_losses(void **state)
{
  (void)state;
  for (int f = 0; f < (int)(sizeof families / sizeof *families); f++) {
    const hr_model model = model_of(families[f].name, families[f].config);
    hr_executor_options options = options_of(HR_FP32, 3e-3);
    double losses[2][3];
    for (int again = 0; again < 2 && test_takes(f); again++) {
      options.recompute = again ? HR_RECOMPUTE_FULL : HR_RECOMPUTE_NONE;
      hr_executor *x = open_model(&model, &options);
      for (int i = 0; i < 3; i++)
        losses[again][i] = train(x);
      hr_executor_close(x);
    }
    for (int i = 0; i < 3 && test_takes(f); i++)
      if (!(fabs(losses[0][i] - losses[1][i]) <= 1e-5))
        fail_msg("%s: the loss of step %d is %.9g, and %.9g computed again", families[f].name, i, losses[0][i],
                 losses[1][i]);
  }
}

/* Two microbatches of a sequence each, or a batch of both. */
static void microbatches_are_a_batch_of_all_their_sequences(void **state)
{
  (void)state;
  for (int f = 0; f < (int)(sizeof families / sizeof *families); f++) {
    const hr_model model = model_of(families[f].name, families[f].config);
    const hr_executor_options options = options_of(HR_FP32, 3e-3);
    hr_executor *x = test_takes(f) ? open_model(&model, &options) : NULL;
    float losses[4][BATCH * TOKENS];
    hr_error error;
    for (int i = 0; i < 4 && x; i++) {
      hr_executor_input input = hr_executor_input_default();
      input.phase = HR_PHASE_TRAIN;
      input.batch = i < 2 ? BATCH : 1, input.microbatches = i < 2 ? 0 : BATCH;
      input.tokens = TOKENS, input.ids = ids;
      if (i == 2)
        assert_ok(hr_executor_load(x, NULL, 1, NULL, NULL, &error), error);
      assert_ok(hr_executor_step(x, &input, losses[i], &error), error);
    }
    for (int i = 0; i < 2 * BATCH * TOKENS && x; i++) {
      const double one = (double)losses[i / (BATCH * TOKENS)][i % (BATCH * TOKENS)];
      const double several = (double)losses[2 + i / (BATCH * TOKENS)][i % (BATCH * TOKENS)];
      if (!(fabs(one - several) <= 1e-4 * (1 + one)))
        fail_msg("%s: the loss of token %d is %g, in microbatches %g", families[f].name, i, one, several);
    }
    hr_executor_close(x);
  }
}

static void only_training_has_microbatches(void **state)
{
  (void)state;
  const hr_model model = first_model();
  const hr_executor_options options = options_of(HR_FP32, 1e-3);
  hr_executor *x = open_model(&model, &options);
  hr_executor_input input = hr_executor_input_default();
  hr_error error;
  input.phase = HR_PHASE_FORWARD;
  input.tokens = TOKENS, input.ids = ids, input.microbatches = 2;
  assert_int_equal(hr_executor_step(x, &input, NULL, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "microbatches"));
  input.phase = HR_PHASE_TRAIN, input.microbatches = -1;
  assert_int_equal(hr_executor_step(x, &input, NULL, &error), HR_ERROR_INVALID);
  int32_t wrong[2 * TOKENS] = {[TOKENS] = VOCABULARY}; /* of the second microbatch */
  input.ids = wrong, input.microbatches = 2;
  assert_int_equal(hr_executor_step(x, &input, NULL, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "ids[6]"));
  hr_executor_close(x);
}

/* A step of AdamW moves weights by the rate at most, and 16-bit weights keep what is smaller than their rounding in
 * their copy: steps of 2^-12 that go one way move a weight of 1 by 2^-8 after eight of them. */
static void narrow_weights_keep_small_steps(void **state)
{
  (void)state;
  const hr_model model = first_model();
  const hr_executor_options options = options_of(HR_BF16, 0x1p-12);
  if (narrow_dtype() != HR_BF16)
    skip();
  hr_executor *x = open_model(&model, &options);
  hr_error error;
  uint16_t before[32], after[32];
  train(x);
  const hr_buffer *norm = x->weights.of[HR_WEIGHT_ROLE_COUNT + HR_WEIGHT_ATTENTION_NORM];
  assert_ok(hr_buffer_read(norm, before, sizeof before, &error), error);
  for (int i = 0; i < 31; i++)
    train(x);
  assert_ok(hr_buffer_read(norm, after, sizeof after, &error), error);
  int moved = 0;
  for (int i = 0; i < 32; i++)
    moved += before[i] != after[i];
  assert_true(moved > 8);
  hr_executor_close(x);
}

/* Gradients that are clipped to nothing leave decay alone: weights shrink by its share. */
static void decay_and_clipping_reach_the_optimizer(void **state)
{
  (void)state;
  const hr_model model = first_model();
  hr_executor_options options = options_of(HR_FP32, 1e-2);
  options.weight_decay = 0.5;
  options.beta1 = 0, options.beta2 = 0;
  options.max_norm = 1e-12; /* far below the epsilon of the optimizer */
  hr_executor *x = open_model(&model, &options);
  hr_error error;
  float before[32], after[32];
  assert_ok(hr_executor_load(x, NULL, 1, NULL, NULL, &error), error);
  const hr_buffer *query = x->weights.of[HR_WEIGHT_ROLE_COUNT + HR_WEIGHT_Q];
  assert_ok(hr_buffer_read(query, before, sizeof before, &error), error);
  train(x);
  assert_ok(hr_buffer_read(query, after, sizeof after, &error), error);
  for (int i = 0; i < 32; i++)
    assert_true(fabsf(after[i] - before[i] * 0.995f) <= 2e-6f + 1e-6f * fabsf(before[i]));
  hr_executor_close(x);
}

/* Loading begins anew: the same losses from the same weights. */
static void loading_forgets_the_steps_before(void **state)
{
  (void)state;
  const hr_model model = first_model();
  const hr_executor_options options = options_of(narrow_dtype(), 3e-3);
  hr_executor *x = open_model(&model, &options);
  hr_error error;
  const double first = train(x), second = train(x);
  assert_true(first != second);
  assert_ok(hr_executor_load(x, NULL, 1, NULL, NULL, &error), error);
  assert_true(train(x) == first && train(x) == second);
  hr_executor_close(x);
}

/* ---- what else an executor that trains does ---- */

/* Each operator of the list has launches. */
static void the_times_of_all_operators_are_found(void **state)
{
  (void)state;
  static const char *const names[] = {"llama", "qwen2_moe", "deepseek_v3"};
  for (int n = 0; n < 3; n++) {
    const hr_model model = model_named(names[n]);
    const hr_executor_options options = options_of(HR_FP32, 1e-3);
    hr_executor *x = open_model(&model, &options);
    double times_ns[HR_OPERATORS_MAX] = {0};
    hr_error error;
    train(x);
    const hr_status status = hr_executor_time_operators(x, times_ns, &error);
    const hr_operators *list = hr_executor_operators(x);
    assert_ok(status, error);
    for (size_t i = 0; i < list->count; i++) {
      char name[48];
      hr_operator_name(&list->items[i], name, sizeof name);
      if (!(times_ns[i] > 0))
        fail_msg("%s: %s takes no time", names[n], name);
    }
    hr_executor_close(x);
  }
}

static void an_executor_runs_what_it_was_opened_for(void **state)
{
  (void)state;
  const hr_model model = first_model();
  hr_executor_options options = options_of(HR_FP32, 1e-3);
  hr_executor *x = open_model(&model, &options);
  hr_executor_input input = hr_executor_input_default();
  hr_error error;
  float logits[TOKENS * VOCABULARY];
  input.tokens = TOKENS, input.ids = ids;
  input.phase = HR_PHASE_FORWARD;
  assert_ok(hr_executor_step(x, &input, logits, &error), error);
  for (int phase = HR_PHASE_FORWARD; phase <= HR_PHASE_DECODE; phase++) {
    input.phase = (hr_phase)phase;
    const bool runs = phase == HR_PHASE_FORWARD || phase == HR_PHASE_TRAIN;
    assert_int_equal(hr_executor_step(x, &input, NULL, &error), runs ? HR_OK : HR_ERROR_UNSUPPORTED);
  }
  assert_non_null(strstr(error.message, "phase"));
  input.phase = HR_PHASE_TRAIN, input.tokens = 1;
  assert_int_equal(hr_executor_step(x, &input, NULL, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_executor_truncate(x, 0, 0, &error), HR_ERROR_UNSUPPORTED);
  hr_executor_close(x);
  options.dtype = HR_FP16;
  assert_int_equal(hr_executor_open(device, &model, &options, &x, &error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "dtype"));
  options = options_of(HR_FP32, (double)NAN);
  assert_int_equal(hr_executor_open(device, &model, &options, &x, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "learning_rate"));
}

static void narrow_weights_are_not_trained(void **state)
{
  (void)state;
  hr_model model = first_model();
  const hr_executor_options options = options_of(HR_FP32, 1e-3);
  hr_executor *x = NULL;
  hr_error error;
  assert_ok(hr_model_set_weights(&model, "q8_0", &error), error);
  assert_int_equal(hr_executor_open(device, &model, &options, &x, &error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "q8_0"));
}

/* AdamW would decay it, too. */
static void a_bias_that_only_chooses_experts_does_not_decay(void **state)
{
  (void)state;
  hr_model model = first_model();
  hr_executor_options options = options_of(HR_FP32, 1e-3);
  hr_executor *x = NULL;
  hr_error error;
  options.weight_decay = 0.1;
  model.numerics.router.bias_chooses = true;
  assert_int_equal(hr_executor_open(device, &model, &options, &x, &error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "weight_decay"));
}

static void models_without_gradients_are_refused_by_name(void **state)
{
  (void)state;
  static const struct {
    const char *config, *word;
  } cases[] = {{"{\"model_type\":\"gpt_oss\"," LLAMA ",\"head_dim\":8,\"num_local_experts\":4,"
                "\"num_experts_per_tok\":2,\"sliding_window\":8}",
                "attention with sinks"},
               {"{\"model_type\":\"llama4_text\"," LLAMA ",\"head_dim\":8,\"num_local_experts\":4,"
                "\"num_experts_per_tok\":1,\"attention_chunk_size\":16,\"intermediate_size_mlp\":48,"
                "\"interleave_moe_layer_step\":1}",
                "experts with weighted inputs"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const hr_model model = model_of("refused", cases[i].config);
    const hr_executor_options options = options_of(HR_FP32, 1e-3);
    hr_executor *x = NULL;
    hr_error error;
    assert_int_equal(hr_executor_open(device, &model, &options, &x, &error), HR_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, cases[i].word));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_those_of_finite_differences),
      cmocka_unit_test(steps_go_down_and_are_the_same_recorded_or_not),
      cmocka_unit_test(layers_that_are_computed_again_give_the_same_losses),
      cmocka_unit_test(microbatches_are_a_batch_of_all_their_sequences),
      cmocka_unit_test(only_training_has_microbatches),
      cmocka_unit_test(narrow_weights_keep_small_steps),
      cmocka_unit_test(decay_and_clipping_reach_the_optimizer),
      cmocka_unit_test(loading_forgets_the_steps_before),
      cmocka_unit_test(the_times_of_all_operators_are_found),
      cmocka_unit_test(an_executor_runs_what_it_was_opened_for),
      cmocka_unit_test(narrow_weights_are_not_trained),
      cmocka_unit_test(a_bias_that_only_chooses_experts_does_not_decay),
      cmocka_unit_test(models_without_gradients_are_refused_by_name),
  };
  hr_error error;
  if (hr_device_open(test_asks_for("gpu") ? "cuda:0" : "cpu", 0, &device, &error) != HR_OK)
    return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  hr_device_close(device);
  return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Models in pipeline stages: the logits and losses of one device, with microbatches; refusals; differences. */
#include "ranks.h"

#include "run/program.h"
#include "schedule/pipeline.h"

#include <math.h>

#define VOCABULARY 61
#define SEQUENCES 6
#define TOKENS 18
#define MORE 2 /* tokens of a decode step */
#define STEPS 3
#define LOSSES (STEPS * SEQUENCES * TOKENS)

#define SIZES "\"hidden_size\":32,\"num_attention_heads\":4,\"vocab_size\":61,\"max_position_embeddings\":64,"
#define LLAMA SIZES "\"num_key_value_heads\":2,\"intermediate_size\":48,"

/* Layers that divide by the stages and that do not, of one kind and of several, with a tied table, positions and norms
 * before the layers. */
static const struct {
  const char *name, *config;
  int64_t stages, microbatches;
  bool trains;
} models[] = {
    {"llama", "{\"model_type\":\"llama\"," LLAMA "\"num_hidden_layers\":4}", 2, 3, true},
    {"llama, five layers", "{\"model_type\":\"llama\"," LLAMA "\"num_hidden_layers\":5}", 4, 6, true},
    {"llama, one microbatch", "{\"model_type\":\"llama\"," LLAMA "\"num_hidden_layers\":3}", 3, 1, true},
    {"qwen3, tied", "{\"model_type\":\"qwen3\"," LLAMA "\"num_hidden_layers\":3,\"tie_word_embeddings\":true}", 2, 2,
     true},
    {"tied, three stages", "{\"model_type\":\"llama\"," LLAMA "\"num_hidden_layers\":3,\"tie_word_embeddings\":true}",
     3, 6, true},
    {"gpt2, learned positions",
     "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":3,\"n_head\":4,\"vocab_size\":61,\"n_positions\":64}", 2, 3,
     true},
    {"bloom, a norm before the layers, ALiBi",
     "{\"model_type\":\"bloom\",\"hidden_size\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":61}", 2, 2, true},
    {"opt, projections",
     "{\"model_type\":\"opt\",\"hidden_size\":32,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"ffn_dim\":48,"
     "\"vocab_size\":61,\"max_position_embeddings\":64,\"word_embed_proj_dim\":16}",
     3, 2, true},
    {"gptj, parallel, a bias of the logits",
     "{\"model_type\":\"gptj\",\"n_embd\":32,\"n_layer\":2,\"n_head\":2,\"rotary_dim\":8,\"vocab_size\":61,"
     "\"n_positions\":64}",
     2, 3, true},
    {"gemma2, two kinds of layers, four norms",
     "{\"model_type\":\"gemma2\"," LLAMA "\"num_hidden_layers\":4,\"head_dim\":8,\"sliding_window\":4,"
     "\"query_pre_attn_scalar\":8,\"hidden_activation\":\"gelu_pytorch_tanh\"}",
     3, 2, true},
    {"mixtral",
     "{\"model_type\":\"mixtral\"," LLAMA "\"num_hidden_layers\":3,\"num_local_experts\":4,\"num_experts_per_tok\":2}",
     2, 3, true},
    {"deepseek_v2, latent, a dense layer first",
     "{\"model_type\":\"deepseek_v2\"," SIZES "\"num_hidden_layers\":3,\"num_key_value_heads\":4,\"q_lora_rank\":16,"
     "\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":8,\"intermediate_size\":48,"
     "\"moe_intermediate_size\":16,\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"n_shared_experts\":1,"
     "\"first_k_dense_replace\":1,\"n_group\":1,\"topk_group\":1,\"topk_method\":\"greedy\"}",
     2, 2, true},
    {"llama4, chunks",
     "{\"model_type\":\"llama4_text\"," SIZES "\"num_hidden_layers\":4,\"num_key_value_heads\":2,\"head_dim\":8,"
     "\"intermediate_size\":16,\"intermediate_size_mlp\":48,\"num_local_experts\":4,\"num_experts_per_tok\":1,"
     "\"interleave_moe_layer_step\":2,\"attention_chunk_size\":16,\"no_rope_layers\":[1,1,1,0],"
     "\"use_qk_norm\":false,\"attn_temperature_tuning\":false}",
     2, 3, false},
};

/* ---- ranks ---- */

typedef struct rank_of_model {
  test_rank at;
  const hr_model *model;
  hr_executor_options options;
  int64_t microbatches; /* that the sequences are divided into */
  const char *weights;
  int64_t bytes, layers;
  float passed[SEQUENCES * TOKENS * VOCABULARY], prefilled[SEQUENCES * VOCABULARY];
  float decoded[SEQUENCES * MORE * VOCABULARY];
  int32_t largest[SEQUENCES * MORE];
  float losses[LOSSES];
} rank_of_model;

static hr_executor_input input_of(const rank_of_model *r, hr_phase phase, int64_t tokens, const int32_t *ids)
{
  hr_executor_input input = hr_executor_input_default();
  const bool divides = r->at.communicator || phase == HR_PHASE_TRAIN;
  input.phase = phase;
  input.microbatches = divides ? r->microbatches : 1;
  input.batch = SEQUENCES / input.microbatches;
  input.tokens = tokens;
  input.ids = ids;
  return input;
}

static void make_ids(int32_t ids[SEQUENCES * TOKENS])
{
  for (int i = 0; i < SEQUENCES * TOKENS; i++)
    ids[i] = (17 * i + i * i / 3) % VOCABULARY;
}

/* A stage times what it has, and the messages. */
static hr_status time_operators(hr_executor *x, rank_of_model *r)
{
  double times_ns[HR_OPERATORS_MAX] = {0};
  const hr_operators *list = hr_executor_operators(x);
  HR_TRY(hr_executor_time_operators(x, times_ns, &r->at.error));
  for (size_t i = 0; i < list->count; i++) {
    const hr_operator_id id = list->items[i].id;
    if (id == HR_OP_EMBEDDING)
      assert_int_equal(times_ns[i] > 0, x->stage == 0);
    if (id == HR_OP_LOGIT)
      assert_int_equal(times_ns[i] > 0, hr_run_is_last(x));
    if (id == HR_OP_PIPELINE_SEND)
      assert_true(times_ns[i] > 0);
  }
  return HR_OK;
}

/* Slots in another order; a step runs three times, so that the third replays the second. */
static hr_status run_phases(hr_executor *x, rank_of_model *r)
{
  static const int64_t slots[SEQUENCES] = {4, 0, 5, 1, 3, 2};
  int32_t ids[SEQUENCES * TOKENS];
  make_ids(ids);
  hr_executor_input input = input_of(r, HR_PHASE_FORWARD, TOKENS, ids);
  HR_TRY(hr_executor_step(x, &input, r->passed, &r->at.error));
  HR_TRY(time_operators(x, r));
  input = input_of(r, HR_PHASE_PREFILL, TOKENS, ids);
  input.slots = slots;
  for (int i = 0; i < 3; i++)
    HR_TRY(hr_executor_step(x, &input, r->prefilled, &r->at.error));
  input = input_of(r, HR_PHASE_DECODE, 1, ids + 3);
  input.slots = slots;
  for (int i = 0; i < 3; i++)
    HR_TRY(hr_executor_step(x, &input, NULL, &r->at.error));
  input = input_of(r, HR_PHASE_DECODE, MORE, ids + 7);
  input.slots = slots;
  HR_TRY(hr_executor_step(x, &input, r->decoded, &r->at.error));
  HR_TRY(hr_executor_largest(x, r->largest, &r->at.error));
  assert_int_equal(hr_executor_length(x, 4), TOKENS + 3 + MORE);
  return HR_OK;
}

static hr_status train(hr_executor *x, rank_of_model *r)
{
  int32_t ids[SEQUENCES * TOKENS];
  make_ids(ids);
  const hr_executor_input input = input_of(r, HR_PHASE_TRAIN, TOKENS, ids);
  for (int i = 0; i < STEPS; i++)
    HR_TRY(hr_executor_step(x, &input, r->losses + i * SEQUENCES * TOKENS, &r->at.error));
  return HR_OK;
}

static hr_status run_model(void *rank)
{
  rank_of_model *r = rank;
  hr_executor *x = NULL;
  r->options.stages = r->at.communicator;
  HR_TRY(hr_executor_open(r->at.device, r->model, &r->options, &x, &r->at.error));
  r->bytes = hr_executor_bytes(x);
  r->layers = x->layers;
  hr_status status = hr_executor_load(x, r->weights, 3, NULL, NULL, &r->at.error);
  if (status == HR_OK)
    status = r->options.trains ? train(x, r) : run_phases(x, r);
  hr_executor_close(x);
  return status;
}

static void run_ranks(const rank_of_model *as, int64_t count, rank_of_model *ranks)
{
  for (int64_t i = 0; i < count; i++)
    ranks[i] = *as;
  test_run_ranks(ranks, sizeof *ranks, count, run_model);
}

static rank_of_model *rank_of(const hr_model *model, int64_t microbatches, bool trains)
{
  static rank_of_model r;
  memset(&r, 0, sizeof r);
  r.model = model;
  r.microbatches = microbatches;
  r.options = hr_executor_options_default();
  r.options.tokens = 64;
  r.options.slots = SEQUENCES;
  r.options.trains = trains;
  r.options.learning_rate = 3e-3;
  return &r;
}

static void assert_near(const char *name, const char *what, const float *found, const float *expected, int count)
{
  float most = 0;
  for (int i = 0; i < count; i++)
    most = fmaxf(most, fabsf(expected[i]));
  assert_true(most > 0);
  for (int i = 0; i < count; i++) {
    if (!(fabsf(found[i] - expected[i]) <= 1e-5f * most))
      fail_msg("%s, %s: result %d is %g, expected %g", name, what, i, (double)found[i], (double)expected[i]);
  }
}

static int64_t stages_of(size_t m)
{
  const int64_t most = test_ranks();
  return models[m].stages < most ? models[m].stages : most;
}

static void check_logits(const char *name, const rank_of_model *as, int64_t stages)
{
  static rank_of_model one, ranks[TEST_RANKS_MAX];
  int64_t layers = 0;
  run_ranks(as, 1, &one);
  assert_ok(one.at.status, one.at.error);
  run_ranks(as, stages, ranks);
  for (int64_t r = 0; r < stages; r++) {
    assert_ok(ranks[r].at.status, ranks[r].at.error);
    assert_near(name, "one pass", ranks[r].passed, one.passed, SEQUENCES * TOKENS * VOCABULARY);
    assert_near(name, "prefill", ranks[r].prefilled, one.prefilled, SEQUENCES * VOCABULARY);
    assert_near(name, "decode", ranks[r].decoded, one.decoded, SEQUENCES * MORE * VOCABULARY);
    assert_memory_equal(ranks[r].largest, one.largest, sizeof one.largest);
    assert_true(ranks[r].bytes < one.bytes);
    layers += ranks[r].layers;
  }
  assert_int_equal(layers, one.layers);
}

static void stages_have_the_logits_of_one_device(void **state)
{
  (void)state;
  if (test_ranks() < 2)
    skip();
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    if (!test_takes((int)m))
      continue;
    const hr_model model = test_model(models[m].name, models[m].config);
    check_logits(models[m].name, rank_of(&model, models[m].microbatches, false), stages_of(m));
  }
}

static void stages_have_weights_in_q8_0(void **state)
{
  (void)state;
  hr_error error;
  if (test_asks_for("gpu"))
    skip();
  for (size_t m = 0; m < 4; m += 3) { /* of a model whose table is tied, too */
    hr_model model = test_model(models[m].name, models[m].config);
    assert_ok(hr_model_set_weights(&model, "q8_0", &error), error);
    check_logits("q8_0", rank_of(&model, models[m].microbatches, false), 2);
  }
}

static void check_losses(const char *name, const rank_of_model *as, int64_t stages)
{
  static rank_of_model one, ranks[TEST_RANKS_MAX];
  run_ranks(as, 1, &one);
  assert_ok(one.at.status, one.at.error);
  run_ranks(as, stages, ranks);
  for (int64_t r = 0; r < stages; r++) {
    assert_ok(ranks[r].at.status, ranks[r].at.error);
    assert_near(name, "losses", ranks[r].losses, one.losses, LOSSES);
    assert_memory_equal(ranks[r].losses, ranks[0].losses, sizeof ranks[r].losses);
  }
  assert_true(fabsf(one.losses[0] - one.losses[LOSSES - SEQUENCES * TOKENS]) > 0.01f); /* the weights have moved */
}

static void stages_train_as_one_device(void **state)
{
  (void)state;
  if (test_ranks() < 2)
    skip();
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    if (!test_takes((int)m) || !models[m].trains)
      continue;
    const hr_model model = test_model(models[m].name, models[m].config);
    rank_of_model *as = rank_of(&model, models[m].microbatches, true);
    check_losses(models[m].name, as, stages_of(m));
    as->options.recompute = HR_RECOMPUTE_FULL;
    as->options.weight_decay = 0.1;
    if (m < 4)
      check_losses(models[m].name, as, 2);
  }
}

/* ---- the order ---- */

static void stages_take_turns(void **state)
{
  (void)state;
  hr_stage_turn forward[3] = {{0}}, both[4] = {{0}};
  int rounds = 0;
  while (hr_stages_next(forward, 3, 5, false))
    rounds++;
  assert_int_equal(rounds, 5 + 3 - 1);
  for (rounds = 0; hr_stages_next(both, 4, 8, true); rounds++) {
    for (int s = 0; s < 4; s++)
      assert_true(both[s].forward - both[s].backward <= 4 - s);
  }
  assert_int_equal(rounds, 2 * (8 + 4 - 1)); /* Narayanan et al. 2021, figure 3: (m + p − 1) of each pass */
  for (int s = 0; s < 4; s++)
    assert_true(both[s].forward == 8 && both[s].backward == 8);
}

/* ---- refusals ---- */

static void expect(const rank_of_model *as, const rank_of_model *others, int64_t count, hr_status status,
                   const char *line)
{
  static rank_of_model ranks[TEST_RANKS_MAX];
  for (int64_t i = 0; i < count; i++)
    ranks[i] = i > 0 ? *others : *as;
  test_run_ranks(ranks, sizeof *ranks, count, run_model);
  int64_t found = -1;
  for (int64_t i = 0; i < count; i++)
    found = ranks[i].at.status == status ? i : found;
  if (found < 0 || !strstr(ranks[found].at.error.message, line))
    fail_msg("'%s' does not say '%s'", ranks[found < 0 ? 0 : found].at.error.message, line);
}

static void what_stages_cannot_do_is_refused(void **state)
{
  (void)state;
  if (test_ranks() < 4)
    skip();
  const hr_model four = test_model(models[0].name, models[0].config);
  const hr_model three = test_model(models[2].name, models[2].config);
  rank_of_model *as = rank_of(&three, 1, false);
  expect(as, as, 4, HR_ERROR_INVALID, "stages: 4 need as many layers, the model has 3");
  as = rank_of(&four, 1, true);
  as->options.max_norm = 1;
  expect(as, as, 2, HR_ERROR_UNSUPPORTED, "clipped gradients of several stages cannot be run yet");
}

static void stages_that_differ_are_named(void **state)
{
  (void)state;
  static rank_of_model other;
  if (test_ranks() < 2)
    skip();
  const hr_model model = test_model(models[0].name, models[0].config);
  rank_of_model *as = rank_of(&model, 2, false);
  other = *as;
  other.options.slots = SEQUENCES + 1;
  expect(as, &other, 2, HR_ERROR_INVALID, "slots: stage 1 has 7, stage 0 has 6");
  other = *as;
  other.microbatches = 3;
  expect(as, &other, 2, HR_ERROR_INVALID, "batch: stage 1 has 2, stage 0 has 3");
  other = *as;
  other.weights = "missing";
  expect(as, &other, 2, HR_ERROR_INVALID, "random weights: stage 1 has 0, stage 0 has 1");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stages_have_the_logits_of_one_device), cmocka_unit_test(stages_have_weights_in_q8_0),
      cmocka_unit_test(stages_train_as_one_device),           cmocka_unit_test(stages_take_turns),
      cmocka_unit_test(what_stages_cannot_do_is_refused),     cmocka_unit_test(stages_that_differ_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

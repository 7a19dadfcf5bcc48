/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose layers several ranks share, and train: the losses of one device over several steps; refusals. */
#include "ranks.h"

#include <math.h>

#define TOKENS 6
#define BATCH 2
#define STEPS 4
#define LOSSES (STEPS * BATCH * TOKENS)

#define SIZES "\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":64,"
#define LLAMA SIZES "\"num_key_value_heads\":2,\"intermediate_size\":48,\"max_position_embeddings\":64"

/* Each way in which layers are shared: heads, columns and rows with and without biases, one or two norms before a
 * parallel block, norms behind a sum, norms of heads, heads that several ranks have, positions, a tied table. */
static const struct {
  const char *name, *config;
  int64_t ranks;
} models[] = {
    {"llama", "{\"model_type\":\"llama\"," LLAMA "}", 2},
    {"tied", "{\"model_type\":\"llama\"," LLAMA ",\"tie_word_embeddings\":true}", 2},
    {"qwen2, biases", "{\"model_type\":\"qwen2\"," LLAMA "}", 2},
    {"gpt2, learned positions",
     "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":64,\"n_positions\":64}", 4},
    {"gpt_neox, parallel",
     "{\"model_type\":\"gpt_neox\"," SIZES "\"intermediate_size\":48,\"max_position_embeddings\":64}", 4},
    {"gptj, parallel, one norm",
     "{\"model_type\":\"gptj\",\"n_embd\":32,\"n_layer\":2,\"n_head\":2,\"rotary_dim\":8,\"vocab_size\":64,"
     "\"n_positions\":64}",
     2},
    {"gemma2, four norms",
     "{\"model_type\":\"gemma2\"," LLAMA ",\"head_dim\":8,\"sliding_window\":4,\"query_pre_attn_scalar\":8,"
     "\"attn_logit_softcapping\":5.0,\"final_logit_softcapping\":3.0}",
     2},
    {"granite, factors",
     "{\"model_type\":\"granite\"," LLAMA ",\"embedding_multiplier\":3.0,\"residual_multiplier\":0.5,"
     "\"logits_scaling\":2.0,\"attention_multiplier\":0.2}",
     2},
    {"gpt2, words for no rank",
     "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":1,\"n_head\":4,\"vocab_size\":57,\"n_positions\":64}", 4},
    {"llama, K and V heads twice", "{\"model_type\":\"llama\"," LLAMA "}", 4},
    {"qwen2, one K and V head with biases",
     "{\"model_type\":\"qwen2\"," SIZES "\"num_key_value_heads\":1,\"intermediate_size\":48,"
     "\"max_position_embeddings\":64}",
     4},
    {"qwen3, norms of heads, K and V heads twice", "{\"model_type\":\"qwen3\"," LLAMA ",\"head_dim\":16}", 4},
    {"stablelm, a norm for each head",
     "{\"model_type\":\"stablelm\"," LLAMA ",\"qk_layernorm\":true,\"use_parallel_residual\":true}", 4},
    {"mixtral", "{\"model_type\":\"mixtral\"," LLAMA ",\"num_local_experts\":4,\"num_experts_per_tok\":2}", 4},
    {"qwen3_moe, weights of no sum 1",
     "{\"model_type\":\"qwen3_moe\"," LLAMA ",\"head_dim\":16,\"num_experts\":8,\"num_experts_per_tok\":3,"
     "\"moe_intermediate_size\":12,\"norm_topk_prob\":false}",
     2},
    {"qwen2_moe, shared experts with a gate",
     "{\"model_type\":\"qwen2_moe\"," LLAMA ",\"num_experts\":4,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":12,\"shared_expert_intermediate_size\":24}",
     2},
    {"glm4_moe, sigmoids, a dense layer",
     "{\"model_type\":\"glm4_moe\"," LLAMA ",\"head_dim\":8,\"n_routed_experts\":4,\"num_experts_per_tok\":2,"
     "\"moe_intermediate_size\":12,\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"n_group\":1,"
     "\"topk_group\":1,\"norm_topk_prob\":true,\"routed_scaling_factor\":1.5}",
     2},
    {"sigma, augmented Q",
     "{\"model_type\":\"sigma\"," SIZES "\"num_key_heads\":1,\"num_value_heads\":2,\"key_head_dim\":4,"
     "\"value_head_dim\":8,\"augmented_q_dim\":20,\"intermediate_size\":48,\"max_position_embeddings\":64}",
     4},
    {"deepseek_v2, latent, shared experts",
     "{\"model_type\":\"deepseek_v2\"," SIZES "\"num_key_value_heads\":4,\"q_lora_rank\":16,\"kv_lora_rank\":16,"
     "\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":8,\"intermediate_size\":48,"
     "\"moe_intermediate_size\":16,\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"n_shared_experts\":1,"
     "\"first_k_dense_replace\":1,\"n_group\":1,\"topk_group\":1,\"topk_method\":\"greedy\","
     "\"max_position_embeddings\":64}",
     4},
    {"opt, projected",
     "{\"model_type\":\"opt\"," SIZES "\"ffn_dim\":48,\"word_embed_proj_dim\":16,\"max_position_embeddings\":64}", 2},
    {"bloom, ALiBi", "{\"model_type\":\"bloom\",\"hidden_size\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":64}", 4},
};

static const int32_t ids[BATCH * TOKENS] = {5, 17, 0, 56, 33, 5, 8, 41, 19, 27, 50, 44};

/* ---- ranks ---- */

typedef struct rank_of_model {
  test_rank at;
  const hr_model *model;
  hr_executor_options options;
  bool microbatches; /* of a sequence each */
  int64_t bytes;
  float losses[LOSSES];
} rank_of_model;

static hr_status train(rank_of_model *r, hr_executor *x)
{
  hr_executor_input input = hr_executor_input_default();
  input.phase = HR_PHASE_TRAIN;
  input.batch = r->microbatches ? 1 : BATCH, input.microbatches = r->microbatches ? BATCH : 1;
  input.tokens = TOKENS, input.ids = ids;
  r->bytes = hr_executor_bytes(x);
  HR_TRY(hr_executor_load(x, NULL, 3, NULL, NULL, &r->at.error));
  for (int i = 0; i < STEPS; i++)
    HR_TRY(hr_executor_step(x, &input, r->losses + i * BATCH * TOKENS, &r->at.error));
  return HR_OK;
}

static hr_status train_model(void *rank)
{
  rank_of_model *r = rank;
  hr_executor *x = NULL;
  r->options.communicator = r->at.communicator;
  HR_TRY(hr_executor_open(r->at.device, r->model, &r->options, &x, &r->at.error));
  const hr_status status = train(r, x);
  hr_executor_close(x);
  return status;
}

static void run_ranks(const rank_of_model *as, int64_t count, rank_of_model *ranks)
{
  for (int64_t i = 0; i < count; i++)
    ranks[i] = *as;
  test_run_ranks(ranks, sizeof *ranks, count, train_model);
}

static rank_of_model rank_that_trains(const hr_model *model)
{
  rank_of_model r = {.model = model, .options = hr_executor_options_default()};
  r.options.tokens = 64;
  r.options.trains = true;
  r.options.learning_rate = 3e-3;
  return r;
}

static void check_losses(const char *name, const rank_of_model *as, int64_t count)
{
  static rank_of_model one, ranks[TEST_RANKS_MAX];
  rank_of_model alone = *as;
  alone.options.expert_parallel = 1;
  run_ranks(&alone, 1, &one);
  assert_ok(one.at.status, one.at.error);
  run_ranks(as, count, ranks);
  for (int64_t r = 0; r < count; r++) {
    assert_ok(ranks[r].at.status, ranks[r].at.error);
    assert_memory_equal(ranks[r].losses, ranks[0].losses, sizeof ranks[r].losses);
    assert_true(ranks[r].bytes < one.bytes);
  }
  for (int i = 0; i < LOSSES; i++) {
    if (!(fabsf(ranks[0].losses[i] - one.losses[i]) <= 2e-5f * (1 + one.losses[i])))
      fail_msg("%s: step %d, token %d has the loss %g, expected %g", name, i / (BATCH * TOKENS), i % (BATCH * TOKENS),
               (double)ranks[0].losses[i], (double)one.losses[i]);
  }
  assert_true(fabsf(one.losses[0] - one.losses[LOSSES - BATCH * TOKENS]) > 0.01f); /* the weights have moved */
}

static void ranks_train_as_one_device(void **state)
{
  (void)state;
  const int64_t most = test_ranks();
  if (most < 2)
    skip();
  for (int m = 0; m < (int)(sizeof models / sizeof *models); m++) {
    if (!test_takes(m))
      continue;
    const hr_model model = test_model(models[m].name, models[m].config);
    rank_of_model as = rank_that_trains(&model);
    const int64_t count = models[m].ranks < most ? models[m].ranks : most;
    check_losses(models[m].name, &as, count);
    as.options.expert_parallel = count;
    if (model.groups[model.group_count - 1].experts.experts > 0)
      check_losses(models[m].name, &as, count);
  }
}

static void layers_may_be_computed_again_and_batches_divided(void **state)
{
  (void)state;
  if (test_ranks() < 2)
    skip();
  static const int of[] = {0, 5, 11, 18};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!test_takes((int64_t)i))
      continue;
    const hr_model model = test_model(models[of[i]].name, models[of[i]].config);
    rank_of_model as = rank_that_trains(&model);
    as.options.recompute = HR_RECOMPUTE_FULL;
    check_losses("computed again", &as, 2);
    as.microbatches = true;
    as.options.recompute = HR_RECOMPUTE_NONE;
    check_losses("microbatches", &as, 2);
  }
}

/* Each rank has its rows of the stream, in two microbatches too, and computes layers again. */
static void rows_between_blocks_are_divided(void **state)
{
  (void)state;
  static const int of[] = {0, 3, 5, 6, 11, 18, 20};
  const int64_t most = test_ranks();
  if (most < 2)
    skip();
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!test_takes((int64_t)i))
      continue;
    const hr_model model = test_model(models[of[i]].name, models[of[i]].config);
    rank_of_model as = rank_that_trains(&model);
    as.options.sequence_parallel = true;
    as.options.max_norm = i % 2 ? 0.3 : 0;
    as.options.recompute = i % 3 == 2 ? HR_RECOMPUTE_FULL : HR_RECOMPUTE_NONE;
    as.microbatches = i == 0;
    check_losses(models[of[i]].name, &as, models[of[i]].ranks < most ? models[of[i]].ranks : most);
  }
}

/* The norm of all gradients is that of one device, where each weight counts once. At 0.3 it clips every step. */
static void gradients_are_clipped_by_the_norm_of_all_ranks(void **state)
{
  (void)state;
  static const int of[] = {1, 3, 9, 10, 11, 12, 15, 18}; /* tied; positions; what several ranks have */
  const int64_t most = test_ranks();
  if (most < 2)
    skip();
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!test_takes((int64_t)i))
      continue;
    const hr_model model = test_model(models[of[i]].name, models[of[i]].config);
    rank_of_model as = rank_that_trains(&model);
    as.options.max_norm = 0.3;
    check_losses("clipped", &as, models[of[i]].ranks < most ? models[of[i]].ranks : most);
  }
}

/* A row of 2^20 logits of all ranks has 4 MiB, of which 3 MiB are gathered at a time, or one row. */
static void logits_of_many_words_are_gathered_in_parts(void **state)
{
  (void)state;
  if (test_asks_for("gpu"))
    skip();
  const hr_model model = test_model("wide", "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_hidden_layers\":1,"
                                            "\"num_attention_heads\":2,\"num_key_value_heads\":2,"
                                            "\"intermediate_size\":16,\"vocab_size\":1048576,"
                                            "\"max_position_embeddings\":64,\"tie_word_embeddings\":true}");
  const rank_of_model as = rank_that_trains(&model);
  check_losses("wide", &as, 2);
}

static void expect_refused(const char *config, int64_t count, const char *line)
{
  static rank_of_model ranks[TEST_RANKS_MAX];
  const hr_model model = test_model("refused", config);
  const rank_of_model as = rank_that_trains(&model);
  run_ranks(&as, count, ranks);
  const rank_of_model *r = &ranks[ranks[0].at.status == HR_ERROR_UNSUPPORTED ? 0 : 1];
  assert_int_equal(r->at.status, HR_ERROR_UNSUPPORTED);
  if (!strstr(r->at.error.message, line))
    fail_msg("'%s' does not say '%s'", r->at.error.message, line);
}

static void what_ranks_cannot_train_is_refused(void **state)
{
  (void)state;
  if (test_ranks() < 4)
    skip();
  expect_refused("{\"model_type\":\"olmo2\"," LLAMA "}", 2,
                 "norms over all heads of several devices cannot be run yet");
  expect_refused("{\"model_type\":\"gpt_oss\"," LLAMA ",\"num_local_experts\":4,\"num_experts_per_tok\":2}", 2,
                 "biases of experts on several devices cannot be trained yet");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_train_as_one_device),
      cmocka_unit_test(layers_may_be_computed_again_and_batches_divided),
      cmocka_unit_test(rows_between_blocks_are_divided),
      cmocka_unit_test(gradients_are_clipped_by_the_norm_of_all_ranks),
      cmocka_unit_test(logits_of_many_words_are_gathered_in_parts),
      cmocka_unit_test(what_ranks_cannot_train_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose layers several ranks share: the logits of one device from the same weights; refusals; failures. */
#include "ranks.h"

#include "run/lower.h"

#include <headroom/experimental/operators.h>

#include <math.h>
#include <stdlib.h>

#define VOCABULARY 61
#define TOKENS 12
#define LONG_TOKENS 300

/* Every kind of weight that is split, and those that are not. */
static const struct {
  const char *name, *config;
  int64_t ranks;
} models[] = {
    {"llama",
     "{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}",
     2},
    {"llama, K and V heads twice",
     "{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":48,\"vocab_size\":61,"
     "\"max_position_embeddings\":64}",
     4},
    {"qwen2, biases",
     "{\"model_type\":\"qwen2\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_value_heads\":1,\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}",
     2},
    {"qwen3, tied",
     "{\"model_type\":\"qwen3\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":48,\"vocab_size\":61,"
     "\"max_position_embeddings\":64,\"tie_word_embeddings\":true}",
     4},
    {"gpt2, learned positions",
     "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":61,"
     "\"n_positions\":64}",
     4},
    {"gpt_neox, parallel",
     "{\"model_type\":\"gpt_neox\",\"hidden_size\":32,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":2,\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}",
     2},
    {"gptj, parallel, one norm",
     "{\"model_type\":\"gptj\",\"n_embd\":32,\"n_layer\":2,\"n_head\":2,\"rotary_dim\":8,"
     "\"vocab_size\":61,\"n_positions\":64}",
     2},
    {"sigma",
     "{\"model_type\":\"sigma\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_heads\":1,\"num_value_heads\":2,\"key_head_dim\":4,\"value_head_dim\":8,"
     "\"augmented_q_dim\":20,\"intermediate_size\":48,\"vocab_size\":61,\"max_position_embeddings\":64}",
     4},
    {"gemma2, four norms",
     "{\"model_type\":\"gemma2\",\"hidden_size\":32,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,\"intermediate_size\":48,"
     "\"vocab_size\":61,\"max_position_embeddings\":64,\"sliding_window\":8,\"query_pre_attn_scalar\":8,"
     "\"hidden_activation\":\"gelu_pytorch_tanh\"}",
     2},
    {"ALiBi", "{\"h\":32,\"a\":4,\"L\":2,\"v\":61,\"s\":64,\"positions\":\"alibi\",\"parallel\":true}", 4},
    {"mixtral",
     "{\"model_type\":\"mixtral\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"intermediate_size\":24,\"vocab_size\":61,\"max_position_embeddings\":64,"
     "\"num_local_experts\":4,\"num_experts_per_tok\":2}",
     4},
    {"deepseek_v2, latent, shared experts",
     "{\"model_type\":\"deepseek_v2\",\"hidden_size\":32,"
     "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"q_lora_rank\":16,"
     "\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":8,"
     "\"intermediate_size\":48,\"moe_intermediate_size\":16,\"n_routed_experts\":4,\"num_experts_per_tok\":2,"
     "\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"n_group\":1,\"topk_group\":1,"
     "\"topk_method\":\"greedy\",\"vocab_size\":61,\"max_position_embeddings\":64}",
     2},
    {"qwen3_moe",
     "{\"model_type\":\"qwen3_moe\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":48,\"moe_intermediate_size\":16,"
     "\"num_experts\":16,\"num_experts_per_tok\":3,\"vocab_size\":61,\"max_position_embeddings\":64}",
     4},
    {"gpt_oss, experts with biases",
     "{\"model_type\":\"gpt_oss\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":16,\"num_local_experts\":4,"
     "\"num_experts_per_tok\":2,\"vocab_size\":61,\"max_position_embeddings\":64,\"sliding_window\":32,"
     "\"layer_types\":[\"sliding_attention\",\"full_attention\"]}",
     2},
    {"llama4, weighted inputs",
     "{\"model_type\":\"llama4_text\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"head_dim\":8,\"intermediate_size\":16,\"intermediate_size_mlp\":48,"
     "\"num_local_experts\":4,\"num_experts_per_tok\":1,\"interleave_moe_layer_step\":2,\"vocab_size\":61,"
     "\"max_position_embeddings\":64,\"attention_chunk_size\":32}",
     2},
};

static const int32_t ids[] = {5, 17, 0, 60, 33, 2, 8, 41, 19, 27, 50, 11};
static const int32_t few_ids[] = {2, 0, 1, 1, 2, 2, 0, 0, 1, 2, 0, 1}; /* of a model that has three */

/* ---- ranks ---- */

typedef struct rank_of_model {
  test_rank at;
  const hr_model *model;
  hr_dtype dtype;
  const char *weights;
  int64_t bytes, experts; /* experts: of hr_executor_options.expert_parallel */
  bool splits_rows;       /* hr_executor_options.sequence_parallel: of a pass and a prefill of TOKENS, */
  bool scatters;          /* whose list has this */
  float passed[TOKENS * VOCABULARY], prefilled[VOCABULARY], decoded[2 * VOCABULARY];
  int32_t largest[TOKENS + 3]; /* ids of these rows */
  int64_t pieces;              /* 0: of few tokens; else of long_pass */
  float long_pass[LONG_TOKENS * VOCABULARY];
  int sums; /* of the prefill behind it, that are begun beside other launches */
} rank_of_model;

static hr_status run(hr_executor *x, hr_phase phase, int64_t tokens, const int32_t *at, float *logits, hr_error *error)
{
  hr_executor_input input = hr_executor_input_default();
  input.phase = phase;
  input.tokens = tokens;
  input.ids = at;
  return hr_executor_step(x, &input, logits, error);
}

static hr_status run_phases(hr_executor *x, rank_of_model *r)
{
  const int32_t *at = r->model->vocabulary < VOCABULARY ? few_ids : ids;
  HR_TRY(hr_executor_load(x, r->weights, 3, NULL, NULL, &r->at.error));
  HR_TRY(run(x, HR_PHASE_FORWARD, TOKENS, at, r->passed, &r->at.error));
  HR_TRY(hr_executor_largest(x, r->largest, &r->at.error));
  if (r->splits_rows) {
    HR_TRY(run(x, HR_PHASE_PREFILL, TOKENS, at, r->prefilled, &r->at.error));
    r->scatters = hr_operators_find(hr_executor_operators(x), HR_OP_MLP_REDUCE_SCATTER, HR_PASS_FORWARD) != NULL;
    return HR_OK;
  }
  HR_TRY(run(x, HR_PHASE_PREFILL, 9, at, r->prefilled, &r->at.error));
  HR_TRY(hr_executor_largest(x, r->largest + TOKENS, &r->at.error));
  HR_TRY(run(x, HR_PHASE_DECODE, 1, at + 9, r->decoded, &r->at.error));
  HR_TRY(run(x, HR_PHASE_DECODE, 2, at + 10, r->decoded, &r->at.error));
  return hr_executor_largest(x, r->largest + TOKENS + 1, &r->at.error);
}

static int sums_beside(const hr_run_program *p)
{
  int sums = 0;
  for (int i = 0; i < p->launch_count; i++)
    sums += p->launches[i].beside > 0 && p->launches[i].run == hr_launch_collective;
  return sums;
}

/* Three runs: the third replays the second; of a share of the cases one pass is enough. */
static hr_status run_long(hr_executor *x, rank_of_model *r)
{
  int32_t at[LONG_TOKENS];
  for (int i = 0; i < LONG_TOKENS; i++)
    at[i] = ids[i % TOKENS] + i % 3;
  HR_TRY(hr_executor_load(x, r->weights, 3, NULL, NULL, &r->at.error));
  for (int i = 0; i < (test_takes(1) ? 3 : 1); i++)
    HR_TRY(run(x, HR_PHASE_FORWARD, LONG_TOKENS, at, r->long_pass, &r->at.error));
  for (int i = 0; i < 3; i++)
    HR_TRY(run(x, HR_PHASE_PREFILL, LONG_TOKENS, at, r->prefilled, &r->at.error));
  r->sums = sums_beside(x->programs[0]);
  return HR_OK;
}

static hr_status run_model(void *rank)
{
  rank_of_model *r = rank;
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x = NULL;
  options.tokens = r->pieces > 0 ? LONG_TOKENS : 64;
  options.pieces = r->pieces;
  options.expert_parallel = r->experts;
  options.sequence_parallel = r->splits_rows;
  options.dtype = r->dtype;
  options.communicator = r->at.communicator;
  HR_TRY(hr_executor_open(r->at.device, r->model, &options, &x, &r->at.error));
  r->bytes = hr_executor_bytes(x);
  const hr_status status = r->pieces > 0 ? run_long(x, r) : run_phases(x, r);
  hr_executor_close(x);
  return status;
}

/* `others`: of the ranks behind the first; NULL: the same model. */
static void run_with(const hr_model *model, const hr_model *others, int64_t count, const rank_of_model *wanted,
                     rank_of_model *ranks)
{
  for (int64_t i = 0; i < count; i++) {
    ranks[i] = *wanted;
    ranks[i].model = i > 0 && others ? others : model;
  }
  test_run_ranks(ranks, sizeof *ranks, count, run_model);
}

static void run_ranks(const hr_model *model, const hr_model *others, int64_t count, hr_dtype dtype,
                      rank_of_model *ranks)
{
  static const rank_of_model none;
  static rank_of_model wanted;
  wanted = none;
  wanted.dtype = dtype;
  run_with(model, others, count, &wanted, ranks);
}

static void run_in_pieces(const hr_model *model, int64_t count, int64_t pieces, rank_of_model *ranks)
{
  static rank_of_model wanted;
  wanted.pieces = pieces;
  wanted.dtype = HR_FP32;
  run_with(model, NULL, count, &wanted, ranks);
}

static void assert_near(const char *name, const char *what, const float *found, const float *expected, int count,
                        float share)
{
  float most = 0;
  for (int i = 0; i < count; i++)
    most = fmaxf(most, fabsf(expected[i]));
  assert_true(most > 0);
  for (int i = 0; i < count; i++) {
    if (!(fabsf(found[i] - expected[i]) <= share * most))
      fail_msg("%s, %s: logit %d is %g, expected %g ± %g", name, what, i, (double)found[i], (double)expected[i],
               (double)(share * most));
  }
}

/* The logits of a row of hr_executor_largest(). */
static const float *logits_of(const rank_of_model *r, int row)
{
  const int64_t columns = r->model->vocabulary;
  if (row < TOKENS)
    return r->passed + row * columns;
  return row == TOKENS ? r->prefilled : r->decoded + (row - TOKENS - 1) * columns;
}

/* The first of the largest logits, as a host finds it in all of them. */
static void assert_largest(const char *name, const rank_of_model *r)
{
  for (int row = 0; row < TOKENS + 3; row++) {
    const float *of = logits_of(r, row);
    int best = 0;
    for (int i = 1; i < r->model->vocabulary; i++)
      best = of[i] > of[best] ? i : best;
    if (r->largest[row] != best)
      fail_msg("%s: the largest logit of row %d is %d, not %d", name, row, best, (int)r->largest[row]);
  }
}

static void compare_ranks(const char *name, const rank_of_model *ranks, int64_t count, const rank_of_model *one)
{
  for (int64_t r = 0; r < count; r++) {
    assert_ok(ranks[r].at.status, ranks[r].at.error);
    assert_near(name, "one pass", ranks[r].passed, one->passed, TOKENS * VOCABULARY, 2e-5f);
    assert_near(name, "prefill", ranks[r].prefilled, one->prefilled, VOCABULARY, 2e-5f);
    assert_near(name, "decode", ranks[r].decoded, one->decoded, 2 * VOCABULARY, 2e-5f);
    assert_memory_equal(ranks[r].decoded, ranks[0].decoded, sizeof ranks[r].decoded);
    assert_largest(name, &ranks[r]);
    assert_memory_equal(ranks[r].largest, one->largest, sizeof one->largest);
    assert_true(ranks[r].bytes < one->bytes);
  }
}

/* Experts are split over the ranks, and then whole on one rank each. */
static void ranks_have_the_logits_of_one(void **state)
{
  (void)state;
  static rank_of_model one, whole, ranks[TEST_RANKS_MAX];
  const int64_t most = test_ranks();
  if (most < 2)
    skip();
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    if (!test_takes((int64_t)i))
      continue;
    const int64_t count = models[i].ranks < most ? models[i].ranks : most;
    const hr_model model = test_model(models[i].name, models[i].config);
    run_ranks(&model, NULL, 1, HR_FP32, &one);
    assert_ok(one.at.status, one.at.error);
    assert_largest(models[i].name, &one);
    run_ranks(&model, NULL, count, HR_FP32, ranks);
    compare_ranks(models[i].name, ranks, count, &one);
    if (model.groups[model.group_count - 1].experts.experts == 0)
      continue;
    whole.dtype = HR_FP32, whole.experts = count;
    run_with(&model, NULL, count, &whole, ranks);
    compare_ranks(models[i].name, ranks, count, &one);
  }
}

/* Between blocks a rank has its rows alone. */
static void ranks_may_divide_the_rows_between_blocks(void **state)
{
  (void)state;
  static rank_of_model one, wanted, ranks[TEST_RANKS_MAX];
  static const int of[] = {0, 4, 6, 8, 9, 10, 11}; /* positions, parallel, four norms, experts, latent */
  const int64_t most = test_ranks();
  if (most < 2)
    skip();
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!test_takes((int64_t)i))
      continue;
    const char *name = models[of[i]].name;
    const int64_t count = models[of[i]].ranks < most ? models[of[i]].ranks : most;
    const hr_model model = test_model(name, models[of[i]].config);
    wanted.dtype = HR_FP32, wanted.splits_rows = true;
    run_with(&model, NULL, 1, &wanted, &one);
    assert_ok(one.at.status, one.at.error);
    run_with(&model, NULL, count, &wanted, ranks);
    for (int64_t r = 0; r < count; r++) {
      assert_ok(ranks[r].at.status, ranks[r].at.error);
      assert_near(name, "one pass", ranks[r].passed, one.passed, TOKENS * VOCABULARY, 2e-5f);
      assert_near(name, "prefill", ranks[r].prefilled, one.prefilled, VOCABULARY, 2e-5f);
      assert_memory_equal(ranks[r].passed, ranks[0].passed, sizeof ranks[r].passed);
      assert_true(ranks[r].scatters);
    }
  }
}

/* Rows are computed in pieces of 256 and of 44. */
static void sums_beside_other_rows_change_nothing(void **state)
{
  (void)state;
  static rank_of_model one, ranks[TEST_RANKS_MAX];
  static const int of[] = {0, 5, 8, 10, 11}; /* llama, parallel, four norms, experts, latent */
  if (test_ranks() < 2)
    skip();
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!test_takes((int64_t)i))
      continue;
    const char *name = models[of[i]].name;
    hr_model model = test_model(name, models[of[i]].config);
    model.max_positions = LONG_TOKENS;
    run_in_pieces(&model, 1, 1, &one);
    run_in_pieces(&model, 2, 3, ranks);
    assert_ok(one.at.status, one.at.error);
    for (int r = 0; r < 2; r++) {
      assert_ok(ranks[r].at.status, ranks[r].at.error);
      assert_true(ranks[r].sums >= 2 * 2); /* two layers, two pieces */
      assert_near(name, "in pieces", ranks[r].long_pass, one.long_pass, LONG_TOKENS * VOCABULARY, 2e-5f);
      assert_near(name, "in pieces again", ranks[r].prefilled, one.prefilled, VOCABULARY, 2e-5f);
    }
  }
}

/* Messages as large as copy engines take, or not divided. */
static void usual_pieces_are_as_messages_are_large(void **state)
{
  (void)state;
  const int64_t mib = 1 << 20;
  assert_int_equal(hr_usual_pieces(mib), 1);
  assert_int_equal(hr_usual_pieces(24 * mib - 1), 1);
  assert_int_equal(hr_usual_pieces(32 * mib), 2);
  assert_int_equal(hr_usual_pieces(64 * mib), 4);
  for (int64_t bytes = 24 * mib; bytes <= 64 * mib; bytes += mib / 2) {
    const int64_t pieces = hr_usual_pieces(bytes);
    assert_true(pieces > 1 && pieces <= 4 && (bytes + pieces - 1) / pieces <= 16 * mib);
  }
  assert_int_equal(hr_usual_pieces(1024 * mib), 4);
}

/* Two ranks have four columns for three logits, the last of them 0: no result, also where all logits are below. */
static void columns_without_a_logit_are_no_largest(void **state)
{
  (void)state;
  static rank_of_model ranks[TEST_RANKS_MAX];
  static const char three[] = "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,"
                              "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":48,"
                              "\"vocab_size\":3,\"max_position_embeddings\":64}";
  int below = 0;
  if (test_ranks() < 2)
    skip();
  const hr_model model = test_model("three", three);
  run_ranks(&model, NULL, 2, HR_FP32, ranks);
  for (int r = 0; r < 2; r++) {
    assert_ok(ranks[r].at.status, ranks[r].at.error);
    assert_largest("three", &ranks[r]);
  }
  for (int row = 0; row < TOKENS + 3; row++) {
    const float *of = logits_of(&ranks[0], row);
    below += of[0] < 0 && of[1] < 0 && of[2] < 0;
  }
  assert_true(below > 0);
}

static void assert_says(const rank_of_model *r, hr_status status, const char *part)
{
  assert_int_equal(r->at.status, status);
  if (!strstr(r->at.error.message, part))
    fail_msg("'%s' does not say '%s'", r->at.error.message, part);
}

static void what_ranks_cannot_share_is_refused(void **state)
{
  (void)state;
  static rank_of_model ranks[TEST_RANKS_MAX];
  const hr_model llama = test_model(models[0].name, models[0].config);
  run_ranks(&llama, NULL, 3, HR_FP32, ranks);
  assert_says(&ranks[0], HR_ERROR_UNSUPPORTED, "4 query heads do not divide by t = 3");
  static rank_of_model experts = {.dtype = HR_FP32, .experts = 3};
  run_with(&llama, NULL, 2, &experts, ranks);
  assert_says(&ranks[0], HR_ERROR_UNSUPPORTED,
              "expert_parallel: 3 devices share experts and 2 the rest of a layer, which cannot be run yet");
  hr_model mixtral = test_model(models[10].name, models[10].config);
  mixtral.groups[0].experts.experts = 5;
  experts.experts = 2;
  run_with(&mixtral, NULL, 2, &experts, ranks);
  assert_says(&ranks[0], HR_ERROR_UNSUPPORTED, "5 experts do not divide by e = 2");
  static rank_of_model rows = {.dtype = HR_FP32, .splits_rows = true};
  const hr_model neox = test_model(models[5].name, models[5].config);
  run_with(&neox, NULL, 2, &rows, ranks);
  assert_says(&ranks[0], HR_ERROR_UNSUPPORTED, "a parallel block with two norms and sequence parallelism");
  rows.experts = 2;
  mixtral.groups[0].experts.experts = 4;
  run_with(&mixtral, NULL, 2, &rows, ranks);
  assert_says(&ranks[0], HR_ERROR_UNSUPPORTED, "whole experts with sequence parallelism cannot be run yet");
  static const char olmo[] = "{\"model_type\":\"olmo2\",\"hidden_size\":32,\"num_hidden_layers\":1,"
                             "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":48,"
                             "\"vocab_size\":61,\"max_position_embeddings\":64}";
  const hr_model full = test_model("olmo2", olmo);
  run_ranks(&full, NULL, 2, HR_FP32, ranks);
  assert_says(&ranks[0], HR_ERROR_UNSUPPORTED, "norms over all heads of several devices cannot be run yet");
}

static void a_rank_that_fails_ends_the_others(void **state)
{
  (void)state;
  static rank_of_model ranks[TEST_RANKS_MAX];
  if (test_ranks() < 2)
    skip();
  const hr_model llama = test_model(models[0].name, models[0].config),
                 gpt2 = test_model(models[4].name, models[4].config);
  static const char wider[] = "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"
                              "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":48,"
                              "\"vocab_size\":61,\"max_position_embeddings\":64}";
  const hr_model other = test_model("wider", wider);
  run_ranks(&llama, &other, 2, HR_FP32, ranks);
  assert_says(&ranks[0], HR_ERROR_INVALID,
              "rank 1 asks for an all_reduce of 768 fp32, rank 0 for an all_reduce of 384");
  assert_says(&ranks[1], HR_ERROR_INVALID, "rank 1 asks for an all_reduce of 768 fp32");
  hr_model none = gpt2;
  none.groups[0].attention.q_heads = 3; /* which t = 2 does not divide */
  run_ranks(&llama, &none, 2, HR_FP32, ranks);
  assert_says(&ranks[0], HR_ERROR_UNAVAILABLE, "rank 1 of 2 gave up: ");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_have_the_logits_of_one),
      cmocka_unit_test(sums_beside_other_rows_change_nothing),
      cmocka_unit_test(usual_pieces_are_as_messages_are_large),
      cmocka_unit_test(ranks_may_divide_the_rows_between_blocks),
      cmocka_unit_test(columns_without_a_logit_are_no_largest),
      cmocka_unit_test(what_ranks_cannot_share_is_refused),
      cmocka_unit_test(a_rank_that_fails_ends_the_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

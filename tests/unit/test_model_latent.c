/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head latent attention: parameters, both forms' operators, memory, and what commands make of it. */
#include "advice.h"
#include "models.h"
#include "reading.h"

#include "experiment/operator_problem.h"

#include <headroom/experimental/memory.h>
#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <headroom/search.h>
#include <math.h>

/* The attention of DeepSeek-V3 with the dense network of its first layers in all layers. */
static hr_model deepseek_v3_dense(void)
{
  hr_layer_group layer = {
      .count = 61,
      .norms = 2,
      .latent = {.q_heads = 128, .q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .v_dim = 128},
      .dense = {.width = 18432, .gated = true}};
  return (hr_model){.struct_size = sizeof(hr_model),
                    .name = "v3",
                    .hidden = 7168,
                    .vocabulary = 129280,
                    .activation = "silu",
                    .positions = HR_POSITIONS_ROTARY,
                    .norm = HR_NORM_RMS,
                    .norm_weight = true,
                    .final_norm = true,
                    .group_count = 1,
                    .groups = {layer}};
}

static hr_workload step_of(const hr_model *model, hr_phase phase, hr_attention_form attention, int64_t batch,
                           int64_t tokens)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = phase;
  workload.attention = attention;
  workload.batch = batch;
  workload.sequence = workload.context = tokens;
  return workload;
}

/* Until the next call. */
static const hr_operators *listed(const hr_model *model, const hr_workload *workload)
{
  static hr_operators operators;
  hr_error error;
  assert_ok(hr_operators_list(model, workload, &operators, &error), error);
  return &operators;
}

static const hr_operator *operator_of(const hr_operators *operators, hr_operator_id id)
{
  const hr_operator *op = hr_operators_find(operators, id, HR_PASS_FORWARD);
  if (!op)
    fail_msg("no %s", hr_operator_id_name(id));
  return op;
}

typedef struct expected_gemm {
  hr_operator_id id;
  int64_t m, n, k, batch;
  bool transpose_b;
} expected_gemm;

static void assert_gemms(const hr_operators *operators, const expected_gemm *expected, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const expected_gemm *e = &expected[i];
    const hr_operator *op = operator_of(operators, e->id);
    const hr_gemm *g = &op->gemm;
    if (g->m != e->m || g->n != e->n || g->k != e->k || g->batch != e->batch || g->transpose_b != e->transpose_b)
      fail_msg("%s: (%d, %d, %d) × %d, transposed %d", hr_operator_id_name(e->id), (int)g->m, (int)g->n, (int)g->k,
               (int)g->batch, g->transpose_b);
    assert_int_equal(op->flops, 2 * e->m * e->n * e->k * e->batch);
    assert_int_equal(op->count, 61);
  }
}
#define ASSERT_GEMMS(operators, rows) assert_gemms(operators, rows, sizeof(rows) / sizeof *(rows))

/* ---- configurations ---- */

#define SMALL_WITH(layers)                                                                                    \
  "\"hidden_size\":64,\"num_hidden_layers\":" #layers ",\"num_attention_heads\":4,\"num_key_value_heads\":4," \
  "\"intermediate_size\":160,\"vocab_size\":500,\"max_position_embeddings\":128"
#define SMALL SMALL_WITH(3)
#define FIVE SMALL_WITH(5)
#define EXPERTS "\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":48"
#define RANKS "\"kv_lora_rank\":24,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":8,\"v_head_dim\":20"

/* Counts of transformers 5.23. Cache: 2 bytes of kv_lora_rank + qk_rope_head_dim in each layer. */
static void counts_are_those_of_transformers(void **state)
{
  (void)state;
  const struct {
    const char *fields;
    int64_t parameters, cache_bytes;
  } rows[] = {
      {"\"model_type\":\"minicpm3\"," SMALL, 1473216, 2 * 3 * (256 + 32)},
      {"\"model_type\":\"minicpm3\",\"q_lora_rank\":null,\"attention_bias\":true,\"mlp_bias\":true,"
       "\"tie_word_embeddings\":false," RANKS "," SMALL,
       204200, 2 * 3 * (24 + 8)},
      {"\"model_type\":\"youtu\"," SMALL, 5746368, 2 * 3 * (512 + 64)},
      {"\"model_type\":\"youtu\",\"q_lora_rank\":40,\"attention_bias\":true,\"tie_word_embeddings\":false," RANKS
       "," SMALL,
       205208, 2 * 3 * (24 + 8)},
      {"\"model_type\":\"deepseek_v2\",\"first_k_dense_replace\":1,\"q_lora_rank\":null,\"mlp_bias\":true,"
       "\"attention_bias\":true," RANKS "," EXPERTS "," SMALL,
       327848, 2 * 3 * (24 + 8)},
      {"\"model_type\":\"deepseek_v2\",\"n_shared_experts\":0," RANKS "," EXPERTS "," SMALL, 986120, 2 * 3 * (24 + 8)},
      {"\"model_type\":\"deepseek_v3\",\"n_shared_experts\":3,\"first_k_dense_replace\":2,\"q_lora_rank\":40," RANKS
       "," EXPERTS "," SMALL,
       275968, 2 * 3 * (24 + 8)},
      {"\"model_type\":\"deepseek_v3\",\"n_group\":2,\"topk_group\":1,\"n_routed_experts\":8,"
       "\"num_experts_per_tok\":2," SMALL,
       5778368, 2 * 3 * (512 + 64)},
      {"\"model_type\":\"glm4_moe_lite\",\"q_lora_rank\":40," RANKS "," EXPERTS "," SMALL, 310272, 2 * 3 * (24 + 8)},
      {"\"model_type\":\"glm4_moe_lite\",\"q_lora_rank\":40,\"kv_lora_rank\":24,\"qk_nope_head_dim\":12,"
       "\"v_head_dim\":20,\"head_dim\":8,\"mlp_layer_types\":[\"dense\",\"sparse\",\"dense\"]," EXPERTS "," SMALL,
       257536, 2 * 3 * (24 + 8)},
      {"\"model_type\":\"axk1\",\"first_k_dense_replace\":1,\"moe_layer_freq\":2,\"q_lora_rank\":40," RANKS "," EXPERTS
       "," FIVE,
       404224, 2 * 5 * (24 + 8)},
      {"\"model_type\":\"axk1\",\"q_lora_rank\":40," RANKS "," EXPERTS "," FIVE, 509824, 2 * 5 * (24 + 8)},
      {"\"model_type\":\"axk1\",\"mlp_layer_types\":[\"dense\",\"sparse\",\"dense\",\"dense\",\"sparse\"],"
       "\"q_lora_rank\":40," RANKS "," EXPERTS "," FIVE,
       404224, 2 * 5 * (24 + 8)},
      {"\"model_type\":\"mistral4\",\"q_lora_rank\":40,\"first_k_dense_replace\":1," RANKS "," EXPERTS "," SMALL,
       310272, 2 * 3 * (24 + 8)},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[800];
    hr_memory memory;
    hr_error error;
    snprintf(text, sizeof text, "{%s}", rows[i].fields);
    hr_model model = read_model(text);
    hr_workload workload = hr_workload_default(&model);
    assert_int_equal(read_parameters(text).total, rows[i].parameters);
    assert_ok(hr_memory_estimate(&model, &workload, &memory, &error), error);
    assert_int_equal(memory.kv_cache_bytes_per_token, rows[i].cache_bytes);
  }
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
  (void)state;
  assert_refused(
      "{\"model_type\":\"minicpm3\",\"hidden_size\":66,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
      "\"intermediate_size\":160,\"vocab_size\":500}",
      HR_ERROR_INVALID,
      "config.json: v_head_dim: is missing, and hidden_size, 66, is not a multiple of num_attention_heads, 4");
  assert_refused("{\"model_type\":\"minicpm3\",\"kv_lora_rank\":0," SMALL "}", HR_ERROR_INVALID,
                 "config.json: kv_lora_rank: expected a positive integer, found 0");
  hr_error error;
  hr_model model = deepseek_v3_dense();
  model.groups[0].latent.kv_rank = 0;
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "groups[0]: latent.kv_rank: expected at least 1, found 0");
}

static void heads_of_k_and_v_are_named_where_they_say_nothing(void **state)
{
  (void)state;
  const char *text = "{\"model_type\":\"minicpm3\",\"num_key_value_heads\":2,\"hidden_size\":64,"
                     "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":160,\"vocab_size\":500}";
  assert_non_null(strstr(read_notes(text).text, "num_key_value_heads: 2 is ignored: latent attention has"));
  assert_int_equal(read_model(text).groups[0].latent.q_heads, 4);
}

static void fields_that_are_read_in_two_ways_are_refused(void **state)
{
  (void)state;
  assert_refused("{\"model_type\":\"deepseek_v3\",\"moe_layer_freq\":2," EXPERTS "," SMALL "}", HR_ERROR_UNSUPPORTED,
                 "config.json: moe_layer_freq: 2 means dense layers between those with experts; only 1 is supported");
  assert_refused("{\"model_type\":\"glm4_moe_lite\",\"head_dim\":8,\"qk_rope_head_dim\":16," EXPERTS "," SMALL "}",
                 HR_ERROR_INVALID, "config.json: head_dim: 8 is not qk_rope_head_dim, 16");
  assert_refused("{\"model_type\":\"deepseek_v3\",\"n_routed_experts\":null," SMALL "}", HR_ERROR_UNSUPPORTED,
                 "config.json: n_routed_experts: null, a model without experts, is not supported in this family");
}

/* transformers has no such field in this family. */
static void the_first_layer_is_dense_unless_a_list_says_which(void **state)
{
  (void)state;
  const char *text =
      "{\"model_type\":\"glm4_moe_lite\",\"first_k_dense_replace\":2,\"n_group\":1," EXPERTS "," SMALL "}";
  hr_model model = read_model(text);
  assert_int_equal(model.group_count, 2);
  assert_true(model.groups[0].dense.width == 160 && model.groups[0].count == 1);
  assert_true(model.groups[1].experts.experts == 8 && model.groups[1].count == 2);
  assert_non_null(strstr(read_notes(text).text, "first_k_dense_replace: 2 is ignored, as in transformers"));
}

static void other_mechanisms_beside_latent_attention_are_named(void **state)
{
  (void)state;
  const struct {
    const char *fields, *message;
  } rows[] = {
      {"\"model_type\":\"axk2\",\"index_n_heads\":64", "index_n_heads: 64 means sparse attention indexers"},
      {"\"model_type\":\"axk2\"", "model_type: \"axk2\" means sparse attention indexers"},
      {"\"model_type\":\"deepseek_v3\",\"hc_mult\":4", "hc_mult: 4 means hyper-connections"},
      {"\"model_type\":\"deepseek_v3\",\"index_head_dim\":128", "index_head_dim: 128 means sparse attention indexers"},
      {"\"model_type\":\"longcat_flash\",\"zero_expert_num\":256", "zero_expert_num: 256 means identity experts"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[800], message[200];
    bool by_type = strstr(rows[i].message, "model_type") != NULL; /* without a field that would be named */
    snprintf(text, sizeof text, "{%s,%s" SMALL "}", rows[i].fields, by_type ? "" : EXPERTS ",\"kv_lora_rank\":64,");
    snprintf(message, sizeof message, "config.json: %s, which are not supported for this family (docs/models.md)",
             rows[i].message);
    assert_refused(text, HR_ERROR_UNSUPPORTED, message);
  }
}

static void layers_for_further_tokens_are_named_and_not_counted(void **state)
{
  (void)state;
  const char *with =
      "{\"model_type\":\"deepseek_v3\",\"num_nextn_predict_layers\":2,\"n_group\":1," EXPERTS "," SMALL "}";
  const char *without = "{\"model_type\":\"deepseek_v3\",\"n_group\":1," EXPERTS "," SMALL "}";
  assert_non_null(strstr(read_notes(with).text, "num_nextn_predict_layers: the 2 layers that predict further tokens"));
  assert_null(strstr(read_notes(without).text, "further tokens"));
  assert_int_equal(read_parameters(with).total, read_parameters(without).total);
}

static void a_norm_of_the_experts_sum_runs_in_their_layers(void **state)
{
  (void)state;
  hr_model model = read_model("{\"model_type\":\"axk1\",\"n_group\":1," EXPERTS "," FIVE "}");
  hr_workload workload = step_of(&model, HR_PHASE_PREFILL, HR_ATTENTION_FUSED, 2, 10);
  const hr_operator *norm = operator_of(listed(&model, &workload), HR_OP_MLP_POST_NORM);
  assert_int_equal(norm->count, 4); /* the first layer is dense */
  assert_int_equal(norm->bytes, 2LL * 2 * 20 * 64);
}

static void groups_limit_only_the_method_that_uses_them(void **state)
{
  (void)state;
  const char *greedy = "{\"model_type\":\"deepseek_v2\",\"n_group\":4,\"topk_group\":2," EXPERTS "," SMALL "}";
  const char *limited = "{\"model_type\":\"deepseek_v2\",\"topk_method\":\"group_limited_greedy\",\"n_group\":4,"
                        "\"topk_group\":2," EXPERTS "," SMALL "}";
  assert_int_equal(read_model(greedy).groups[0].experts.groups, 0);
  assert_int_equal(read_model(limited).groups[0].experts.groups, 4);
}

/* ---- an indexer ---- */

#define INDEXED_SIZES                                                                                          \
  "\"hidden_size\":256,\"intermediate_size\":512,\"moe_intermediate_size\":64,\"num_hidden_layers\":5,"        \
  "\"num_attention_heads\":8,\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"n_group\":2,\"topk_group\":1," \
  "\"kv_lora_rank\":64,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,\"v_head_dim\":32,\"vocab_size\":1000," \
  "\"first_k_dense_replace\":2,\"index_topk\":64,\"index_n_heads\":4"
#define INDEXED INDEXED_SIZES ",\"q_lora_rank\":128,\"index_head_dim\":32"

/* The totals are those of transformers 5.17. An indexer has 128·(4·32) + 256·32 + 256·4 and two numbers for each of 32
 * elements of its key. */
static void an_indexer_has_parameters_and_layers_may_share_one(void **state)
{
  (void)state;
  const int64_t own = 128 * 4 * 32 + 256 * 32 + 256 * 4 + 2 * 32, all = 3767296;
  const struct {
    const char *fields;
    int64_t indexers;
  } rows[] = {
      {"\"model_type\":\"deepseek_v32\"", 5},
      {"\"model_type\":\"deepseek_v32\",\"mlp_layer_types\":[\"sparse\",\"sparse\",\"dense\",\"sparse\",\"dense\"]", 5},
      {"\"model_type\":\"glm_moe_dsa\"", 5},
      {"\"model_type\":\"glm_moe_dsa\",\"index_topk_freq\":2", 3}, /* layers 0, 1 and 3 */
      {"\"model_type\":\"glm_moe_dsa\",\"index_topk_freq\":4,\"index_skip_topk_offset\":3", 3},
      {"\"model_type\":\"glm_moe_dsa\",\"index_topk_pattern\":\"FSSFS\"", 2},
      {"\"model_type\":\"glm_moe_dsa\",\"index_topk_freq\":2,"
       "\"indexer_types\":[\"full\",\"shared\",\"shared\",\"shared\",\"shared\"]",
       1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[900];
    snprintf(text, sizeof text, "{%s," INDEXED "}", rows[i].fields);
    assert_int_equal(read_parameters(text).total, all - (5 - rows[i].indexers) * own);
    hr_model model = read_model(text);
    hr_workload workload = step_of(&model, HR_PHASE_DECODE, HR_ATTENTION_FUSED, 1, 256);
    assert_int_equal(operator_of(listed(&model, &workload), HR_OP_INDEX_SCORE)->count, rows[i].indexers);
  }
}

static void an_indexer_that_cannot_be_is_refused(void **state)
{
  (void)state;
#define PATTERN "index_topk_pattern: expected F (an indexer) or S (the choice of a layer before) for each of 5 layers"
#define NO_FIRST "indexer_types: the first layer has no indexer, and none before it to share the keys of"
  const struct {
    const char *fields, *message;
    hr_status status;
  } rows[] = {
      {"\"index_topk_pattern\":\"FS\"", PATTERN, HR_ERROR_INVALID},
      {"\"index_topk_pattern\":\"FXFFF\"", PATTERN, HR_ERROR_INVALID},
      {"\"index_topk_pattern\":\"SFFFF\"", NO_FIRST, HR_ERROR_INVALID},
      {"\"indexer_types\":[\"shared\",\"full\",\"full\",\"full\",\"full\"]", NO_FIRST, HR_ERROR_INVALID},
      {"\"indexer_types\":[\"full\"]", "indexer_types: has 1 kinds for 5 layers", HR_ERROR_INVALID},
      {"\"layer_types\":[\"deepseek_sparse_attention\",\"full_attention\",\"a\",\"a\",\"a\"]",
       "layer_types: has a layer of type \"full_attention\"; only deepseek_sparse_attention is supported for this "
       "family",
       HR_ERROR_UNSUPPORTED},
      {"\"moe_layer_freq\":2", "moe_layer_freq: 2 means dense layers between those with experts; only 1 is supported",
       HR_ERROR_UNSUPPORTED},
      {"\"num_experts\":9", "num_experts: 9 is not n_routed_experts, 8", HR_ERROR_INVALID},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[900], message[300];
    snprintf(text, sizeof text, "{\"model_type\":\"glm_moe_dsa\"," INDEXED ",%s}", rows[i].fields);
    snprintf(message, sizeof message, "config.json: %s", rows[i].message);
    assert_refused(text, rows[i].status, message);
  }
  const hr_model m = read_model("{\"model_type\":\"glm_moe_dsa\",\"num_experts\":8," INDEXED "}");
  assert_int_equal(m.groups[m.group_count - 1].experts.experts, 8);
  assert_refused("{\"model_type\":\"deepseek_v32\",\"index_head_dim\":8," INDEXED_SIZES "}", HR_ERROR_INVALID,
                 "config.json: index_head_dim: 8 is less than qk_rope_head_dim, 16");
  assert_refused("{\"model_type\":\"deepseek_v32\",\"q_lora_rank\":null," INDEXED_SIZES "}", HR_ERROR_INVALID,
                 "config.json: q_lora_rank: null: the indexer's queries are made of Q's rank");
}

/* 8 sequences of 4000 tokens: each head of attention reads 2048 keys, the indexer all of them. */
static void chosen_keys_are_read_and_all_keys_are_scored(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_DECODE, HR_ATTENTION_FUSED, 8, 4000);
  hr_memory before, after;
  hr_error error;
  assert_ok(hr_memory_estimate(&model, &workload, &before, &error), error);
  hr_mixer_latent *m = &model.groups[0].latent;
  m->index_topk = 2048, m->index_heads = 64, m->index_dim = 128;
  assert_ok(hr_memory_estimate(&model, &workload, &after, &error), error);
  assert_int_equal(after.kv_cache_bytes - before.kv_cache_bytes, 61LL * 8 * 4000 * 128 * 2);
  const hr_operators *operators = listed(&model, &workload);
  const expected_gemm rows[] = {
      {HR_OP_INDEX_Q, 8, 64 * 128, 1536, 1, true},
      {HR_OP_INDEX_K, 8, 128, 7168, 1, true},
      {HR_OP_INDEX_WEIGHTS, 8, 64, 7168, 1, true},
  };
  ASSERT_GEMMS(operators, rows);
  const hr_operator *op = operator_of(operators, HR_OP_ATTENTION), *score = operator_of(operators, HR_OP_INDEX_SCORE);
  assert_int_equal(op->attention.kv_len, 2048);
  assert_int_equal(op->flops, 2LL * 8 * 128 * 2048 * (576 + 512));
  assert_int_equal(score->flops, 2LL * 8 * 64 * 4000 * 128);
  assert_int_equal(score->bytes, 2LL * 8 * (64 * 128 + 4000 * 128) + 8LL * 4000 * 4);
  assert_int_equal(operator_of(operators, HR_OP_INDEX_TOP_K)->bytes, 4LL * 8 * (4000 + 2048));
}

/* Token i attends to min(i, 2048) keys. */
static void prefill_attends_to_chosen_keys_and_training_has_no_gradient_of_the_choice(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_mixer_latent *m = &model.groups[0].latent;
  m->index_topk = 2048, m->index_heads = 64, m->index_dim = 128;
  hr_workload workload = step_of(&model, HR_PHASE_PREFILL, HR_ATTENTION_FUSED, 1, 4096);
  const hr_operators *operators = listed(&model, &workload);
  const int64_t seen = 2048LL * 2049 / 2 + 2048LL * 2048, all = 4096LL * 4097 / 2;
  assert_int_equal(operator_of(operators, HR_OP_ATTENTION)->flops, 2 * seen * (192 + 128) * 128);
  assert_int_equal(operator_of(operators, HR_OP_INDEX_SCORE)->flops, 2 * all * 64 * 128);
  workload = step_of(&model, HR_PHASE_TRAIN, HR_ATTENTION_FUSED, 1, 512);
  operators = listed(&model, &workload);
  for (int id = HR_OP_INDEX_Q; id <= HR_OP_INDEX_TOP_K; id++) {
    if (id == HR_OP_INDEX_COMPRESS) /* each token has a key */
      continue;
    operator_of(operators, (hr_operator_id)id);
    assert_null(hr_operators_find(operators, (hr_operator_id)id, HR_PASS_DGRAD));
    assert_null(hr_operators_find(operators, (hr_operator_id)id, HR_PASS_WGRAD));
  }
  workload.context_parallel = 2;
  hr_error error;
  assert_int_equal(hr_workload_check(&workload, &model, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "keys that an indexer chooses and compressed ones are not supported"));
}

/* ---- parameters ---- */

/* A layer's attention: Q 7168·1536 + 1536·128·192, latent 7168·576, K and V 512·128·256, output 128·128·7168. */
static void parameters_are_those_of_each_linear_layer(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_parameters p;
  hr_error error;
  assert_ok(hr_model_parameters(&model, &p, &error), error);
  assert_int_equal(p.attention, 61LL * (11010048 + 37748736 + 4128768 + 16777216 + 117440512));
  assert_int_equal(p.norm, 61 * (2 * 7168 + 1536 + 512) + 7168); /* and of the two ranks */
  model.groups[0].latent.down_bias = model.groups[0].latent.output_bias = true;
  int64_t without = p.attention;
  assert_ok(hr_model_parameters(&model, &p, &error), error);
  assert_int_equal(p.attention - without, 61 * (1536 + 576 + 7168));
  model.groups[0].latent.q_rank = 0; /* Q 7168·128·192 without a bias */
  assert_ok(hr_model_parameters(&model, &p, &error), error);
  assert_int_equal(p.attention - without, 61LL * (176160768 - 11010048 - 37748736 + 576 + 7168));
}

/* ---- the expanded form ---- */

/* b·s = 4096; Q 128·192 = 24576, K and V 128·(128 + 128) = 32768, O 128·128 = 16384 columns. */
static void the_expanded_form_has_k_and_v_of_every_head(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_FORWARD, HR_ATTENTION_UNFUSED, 1, 4096);
  const hr_operators *operators = listed(&model, &workload);
  const expected_gemm rows[] = {
      {HR_OP_Q_DOWN, 4096, 1536, 7168, 1, true},
      {HR_OP_KV_DOWN, 4096, 576, 7168, 1, true},
      {HR_OP_Q_UP, 4096, 24576, 1536, 1, true},
      {HR_OP_KV_UP, 4096, 32768, 512, 1, true},
      {HR_OP_ATTENTION_SCORE, 4096, 4096, 192, 128, true},
      {HR_OP_ATTENTION_OVER_VALUE, 4096, 128, 4096, 128, false},
      {HR_OP_LINEAR_PROJECTION, 4096, 7168, 16384, 1, true},
  };
  ASSERT_GEMMS(operators, rows);
  assert_null(hr_operators_find(operators, HR_OP_Q_ABSORB, HR_PASS_FORWARD));
  assert_null(hr_operators_find(operators, HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD));
  const hr_operator *norm = operator_of(operators, HR_OP_RANK_NORM);
  assert_int_equal(norm[0].bytes, 2LL * 2 * 4096 * 1536); /* of Q's rank, then of the latent */
  assert_int_equal(norm[1].bytes, 2LL * 2 * 4096 * 512);
  assert_int_equal(operator_of(operators, HR_OP_ROTARY)->bytes, 2LL * 2 * 4096 * (128 + 1) * 64);
  assert_int_equal(operator_of(operators, HR_OP_K_ROTARY_COPY)->bytes, 2LL * 4096 * (1 + 128) * 64);
}

/* 4096·4097/2 unmasked entries; Q and K 192, V and O 128 elements of 128 heads and 4096 tokens. */
static void the_fused_expanded_form_is_multi_head_attention_192_128(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_PREFILL, HR_ATTENTION_FUSED, 1, 4096);
  const hr_operator *op = operator_of(listed(&model, &workload), HR_OP_ATTENTION);
  const hr_attention *a = &op->attention;
  assert_true(a->q_heads == 128 && a->k_heads == 128 && a->v_heads == 128 && a->qk_dim == 192 && a->v_dim == 128);
  assert_false(op->latent);
  assert_true(a->scale == 0);
  assert_int_equal(op->flops, 2LL * (4096 * 4097 / 2) * (192 + 128) * 128);
  assert_int_equal(op->bytes, 2LL * 4096 * 128 * (2 * 192 + 2 * 128));
}

static void training_has_gradients_of_the_expanded_form(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_TRAIN, HR_ATTENTION_FUSED, 1, 512);
  const hr_operators *operators = listed(&model, &workload);
  const hr_operator *dgrad = hr_operators_find(operators, HR_OP_KV_UP, HR_PASS_DGRAD);
  assert_non_null(dgrad);
  assert_true(dgrad->gemm.m == 512 && dgrad->gemm.n == 512 && dgrad->gemm.k == 32768);
  assert_non_null(hr_operators_find(operators, HR_OP_KV_UP, HR_PASS_WGRAD));
  /* The copies' gradients are read and their sum is written. */
  assert_int_equal(hr_operators_find(operators, HR_OP_K_ROTARY_COPY, HR_PASS_DGRAD)->bytes, 2LL * 512 * 129 * 64);
}

/* DeepSeek-V2-Lite: 16 heads of 128 + 64 from the hidden size at once. */
static void q_in_one_layer_has_no_rank(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  model.hidden = 2048;
  model.groups[0].latent.q_heads = 16;
  model.groups[0].latent.q_rank = 0;
  hr_workload workload = step_of(&model, HR_PHASE_FORWARD, HR_ATTENTION_UNFUSED, 2, 64);
  const hr_operators *operators = listed(&model, &workload);
  const expected_gemm rows[] = {{HR_OP_Q_TRANSFORM, 128, 3072, 2048, 1, true}};
  ASSERT_GEMMS(operators, rows);
  assert_null(hr_operators_find(operators, HR_OP_Q_DOWN, HR_PASS_FORWARD));
  const hr_operator *norm = operator_of(operators, HR_OP_RANK_NORM);
  assert_int_equal(norm[0].columns, 512);
  assert_int_not_equal(norm[1].id, HR_OP_RANK_NORM);
}

/* ---- the absorbed form ---- */

/* 8 sequences of 1000 tokens. The latent and the rotated part of K are the one K head, of 576; V its first 512. */
static void the_absorbed_form_reads_the_latent_for_all_heads(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_DECODE, HR_ATTENTION_FUSED, 8, 1000);
  const hr_operators *operators = listed(&model, &workload);
  const expected_gemm rows[] = {
      {HR_OP_Q_DOWN, 8, 1536, 7168, 1, true},
      {HR_OP_KV_DOWN, 8, 576, 7168, 1, true},
      {HR_OP_Q_UP, 8, 24576, 1536, 1, true},
      {HR_OP_Q_ABSORB, 8, 512, 128, 128, false}, /* of each head: q · W_uk, stored [128, 512] */
      {HR_OP_O_ABSORB, 8, 128, 512, 128, true},  /* o · W_uvᵀ, stored [128, 512] */
      {HR_OP_LINEAR_PROJECTION, 8, 7168, 16384, 1, true},
  };
  ASSERT_GEMMS(operators, rows);
  assert_null(hr_operators_find(operators, HR_OP_KV_UP, HR_PASS_FORWARD));
  assert_null(hr_operators_find(operators, HR_OP_K_ROTARY_COPY, HR_PASS_FORWARD));
  assert_int_equal(operator_of(operators, HR_OP_Q_ABSORB)->bytes, 2LL * 128 * (8 * 128 + 128 * 512 + 8 * 512));
  const hr_operator *op = operator_of(operators, HR_OP_ATTENTION);
  const hr_attention *a = &op->attention;
  assert_true(op->latent);
  assert_true(a->q_heads == 128 && a->k_heads == 1 && a->v_heads == 1 && a->qk_dim == 576 && a->v_dim == 512);
  assert_true(fabs(a->scale - 1 / sqrt(192)) < 1e-7);
  assert_int_equal(op->flops, 2LL * 8 * 128 * 1000 * (576 + 512));
  assert_int_equal(op->bytes, 2LL * 8 * (128 * (576 + 512) + 1000 * 576)); /* Q and O; K and V once */
}

static void the_unfused_absorbed_form_reads_k_and_then_v(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_DECODE, HR_ATTENTION_UNFUSED, 8, 1000);
  const hr_operators *operators = listed(&model, &workload);
  const expected_gemm rows[] = {
      {HR_OP_ATTENTION_SCORE, 1, 1000, 576, 1024, true},
      {HR_OP_ATTENTION_OVER_VALUE, 1, 512, 1000, 1024, false},
  };
  ASSERT_GEMMS(operators, rows);
  assert_int_equal(operator_of(operators, HR_OP_ATTENTION_SCORE)->bytes,
                   2LL * 8 * (128 * 576 + 1000 * 576 + 128 * 1000));
  assert_int_equal(operator_of(operators, HR_OP_ATTENTION_OVER_VALUE)->bytes,
                   2LL * 8 * (128 * 1000 + 1000 * 512 + 128 * 512));
}

static void layers_with_other_latents_are_listed_beside_each_other(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  model.group_count = 3;
  model.groups[1] = model.groups[2] = model.groups[0];
  model.groups[1].latent.kv_rank = 256;
  model.groups[2].dense.width = 4096;
  model.groups[0].count = 30, model.groups[1].count = 1, model.groups[2].count = 30;
  hr_workload workload = step_of(&model, HR_PHASE_DECODE, HR_ATTENTION_FUSED, 1, 100);
  const hr_operators *operators = listed(&model, &workload);
  const hr_operator *norm = operator_of(operators, HR_OP_RANK_NORM);
  assert_true(norm[0].columns == 1536 && norm[0].count == 61);
  assert_true(norm[1].columns == 512 && norm[1].count == 60);
  assert_true(norm[2].columns == 256 && norm[2].count == 1);
  const hr_operator *attention = operator_of(operators, HR_OP_ATTENTION);
  assert_true(attention[0].attention.v_dim == 512 && attention[0].count == 60);
  assert_true(attention[1].attention.v_dim == 256 && attention[1].count == 1);
}

/* ---- devices and memory ---- */

static void heads_are_split_and_latents_are_not(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_PREFILL, HR_ATTENTION_UNFUSED, 1, 512);
  workload.tensor_parallel = 8;
  const expected_gemm rows[] = {
      {HR_OP_Q_DOWN, 512, 1536, 7168, 1, true},         {HR_OP_KV_DOWN, 512, 576, 7168, 1, true},
      {HR_OP_Q_UP, 512, 3072, 1536, 1, true},           {HR_OP_KV_UP, 512, 4096, 512, 1, true},
      {HR_OP_ATTENTION_SCORE, 512, 512, 192, 16, true}, {HR_OP_LINEAR_PROJECTION, 512, 7168, 2048, 1, true},
  };
  ASSERT_GEMMS(listed(&model, &workload), rows);
  hr_memory memory;
  hr_error error;
  assert_ok(hr_memory_estimate(&model, &workload, &memory, &error), error);
  assert_int_equal(memory.kv_cache_bytes, 512LL * 70272); /* on every device */
}

/* 2·61·576; multi-head 2·61·128·(192 + 128), with 8 K/V heads a sixteenth. */
static void the_cache_is_compared_with_multi_head_and_grouped_query(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_DECODE, HR_ATTENTION_FUSED, 4, 1000);
  hr_latent_cache cache;
  hr_memory memory;
  hr_error error;
  assert_ok(hr_memory_latent_cache(&model, &workload, &cache, &error), error);
  assert_int_equal(cache.bytes_per_token, 70272);
  assert_int_equal(cache.multi_head_bytes_per_token, 4997120);
  assert_int_equal(cache.grouped_query_bytes_per_token, 312320);
  assert_int_equal(cache.kv_heads, 8);
  assert_ok(hr_memory_estimate(&model, &workload, &memory, &error), error);
  assert_int_equal(memory.kv_cache_bytes_per_token, 70272);
  assert_int_equal(memory.kv_cache_bytes, 4 * 1000 * 70272LL);
  model.groups[0].latent.q_heads = 20; /* 8 does not divide 20 */
  assert_ok(hr_memory_latent_cache(&model, &workload, &cache, &error), error);
  assert_int_equal(cache.kv_heads, 10);
  model = llama3_8b();
  assert_ok(hr_memory_latent_cache(&model, &workload, &cache, &error), error);
  assert_int_equal(cache.kv_heads, 0);
  assert_int_equal(cache.multi_head_bytes_per_token, cache.bytes_per_token);
}

/* Per token and layer: norms and inputs 4·7168, both ranks twice 2·(1536 + 512), Q, K, V, O 128·(2·192 + 2·128), the
 * network 3·18432, two bytes each, and 4 bytes of log-sum-exp for 128 heads. */
static void a_training_step_saves_the_expanded_heads(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_TRAIN, HR_ATTENTION_FUSED, 1, 100);
  hr_memory more, less;
  hr_error error;
  assert_ok(hr_memory_estimate(&model, &workload, &more, &error), error);
  model.groups[0].count = 60;
  assert_ok(hr_memory_estimate(&model, &workload, &less, &error), error);
  assert_int_equal(more.activation_bytes - less.activation_bytes,
                   100LL * (2 * (4 * 7168 + 2 * (1536 + 512) + 128 * 640 + 3 * 18432) + 4 * 128));
}

/* ---- commands ---- */

static void the_absorbed_form_is_measured_and_predicted_as_a_latent_decode_call(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_workload workload = step_of(&model, HR_PHASE_DECODE, HR_ATTENTION_FUSED, 8, 1000);
  workload.framework = HR_FRAMEWORK_HEADROOM;
  const hr_operator op = *operator_of(listed(&model, &workload), HR_OP_ATTENTION);
  hr_problem problem;
  hr_error error;
  int64_t bytes;
  assert_ok(hr_operator_problem(&model, &workload, &op, &problem, &error), error);
  assert_int_equal(problem.operation, HR_OPERATION_DECODE);
  const hr_decode *d = &problem.decode;
  assert_true(d->latent && d->q_heads == 128 && d->k_heads == 1 && d->qk_dim == 576 && d->v_dim == 512);
  assert_true(d->batch == 8 && d->kv_len == 1000 && d->scale == op.attention.scale);
  assert_int_equal(hr_decode_bytes(d, &bytes), HR_OK);
  assert_int_equal(bytes, op.bytes);
  hr_hardware hardware = device("h200");
  hr_prediction of_operator, of_call;
  assert_ok(hr_predict_operator(&hardware, &op, &of_operator, &error), error);
  assert_ok(hr_predict_decode(&hardware, d, &of_call, &error), error);
  assert_true(of_operator.time_ns == of_call.time_ns);
}

static void rules_about_heads_of_k_and_v_say_why_they_do_not_apply(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_advice *advice = advise_unfused("h200", &model);
  const char *const rules[] = {"head_size", "fewer_heads", "kv_heads", "six_gpu_node"};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const hr_finding *finding = found(advice, rules[i]);
    assert_int_equal(finding->severity, HR_SEVERITY_NONE);
    assert_true(finding->not_applicable);
    assert_non_null(strstr(finding->why, "one latent of 512 + 64 elements among all heads"));
  }
  assert_true(found(advice, "fused_attention")->severity > HR_SEVERITY_NONE);
  hr_advice_free(advice);
}

static void devices_that_do_not_divide_the_heads_are_refused(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  hr_hardware hardware = device("h200");
  hr_workload workload = step_of(&model, HR_PHASE_FORWARD, HR_ATTENTION_FUSED, 1, 512);
  workload.tensor_parallel = 3;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "batch_heads_per_device");
  assert_int_equal(finding->severity, HR_SEVERITY_HIGH);
  assert_non_null(strstr(finding->why, "128 heads do not split over 3 devices"));
  hr_advice_free(advice);
}

static void a_search_keeps_heads_and_ranks(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  model.hidden = 1024, model.vocabulary = 32000;
  model.groups[0].count = 8;
  model.groups[0].dense.width = 4096;
  hr_hardware hardware = device("h200");
  hr_workload workload = step_of(&model, HR_PHASE_DECODE, HR_ATTENTION_FUSED, 4, 1000);
  hr_search_options options = hr_search_options_default();
  hr_search_result *result;
  hr_error error;
  bool other_hidden = false;
  assert_ok(hr_search(&hardware, &model, &workload, &options, &result, &error), error);
  assert_true(result->count > 0);
  for (size_t i = 0; i < result->count; i++) {
    const hr_search_shape *shape = &result->shapes[i];
    hr_parameters parameters;
    static hr_step step;
    assert_memory_equal(&shape->model.groups[0].latent, &model.groups[0].latent, sizeof(hr_mixer_latent));
    assert_int_equal(shape->model.groups[0].attention.q_heads, 0);
    other_hidden = other_hidden || shape->model.hidden != model.hidden;
    assert_ok(hr_model_parameters(&shape->model, &parameters, &error), error);
    assert_int_equal(parameters.total, shape->parameters);
    assert_true(fabs(shape->parameter_change) <= 0.02);
    assert_ok(hr_fill_step(&hardware, &shape->model, &workload, &step, &error), error);
    assert_true(step.about.time_ns == shape->step_time_ns);
  }
  assert_true(other_hidden);
  hr_search_result_free(result);
  options.query_heads_per_kv = 4;
  assert_int_equal(hr_search(&hardware, &model, &workload, &options, &result, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "query_heads_per_kv: the latent attention of v3 has no K and V heads to share");
}

static void latent_attention_makes_the_main_group(void **state)
{
  (void)state;
  hr_model model = deepseek_v3_dense();
  model.groups[1] = model.groups[0];
  model.groups[0].latent.q_heads = 0;
  model.groups[0].count = 60, model.groups[1].count = 1;
  model.group_count = 2;
  assert_ptr_equal(hr_model_main_group(&model), &model.groups[1]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_those_of_transformers),
      cmocka_unit_test(sizes_that_do_not_fit_are_refused),
      cmocka_unit_test(heads_of_k_and_v_are_named_where_they_say_nothing),
      cmocka_unit_test(fields_that_are_read_in_two_ways_are_refused),
      cmocka_unit_test(the_first_layer_is_dense_unless_a_list_says_which),
      cmocka_unit_test(other_mechanisms_beside_latent_attention_are_named),
      cmocka_unit_test(layers_for_further_tokens_are_named_and_not_counted),
      cmocka_unit_test(a_norm_of_the_experts_sum_runs_in_their_layers),
      cmocka_unit_test(groups_limit_only_the_method_that_uses_them),
      cmocka_unit_test(parameters_are_those_of_each_linear_layer),
      cmocka_unit_test(the_expanded_form_has_k_and_v_of_every_head),
      cmocka_unit_test(the_fused_expanded_form_is_multi_head_attention_192_128),
      cmocka_unit_test(training_has_gradients_of_the_expanded_form),
      cmocka_unit_test(q_in_one_layer_has_no_rank),
      cmocka_unit_test(the_absorbed_form_reads_the_latent_for_all_heads),
      cmocka_unit_test(the_unfused_absorbed_form_reads_k_and_then_v),
      cmocka_unit_test(layers_with_other_latents_are_listed_beside_each_other),
      cmocka_unit_test(heads_are_split_and_latents_are_not),
      cmocka_unit_test(the_cache_is_compared_with_multi_head_and_grouped_query),
      cmocka_unit_test(a_training_step_saves_the_expanded_heads),
      cmocka_unit_test(an_indexer_has_parameters_and_layers_may_share_one),
      cmocka_unit_test(an_indexer_that_cannot_be_is_refused),
      cmocka_unit_test(chosen_keys_are_read_and_all_keys_are_scored),
      cmocka_unit_test(prefill_attends_to_chosen_keys_and_training_has_no_gradient_of_the_choice),
      cmocka_unit_test(the_absorbed_form_is_measured_and_predicted_as_a_latent_decode_call),
      cmocka_unit_test(rules_about_heads_of_k_and_v_say_why_they_do_not_apply),
      cmocka_unit_test(devices_that_do_not_divide_the_heads_are_refused),
      cmocka_unit_test(a_search_keeps_heads_and_ranks),
      cmocka_unit_test(latent_attention_makes_the_main_group),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

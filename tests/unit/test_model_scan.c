/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent mixers: parameters, operators, states, prediction, by hand for each recurrence. */
#include "hardware/hardware.h"
#include "reading.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <headroom/memory.h>
#include <headroom/resolve.h>
#include <math.h>

#define HIDDEN 64

static const hr_mixer_scan mamba = {.recurrence = HR_RECURRENCE_SELECTIVE,
                                    .heads = 32,
                                    .head_dim = 1,
                                    .groups = 1,
                                    .state = 4,
                                    .kernel = 4,
                                    .rank = 2,
                                    .conv_bias = true,
                                    .norm = true,
                                    .norm_weight = true};
static const hr_mixer_scan mamba2 = {.recurrence = HR_RECURRENCE_SSD,
                                     .heads = 4,
                                     .head_dim = 8,
                                     .groups = 2,
                                     .state = 16,
                                     .kernel = 4,
                                     .chunk = 32,
                                     .conv_bias = true,
                                     .norm = true,
                                     .norm_weight = true};
static const hr_mixer_scan delta = {.recurrence = HR_RECURRENCE_GATED_DELTA,
                                    .heads = 4,
                                    .head_dim = 8,
                                    .groups = 2,
                                    .state = 16,
                                    .kernel = 4,
                                    .chunk = 16,
                                    .norm = true,
                                    .norm_weight = true};
static const hr_mixer_scan lightning = {.recurrence = HR_RECURRENCE_LIGHTNING,
                                        .heads = 4,
                                        .head_dim = 8,
                                        .groups = 4,
                                        .state = 8,
                                        .chunk = 16,
                                        .norm = true,
                                        .norm_weight = true};
static const hr_mixer_scan rg_lru = {.recurrence = HR_RECURRENCE_RG_LRU,
                                     .heads = 2,
                                     .head_dim = 16,
                                     .state = 1,
                                     .kernel = 4,
                                     .in_bias = true,
                                     .out_bias = true,
                                     .conv_bias = true};
static const hr_mixer_scan convolution = {
    .recurrence = HR_RECURRENCE_CONVOLUTION, .heads = 64, .head_dim = 1, .kernel = 3};

/* Three layers of one norm and the mixer. */
static hr_model model_of(const hr_mixer_scan *scan)
{
  hr_model model = hr_model_default();
  model.hidden = HIDDEN;
  model.vocabulary = 1000;
  model.norm = HR_NORM_RMS;
  model.norm_bias = false;
  model.groups[0] = (hr_layer_group){.count = 3, .norms = 1, .scan = *scan};
  return model;
}

static hr_workload workload_of(const hr_model *model, hr_phase phase)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = phase;
  workload.batch = 2;
  workload.sequence = workload.context = 64;
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

static const hr_operator *found(const hr_operators *operators, hr_operator_id id, hr_pass pass)
{
  const hr_operator *op = hr_operators_find(operators, id, pass);
  if (!op)
    fail_msg("no %s", hr_operator_id_name(id));
  return op;
}

static hr_memory memory_of(const hr_model *model, const hr_workload *workload)
{
  hr_memory memory;
  hr_error error;
  assert_ok(hr_memory_estimate(model, workload, &memory, &error), error);
  return memory;
}

/* ---- parameters and states ---- */

static void every_weight_of_a_mixer_is_counted(void **state)
{
  (void)state;
  const struct {
    const hr_mixer_scan *scan;
    int64_t in, convolution, inside, out, norm;
  } cases[] = {
      /* x and gate; x_proj to 2 + 2·4, dt_proj with bias, A and D; norms of the 10 outputs of x_proj */
      {&mamba, 64 * 64, 32 * 4 + 32, 32 * 10 + (2 * 32 + 32) + 32 * 4 + 32, 32 * 64, 10},
      /* x and gate 32, B and C 2·16, 4 step sizes; A, D and bias of 4 heads */
      {&mamba2, 64 * (32 + 32 + 32 + 32 + 4), 96 * 4 + 96, 3 * 4, 32 * 64, 32},
      /* Q, K 2·16, V and gate 32, decay and learning rate of 4 heads; the norm of a head */
      {&delta, 64 * (32 + 32 + 32 + 32 + 8), 96 * 4, 2 * 4, 32 * 64, 8},
      {&lightning, 64 * (3 * 32 + 32), 0, 0, 32 * 64, 32},
      /* two gates of 16 × 16 with bias in 2 heads, and the decay */
      {&rg_lru, 64 * 64 + 64, 32 * 4 + 32, 2 * 2 * (16 * 16 + 16) + 32, 32 * 64 + 64, 0},
      {&convolution, 64 * 192, 64 * 3, 0, 64 * 64, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_model model = model_of(cases[i].scan);
    hr_parameters p;
    hr_error error;
    assert_ok(hr_model_parameters(&model, &p, &error), error);
    assert_int_equal(p.scan, 3 * (cases[i].in + cases[i].convolution + cases[i].inside + cases[i].out));
    assert_int_equal(p.norm, 3 * (64 + cases[i].norm) + 64);
    assert_int_equal(p.attention + p.mlp, 0);
    assert_int_equal(p.total, p.scan + p.norm + p.embedding + p.logit);
  }
}

static void states_do_not_grow_with_the_sequence(void **state)
{
  (void)state;
  const struct {
    const hr_mixer_scan *scan;
    int64_t bytes; /* of a sequence and layer: inputs of the convolution in bf16, state in fp32 */
  } cases[] = {{&mamba, 32 * 4 * 2 + 32 * 4 * 4},  {&mamba2, 96 * 4 * 2 + 32 * 16 * 4},
               {&delta, 96 * 4 * 2 + 32 * 16 * 4}, {&lightning, 32 * 8 * 4},
               {&rg_lru, 32 * 4 * 2 + 32 * 4},     {&convolution, 64 * 3 * 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_model model = model_of(cases[i].scan);
    hr_workload workload = workload_of(&model, HR_PHASE_DECODE);
    hr_memory memory = memory_of(&model, &workload);
    assert_int_equal(memory.state_bytes_per_sequence, 3 * cases[i].bytes);
    assert_int_equal(memory.state_bytes, 2 * 3 * cases[i].bytes);
    assert_int_equal(memory.kv_cache_bytes + memory.kv_cache_bytes_per_token, 0);
    assert_int_equal(memory.total_bytes, memory.weight_bytes + memory.activation_bytes + memory.state_bytes);
    workload.context = 100000;
    assert_int_equal(memory_of(&model, &workload).total_bytes, memory.total_bytes);
    workload.phase = HR_PHASE_TRAIN;
    assert_int_equal(memory_of(&model, &workload).state_bytes, 0);
  }
}

/* ---- operators ---- */

/* Two sequences of 64 tokens, then one token of each. */
static void scans_have_the_flops_and_bytes_of_their_form(void **state)
{
  (void)state;
  const struct {
    const hr_mixer_scan *scan;
    int64_t whole, single; /* FLOPs per token of whole sequences and of one token */
    int64_t elements;      /* read and written per token */
    int64_t state;
  } cases[] = {
      {&mamba, 7 * 128, 7 * 128, 3 * 32 + 2 * 4 + 32, 128}, /* x, step sizes and gate; B and C; the result */
      /* in chunks of 32: scores of 2 groups, their product with 4 heads, state out and in */
      {&mamba2, 2 * 32 * 32 + 2 * 32 * 32 + 4 * 512, 5 * 512, 32 + 64 + 4 + 32, 512},
      /* in chunks of 16, of each head: 3 products over 16, 2 over 8, the inverse; 3 with the state */
      {&delta, 4 * (2 * 16 * (3 * 16 + 2 * 8) + 16 * 16 / 3) + 6 * 512, 7 * 512, 32 + 64 + 8 + 32, 512},
      {&lightning, 2 * 16 * 32 + 2 * 16 * 32 + 4 * 256, 5 * 256, 3 * 32 + 32, 256},
      {&rg_lru, 3 * 32, 3 * 32, 3 * 32 + 32, 32},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_model model = model_of(cases[i].scan);
    hr_workload workload = workload_of(&model, HR_PHASE_FORWARD);
    const hr_operator *scan = found(listed(&model, &workload), HR_OP_SCAN, HR_PASS_FORWARD);
    assert_int_equal(scan->count, 3);
    assert_int_equal(scan->flops, 128 * cases[i].whole);
    assert_int_equal(scan->bytes, 128 * cases[i].elements * 2);
    workload.phase = HR_PHASE_PREFILL; /* leaves the state */
    scan = found(listed(&model, &workload), HR_OP_SCAN, HR_PASS_FORWARD);
    assert_int_equal(scan->bytes, 128 * cases[i].elements * 2 + 2 * cases[i].state * 4);
    workload.phase = HR_PHASE_DECODE; /* reads and writes it */
    scan = found(listed(&model, &workload), HR_OP_SCAN, HR_PASS_FORWARD);
    assert_int_equal(scan->flops, 2 * cases[i].single);
    assert_int_equal(scan->bytes, 2 * cases[i].elements * 2 + 2 * 2 * cases[i].state * 4);
  }
}

static void convolutions_read_and_write_their_channels(void **state)
{
  (void)state;
  hr_model model = model_of(&mamba2);
  hr_workload workload = workload_of(&model, HR_PHASE_DECODE);
  const hr_operator *op = found(listed(&model, &workload), HR_OP_CONVOLUTION, HR_PASS_FORWARD);
  assert_int_equal(op->flops, 2 * 2 * 4 * 96);
  assert_int_equal(op->bytes, (2 * 2 * 96 + 2 * 2 * 4 * 96) * 2); /* tokens; the last inputs, in and out */
  model = model_of(&convolution);
  workload = workload_of(&model, HR_PHASE_FORWARD);
  const hr_operators *operators = listed(&model, &workload);
  op = found(operators, HR_OP_CONVOLUTION, HR_PASS_FORWARD);
  assert_int_equal(op->flops, 128 * (2 * 3 * 64 + 2 * 64)); /* and two gates */
  assert_int_equal(op->bytes, 128 * (3 * 64 + 64) * 2);
  assert_null(hr_operators_find(operators, HR_OP_SCAN, HR_PASS_FORWARD));
}

static void assert_gemm(const hr_operators *operators, hr_operator_id id, int64_t m, int64_t n, int64_t k)
{
  const hr_gemm *g = &found(operators, id, HR_PASS_FORWARD)->gemm;
  if (g->m != m || g->n != n || g->k != k)
    fail_msg("%s: (%d, %d, %d)", hr_operator_id_name(id), (int)g->m, (int)g->n, (int)g->k);
}

static void tensor_parallelism_splits_heads_and_groups(void **state)
{
  (void)state;
  hr_model model = model_of(&mamba2);
  hr_workload workload = workload_of(&model, HR_PHASE_FORWARD);
  workload.tensor_parallel = 2;
  const hr_operators *operators = listed(&model, &workload);
  assert_gemm(operators, HR_OP_IN_PROJ, 128, 16 + 16 + 16 + 16 + 2, 64);
  assert_gemm(operators, HR_OP_OUT_PROJ, 128, 64, 16);
  assert_null(hr_operators_find(operators, HR_OP_X_ALL_REDUCE, HR_PASS_FORWARD));
  model = model_of(&mamba); /* each device has some of the channels that x_proj sums over */
  operators = listed(&model, &workload);
  assert_gemm(operators, HR_OP_X_PROJ, 128, 10, 16);
  assert_gemm(operators, HR_OP_DT_PROJ, 128, 16, 2);
  assert_int_equal(found(operators, HR_OP_X_ALL_REDUCE, HR_PASS_FORWARD)->bytes, 128 * 10 * 2);
  assert_int_equal(memory_of(&model, &workload).state_bytes_per_sequence, 3 * (32 * 4 * 2 + 32 * 4 * 4));
}

/* Each product has two gradients, and the states are computed once more. */
static void training_runs_the_scan_backward(void **state)
{
  (void)state;
  hr_model model = model_of(&mamba2);
  hr_workload workload = workload_of(&model, HR_PHASE_TRAIN);
  const hr_operators *operators = listed(&model, &workload);
  const hr_operator *forward = found(operators, HR_OP_SCAN, HR_PASS_FORWARD);
  const hr_operator *backward = found(operators, HR_OP_SCAN, HR_PASS_DGRAD);
  assert_int_equal(backward->flops, 3 * forward->flops);
  assert_int_equal(backward->bytes, 128 * (2 * (32 + 64 + 4) + 32) * 2); /* inputs twice, the result's gradient */
  assert_int_equal(backward->count, 3);
  /* Per token and layer: the norm's input and the mixer's (64 each), in-projection 132, convolution 96, scan 32, its
   * gated norm 32. Then the inputs of the final norm and the logits, and the logits in fp32. */
  assert_int_equal(memory_of(&model, &workload).activation_bytes,
                   128 * (3 * 2 * (64 + 64 + 132 + 96 + 32 + 32) + 2 * (64 + 64) + 4 * 1000));
}

/* Falcon-H1: both mixers read the same input, and the residual adds both results. */
static void a_layer_may_have_two_mixers(void **state)
{
  (void)state;
  hr_model model = model_of(&mamba2);
  model.groups[0].attention = (hr_mixer_attention){.q_heads = 4, .k_heads = 2, .v_heads = 2, .qk_dim = 16, .v_dim = 16};
  hr_workload workload = workload_of(&model, HR_PHASE_DECODE);
  const hr_operators *operators = listed(&model, &workload);
  found(operators, HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD);
  found(operators, HR_OP_SCAN, HR_PASS_FORWARD);
  assert_int_equal(found(operators, HR_OP_ATTENTION_RESIDUAL, HR_PASS_FORWARD)->bytes, 2 * 64 * 4 * 2);
  hr_memory memory = memory_of(&model, &workload);
  assert_int_equal(memory.kv_cache_bytes_per_token, 3 * (2 + 2) * 16 * 2);
  assert_int_equal(memory.state_bytes_per_sequence, 3 * (96 * 4 * 2 + 32 * 16 * 4));
}

/* ---- families ---- */

/* The published configurations, without fields that no count depends on; counts are those of transformers. */
/* MiniMax-Text-01 has 456 billion parameters (arXiv 2501.08313). */
static void layers_by_numbers_are_those_of_types(void **state)
{
  (void)state;
#define MINIMAX                                                                                                  \
  "\"hidden_size\":6144,\"intermediate_size\":9216,\"num_attention_heads\":64,\"num_key_value_heads\":8,"        \
  "\"head_dim\":128,\"num_local_experts\":32,\"num_experts_per_tok\":2,\"vocab_size\":200064,\"rotary_dim\":64," \
  "\"max_position_embeddings\":10240000"
#define EIGHT "0,0,0,0,0,0,0,1"
  hr_model whole =
      read_model("{\"model_type\":\"minimax_text_01\",\"shared_intermediate_size\":0,\"num_hidden_layers\":80,"
                 "\"attn_type_list\":[" EIGHT "," EIGHT "," EIGHT "," EIGHT "," EIGHT "," EIGHT "," EIGHT "," EIGHT
                 "," EIGHT "," EIGHT "]," MINIMAX "}");
  hr_parameters p;
  hr_error error;
  assert_ok(hr_model_parameters(&whole, &p, &error), error);
  assert_int_equal(p.total, 456089655296);
  assert_true(whole.group_count == 2 && whole.groups[0].scan.heads == 64 && whole.groups[0].count == 70);
  hr_model few =
      read_model("{\"model_type\":\"minimax_m1\",\"num_hidden_layers\":3,\"attn_type_list\":[0,1,0]," MINIMAX "}");
  hr_model typed =
      read_model("{\"model_type\":\"minimax\",\"num_hidden_layers\":3,\"layer_types\":[\"linear_attention\","
                 "\"full_attention\",\"linear_attention\"]," MINIMAX "}");
  assert_int_equal(few.group_count, typed.group_count);
  assert_memory_equal(few.groups, typed.groups, 2 * sizeof *few.groups);
#define THREE "{\"model_type\":\"minimax_text_01\",\"num_hidden_layers\":3," MINIMAX
  assert_refused(THREE "}", HR_ERROR_INVALID,
                 "config.json: attn_type_list: is missing, which says the kind of each layer");
  assert_refused(THREE ",\"attn_type_list\":[0,1,2]}", HR_ERROR_UNSUPPORTED,
                 "config.json: attn_type_list: has layer types other than 0 (lightning attention) and 1 (attention)");
  assert_refused(THREE ",\"attn_type_list\":[0,1,0],\"shared_intermediate_size\":9}", HR_ERROR_UNSUPPORTED,
                 "config.json: shared_intermediate_size: shared experts of 9 are not supported");
}

static void published_hybrids_have_their_parameters_and_caches(void **state)
{
  (void)state;
  const struct {
    const char *text;
    int64_t total, active, cache; /* parameters; bytes of a token in bf16 */
  } cases[] = {
      {"{\"attention_bias\":false,\"attn_layer_indices\":[9,18,27],\"attn_rotary_emb\":64,\"hidden_size\":4096,"
       "\"intermediate_size\":14336,\"mamba_chunk_size\":256,\"mamba_conv_bias\":true,\"mamba_d_conv\":4,"
       "\"mamba_d_head\":64,\"mamba_d_state\":128,\"mamba_expand\":2,\"mamba_n_groups\":1,\"mamba_n_heads\":128,"
       "\"mamba_proj_bias\":false,\"mlp_bias\":false,\"model_type\":\"bamba\",\"num_attention_heads\":32,"
       "\"num_hidden_layers\":32,\"num_key_value_heads\":8,\"tie_word_embeddings\":false,\"vocab_size\":128256}",
       9780235392, 9780235392, 12288},
      {"{\"attention_bias\":false,\"mamba_chunk_size\":256,\"mamba_conv_bias\":true,\"mamba_d_conv\":4,"
       "\"mamba_expand\":2,\"mamba_proj_bias\":false,\"mamba_rms_norm\":false,\"mlp_bias\":false,"
       "\"model_type\":\"falcon_h1\",\"projectors_bias\":false,\"tie_word_embeddings\":false,"
       "\"hidden_size\":1024,\"intermediate_size\":2048,\"head_dim\":64,\"mamba_d_head\":64,"
       "\"mamba_d_ssm\":1536,\"mamba_d_state\":128,\"mamba_n_groups\":1,\"mamba_n_heads\":24,"
       "\"num_attention_heads\":8,\"num_hidden_layers\":36,\"num_key_value_heads\":2,\"vocab_size\":32784}",
       521411104, 521411104, 18432},
      {"{\"attention_bias\":false,\"mamba_chunk_size\":256,\"mamba_conv_bias\":true,\"mamba_d_conv\":4,"
       "\"mamba_d_head\":64,\"mamba_d_state\":128,\"mamba_expand\":2,\"mamba_n_groups\":1,"
       "\"mamba_proj_bias\":false,\"model_type\":\"granitemoehybrid\",\"num_hidden_layers\":40,"
       "\"position_embedding_type\":\"nope\",\"tie_word_embeddings\":true,\"vocab_size\":100352,"
       "\"hidden_size\":1536,\"intermediate_size\":512,\"layer_types\":[\"mamba\",\"mamba\",\"mamba\",\"mamba\","
       "\"mamba\",\"attention\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\","
       "\"mamba\",\"attention\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\","
       "\"mamba\",\"attention\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\","
       "\"mamba\",\"attention\",\"mamba\",\"mamba\",\"mamba\",\"mamba\"],\"mamba_n_heads\":48,"
       "\"num_attention_heads\":12,\"num_experts_per_tok\":6,\"num_key_value_heads\":4,\"num_local_experts\":64,"
       "\"shared_intermediate_size\":1024}",
       6939037248, 1465470528, 8192},
      {"{\"attn_layer_offset\":4,\"attn_layer_period\":8,\"expert_layer_offset\":1,\"expert_layer_period\":2,"
       "\"mamba_conv_bias\":true,\"mamba_d_conv\":4,\"mamba_d_state\":16,\"mamba_expand\":2,"
       "\"mamba_proj_bias\":false,\"model_type\":\"jamba\",\"num_experts\":16,\"num_experts_per_tok\":2,"
       "\"num_key_value_heads\":8,\"tie_word_embeddings\":false,\"vocab_size\":65536,\"hidden_size\":4096,"
       "\"intermediate_size\":14336,\"mamba_dt_rank\":256,\"num_attention_heads\":32,\"num_hidden_layers\":32}",
       51570323328, 12110311296, 16384},
      {"{\"attention_bias\":false,\"chunk_size\":128,\"conv_kernel\":4,\"expand\":2,\"mamba_proj_bias\":false,"
       "\"mlp_bias\":false,\"mlp_hidden_act\":\"relu2\",\"model_type\":\"nemotron_h\",\"n_groups\":8,"
       "\"ssm_state_size\":128,\"tie_word_embeddings\":false,\"use_bias\":false,\"use_conv_bias\":true,"
       "\"vocab_size\":131072,\"attention_head_dim\":128,\"hidden_size\":4096,"
       "\"hybrid_override_pattern\":\"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-\","
       "\"intermediate_size\":21504,\"mamba_head_dim\":64,\"mamba_num_heads\":128,\"num_attention_heads\":32,"
       "\"num_hidden_layers\":52,\"num_key_value_heads\":8,\"num_query_groups\":8}",
       8100852736, 8100852736, 16384},
      {"{\"block_auto_adjust_ff_dim\":true,\"block_ffn_dim_multiplier\":1.0,\"block_multiple_of\":256,"
       "\"block_use_swiglu\":true,\"conv_L_cache\":3,\"conv_bias\":false,\"model_type\":\"lfm2\","
       "\"num_hidden_layers\":16,\"num_key_value_heads\":8,\"use_pos_enc\":true,\"vocab_size\":65536,"
       "\"block_dim\":2048,\"block_ff_dim\":12288,\"conv_dim\":2048,\"conv_dim_out\":2048,\"full_attn_idxs\":[2,"
       "5,8,10,12,14],\"hidden_size\":2048,\"num_attention_heads\":32,\"num_heads\":32}",
       1170340608, 1170340608, 12288},
      {"{\"conv_L_cache\":3,\"conv_bias\":false,\"hidden_size\":2048,\"intermediate_size\":7168,"
       "\"layer_types\":[\"conv\",\"conv\",\"full_attention\",\"conv\",\"conv\",\"conv\",\"full_attention\","
       "\"conv\",\"conv\",\"conv\",\"full_attention\",\"conv\",\"conv\",\"conv\",\"full_attention\",\"conv\","
       "\"conv\",\"conv\",\"full_attention\",\"conv\",\"conv\",\"full_attention\",\"conv\",\"conv\"],"
       "\"model_type\":\"lfm2_moe\",\"moe_intermediate_size\":1792,\"num_attention_heads\":32,"
       "\"num_dense_layers\":2,\"num_experts\":32,\"num_experts_per_tok\":4,\"num_hidden_layers\":24,"
       "\"num_key_value_heads\":8,\"routed_scaling_factor\":1.0,\"use_expert_bias\":true,\"vocab_size\":65536}",
       8339929856, 1557740288, 12288},
      {"{\"decoder_sparse_step\":1,\"full_attention_interval\":4,\"head_dim\":256,\"hidden_size\":2048,"
       "\"intermediate_size\":5120,\"linear_conv_kernel_dim\":4,\"linear_key_head_dim\":128,"
       "\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,\"linear_value_head_dim\":128,"
       "\"mlp_only_layers\":[],\"model_type\":\"qwen3_next\",\"moe_intermediate_size\":512,"
       "\"num_attention_heads\":16,\"num_experts\":512,\"num_experts_per_tok\":10,\"num_hidden_layers\":48,"
       "\"num_key_value_heads\":2,\"partial_rotary_factor\":0.25,\"shared_expert_intermediate_size\":512,"
       "\"tie_word_embeddings\":false,\"use_sliding_window\":false,\"vocab_size\":151936}",
       79674391296, 3874929408, 24576},
      {"{\"attention_bias\":false,\"attention_window_size\":2048,\"block_types\":[\"recurrent\",\"recurrent\","
       "\"attention\"],\"conv1d_width\":4,\"head_dim\":256,\"hidden_activation\":\"gelu_pytorch_tanh\","
       "\"hidden_size\":2560,\"intermediate_size\":15360,\"lru_width\":2560,\"model_type\":\"recurrent_gemma\","
       "\"num_attention_heads\":10,\"num_hidden_layers\":26,\"num_key_value_heads\":1,"
       "\"partial_rotary_factor\":0.5,\"vocab_size\":256000}",
       2682862080, 2682862080, 8192},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_model model = read_model(cases[i].text);
    hr_parameters p = read_parameters(cases[i].text);
    hr_workload workload = workload_of(&model, HR_PHASE_DECODE);
    assert_int_equal(p.total, cases[i].total);
    assert_int_equal(p.active, cases[i].active);
    assert_int_equal(memory_of(&model, &workload).kv_cache_bytes_per_token, cases[i].cache);
  }
}

/* ---- checks and prediction ---- */

static void assert_invalid(const hr_mixer_scan *scan, const char *message)
{
  hr_model model = model_of(scan);
  hr_error error;
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, message));
}

static void sizes_that_a_recurrence_lacks_are_named(void **state)
{
  (void)state;
  hr_mixer_scan scan = mamba2;
  scan.chunk = 0;
  assert_invalid(&scan, "scan.chunk: expected at least 1, found 0");
  scan = mamba2;
  scan.groups = 3;
  assert_invalid(&scan, "scan.groups: 3 does not divide scan.heads, 4");
  scan = mamba;
  scan.rank = 0;
  assert_invalid(&scan, "scan.rank: expected at least 1, found 0");
  scan = convolution;
  scan.kernel = 0;
  assert_invalid(&scan, "scan.kernel: expected at least 1, found 0");
  scan.recurrence = HR_RECURRENCE_NONE;
  assert_invalid(&scan, "scan.recurrence: 0 is not a kind of recurrence");
}

/* No scan of Mamba-1 has been measured: the time is a lower bound, and the band says how little is known. */
static void the_time_of_a_scan_is_a_lower_bound_with_a_wide_band(void **state)
{
  (void)state;
  hr_model model = model_of(&mamba);
  hr_workload workload = workload_of(&model, HR_PHASE_FORWARD);
  workload.sequence = 1 << 16;
  hr_hardware xeon;
  hr_prediction p;
  hr_error error;
  assert_ok(hr_resolve_hardware("xeon-sapphire-rapids", &xeon, &error), error);
  const hr_operator *scan = found(listed(&model, &workload), HR_OP_SCAN, HR_PASS_FORWARD);
  assert_ok(hr_predict_operator(&xeon, scan, &p, &error), error);
  double copy_ns = (double)scan->bytes / (xeon.bandwidth_bytes_per_s * xeon.bandwidth_share) * 1e9;
  assert_true(p.time_ns >= copy_ns && p.time_ns < 2 * copy_ns + xeon.launch_ns);
  assert_true(p.low_ns < p.time_ns && p.high_ns >= 10 * p.time_ns);
}

/* Rows of data/results/h200/scans.csv, by their bytes and FLOPs: 4 x 2048 tokens of Codestral Mamba (128 heads of 64, a
 * state of 128, 8 groups, chunks of 256): (2 · 8192 + 2 · 1024 + 128) · 2 bytes a token and 4 MiB of states a sequence,
 * 2 · 256 · 1024 + 2 · 256 · 8192 + 4 · 8192 · 128 FLOPs a token, 12 bytes for each of the 2^20 elements of a state in
 * 4 · 8 chunks; and 16 sequences of a gated delta net in decode,
 * whose 32 states of 128 x 128 are read and written. */
static void measured_scans_are_predicted(void **state)
{
  (void)state;
  static const struct {
    hr_recurrence recurrence;
    bool updates;
    int64_t bytes, flops, between;
    double measured_ns;
  } rows[] = {
      {HR_RECURRENCE_SSD, false, INT64_C(18560) * 2 * 8192 + 4 * 4194304, INT64_C(8912896) * 8192,
       INT64_C(12) * 32 << 20, 558448},
      {HR_RECURRENCE_GATED_DELTA, true, INT64_C(2) * 16 * 32 * 128 * 128 * 4, INT64_C(7) * 16 * 32 * 128 * 128, 0,
       26733},
      {HR_RECURRENCE_CONVOLUTION, false, INT64_C(8192) * 10240 * 4, INT64_C(8192) * 10240 * 8, 0, 127472},
  };
  hr_hardware h200, other;
  hr_error error;
  assert_ok(hr_resolve_hardware("h200", &h200, &error), error);
  assert_ok(hr_resolve_hardware("a100-sxm4-80gb", &other, &error), error);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hr_prediction p, wide;
    hr_operator op = {.id = HR_OP_SCAN, .kind = HR_KIND_SCAN, .count = 1, .recurrence = rows[i].recurrence};
    op.updates = rows[i].updates, op.bytes = rows[i].bytes, op.flops = rows[i].flops, op.gemm.dtype = HR_BF16;
    op.moved_bytes = rows[i].bytes + rows[i].between;
    assert_ok(hr_predict_operator(&h200, &op, &p, &error), error);
    assert_true(fabs(p.time_ns / rows[i].measured_ns - 1) < 0.06);
    assert_true(p.low_ns < rows[i].measured_ns && rows[i].measured_ns < p.high_ns);
    assert_ok(hr_predict_operator(&other, &op, &wide, &error), error);
    assert_true(wide.high_ns >= 2 * wide.time_ns && wide.low_ns <= wide.time_ns / 2);
  }
}

/* Sizes of the first row above; twice its sequences, in bytes and FLOPs, is twice its time but for the launch. */
static void a_call_of_a_scan_has_the_time_of_its_operator(void **state)
{
  (void)state;
  hr_hardware h200;
  hr_prediction p, one, two;
  hr_error error;
  assert_ok(hr_resolve_hardware("h200", &h200, &error), error);
  hr_operator op = {.id = HR_OP_SCAN, .kind = HR_KIND_SCAN, .count = 1, .recurrence = HR_RECURRENCE_SSD};
  op.bytes = INT64_C(18560) * 2 * 8192 + 4 * 4194304, op.flops = INT64_C(8912896) * 8192, op.gemm.dtype = HR_BF16;
  op.moved_bytes = op.bytes + (INT64_C(12) * 32 << 20), op.sequence = 2048;
  assert_ok(hr_predict_operator(&h200, &op, &p, &error), error);
  hr_scan_call call = hr_scan_call_default();
  call.batch = 4, call.tokens = 2048, call.heads = 128, call.head_dim = 64, call.state = 128, call.groups = 8;
  call.chunk = 256;
  assert_ok(hr_predict_scan(&h200, &call, &one, &error), error);
  assert_true(one.time_ns == p.time_ns);
  call.batch = 8;
  assert_ok(hr_predict_scan(&h200, &call, &two, &error), error);
  assert_true(fabs((two.time_ns - two.launch_ns) / (one.time_ns - one.launch_ns) - 2) < 1e-9);
  call.groups = 0;
  assert_int_equal(hr_predict_scan(&h200, &call, &two, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "groups: expected at least 1, found 0");
  call.groups = 8, call.tokens = (INT64_C(1) << 40) - 1;
  assert_int_equal(hr_predict_scan(&h200, &call, &two, &error), HR_ERROR_OVERFLOW);
}

/* The costs that other GPUs take are in the code, the H200's own in its file. */
static void a_gpu_without_costs_of_scans_takes_those_of_an_h200(void **state)
{
  (void)state;
  hr_hardware h200, other;
  hr_error error;
  assert_ok(hr_resolve_hardware("h200", &h200, &error), error);
  other = h200;
  hr_scan_cost *costs[] = {&other.scan_mamba,     &other.scan_mamba2, &other.scan_gated_delta,
                           &other.scan_lightning, &other.scan_rg_lru, &other.scan_convolution};
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
    memset(costs[i], 0, sizeof *costs[i]);
  for (int recurrence = HR_RECURRENCE_SELECTIVE; recurrence <= HR_RECURRENCE_KIMI_DELTA; recurrence++) {
    for (int updates = 0; updates < 2; updates++) {
      hr_scan_call call = hr_scan_call_default();
      hr_prediction own, assumed;
      call.recurrence = (hr_recurrence)recurrence, call.updates = updates != 0, call.tokens = updates ? 1 : 2048;
      call.batch = 4, call.heads = 64, call.head_dim = 64, call.groups = 1, call.state = 4, call.chunk = 64;
      assert_ok(hr_predict_scan(&h200, &call, &own, &error), error);
      assert_ok(hr_predict_scan(&other, &call, &assumed, &error), error);
      if (own.time_ns != assumed.time_ns)
        fail_msg("%s: %g ns by the file, %g by the code", hr_recurrence_name(call.recurrence), own.time_ns,
                 assumed.time_ns);
    }
  }
}

/* 1 and 8 sequences of 16384 tokens at 24 ns: the chain of 393 us is longer than a quarter of one's work, not of
 * eight's. */
static void tokens_of_few_sequences_wait_for_one_another(void **state)
{
  (void)state;
  hr_hardware h200;
  hr_prediction p;
  hr_error error;
  assert_ok(hr_resolve_hardware("h200", &h200, &error), error);
  h200.scan_gated_delta.token_ns = 24;
  hr_scan_call call = hr_scan_call_default();
  call.recurrence = HR_RECURRENCE_GATED_DELTA, call.tokens = 16384, call.heads = 32, call.head_dim = call.state = 128;
  call.groups = 16, call.chunk = 64;
  assert_ok(hr_predict_scan(&h200, &call, &p, &error), error);
  double busy_ns = p.time_ns - p.launch_ns - p.wave_ns;
  assert_true(p.wave_ns > 0 && fabs(p.wave_ns - (24.0 * 16384 - busy_ns / 4)) < 1);
  call.batch = 8;
  assert_ok(hr_predict_scan(&h200, &call, &p, &error), error);
  assert_true(p.wave_ns == 0);
}

static void recurrent_gemma_s_window_has_two_names(void **state)
{
  (void)state;
  hr_model m = read_model("{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":3,\"hidden_size\":64,"
                          "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"intermediate_size\":256,"
                          "\"vocab_size\":1000,\"sliding_window\":512}");
  assert_int_equal(m.group_count, 2);
  assert_int_equal(m.groups[1].attention.window, 512);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(measured_scans_are_predicted),
      cmocka_unit_test(tokens_of_few_sequences_wait_for_one_another),
      cmocka_unit_test(a_call_of_a_scan_has_the_time_of_its_operator),
      cmocka_unit_test(a_gpu_without_costs_of_scans_takes_those_of_an_h200),
      cmocka_unit_test(recurrent_gemma_s_window_has_two_names),
      cmocka_unit_test(every_weight_of_a_mixer_is_counted),
      cmocka_unit_test(states_do_not_grow_with_the_sequence),
      cmocka_unit_test(scans_have_the_flops_and_bytes_of_their_form),
      cmocka_unit_test(convolutions_read_and_write_their_channels),
      cmocka_unit_test(tensor_parallelism_splits_heads_and_groups),
      cmocka_unit_test(training_runs_the_scan_backward),
      cmocka_unit_test(a_layer_may_have_two_mixers),
      cmocka_unit_test(layers_by_numbers_are_those_of_types),
      cmocka_unit_test(published_hybrids_have_their_parameters_and_caches),
      cmocka_unit_test(sizes_that_a_recurrence_lacks_are_named),
      cmocka_unit_test(the_time_of_a_scan_is_a_lower_bound_with_a_wide_band),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

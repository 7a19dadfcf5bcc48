/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "models.h"

#include <headroom/experimental/operators.h>
#include <stdlib.h>

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
    fail_msg("no %s %s", hr_operator_id_name(id), hr_pass_name(pass));
  return op;
}

typedef struct expected_product {
  hr_operator_id id;
  hr_pass pass;
  int64_t m, n, k, batch, count;
  bool transpose_a, transpose_b;
} expected_product;

static void assert_products(const hr_operators *operators, const expected_product *expected, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const expected_product *e = &expected[i];
    const hr_operator *op = found(operators, e->id, e->pass);
    const hr_gemm *g = &op->gemm;
    char name[48];
    hr_operator_name(op, name, sizeof name);
    if (g->m != e->m || g->n != e->n || g->k != e->k || g->batch != e->batch || op->count != e->count)
      fail_msg("%s: (%d, %d, %d) × %d, %d times", name, (int)g->m, (int)g->n, (int)g->k, (int)g->batch, (int)op->count);
    if (g->transpose_a != e->transpose_a || g->transpose_b != e->transpose_b)
      fail_msg("%s: transposes %d %d", name, g->transpose_a, g->transpose_b);
    assert_int_equal(op->flops, 2 * e->m * e->n * e->k * e->batch);
    assert_int_equal(hr_gemm_check(g, NULL), HR_OK);
  }
}

#define ASSERT_PRODUCTS(operators, rows) assert_products(operators, rows, sizeof(rows) / sizeof *(rows))

static size_t products_in(const hr_operators *operators)
{
  size_t products = 0;
  for (size_t i = 0; i < operators->count; i++)
    products += operators->items[i].flops > 0;
  return products;
}

/* Table II at b 4, s 2048, h 2560, a 32, v 50257: b·s = 8192, h/a = 80, 3h = 7680, 4h = 10240, b·a = 128. */
static void gpt3_2_7b_has_the_gemms_of_table_ii(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  const hr_operators *operators = listed(&model, &workload);
  const expected_product rows[] = {
      {HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD, 8192, 7680, 2560, 1, 32, false, true},
      {HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD, 2048, 2048, 80, 128, 32, false, true},
      {HR_OP_ATTENTION_OVER_VALUE, HR_PASS_FORWARD, 2048, 80, 2048, 128, 32, false, false},
      {HR_OP_LINEAR_PROJECTION, HR_PASS_FORWARD, 8192, 2560, 2560, 1, 32, false, true},
      {HR_OP_MLP_UP, HR_PASS_FORWARD, 8192, 10240, 2560, 1, 32, false, true},
      {HR_OP_MLP_DOWN, HR_PASS_FORWARD, 8192, 2560, 10240, 1, 32, false, true},
      {HR_OP_LOGIT, HR_PASS_FORWARD, 8192, 50257, 2560, 1, 1, false, true},
  };
  ASSERT_PRODUCTS(operators, rows);
  assert_int_equal(products_in(operators), 7);
}

/* The same on 2 devices: 3h/2 = 3840, b·a/2 = 64, h/2 = 1280, 4h/2 = 5120, 50257/2 rounds up to 25129. */
static void tensor_parallelism_splits_heads_width_and_vocabulary(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  workload.tensor_parallel = 2;
  const hr_operators *operators = listed(&model, &workload);
  const expected_product rows[] = {
      {HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD, 8192, 3840, 2560, 1, 32, false, true},
      {HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD, 2048, 2048, 80, 64, 32, false, true},
      {HR_OP_ATTENTION_OVER_VALUE, HR_PASS_FORWARD, 2048, 80, 2048, 64, 32, false, false},
      {HR_OP_LINEAR_PROJECTION, HR_PASS_FORWARD, 8192, 2560, 1280, 1, 32, false, true},
      {HR_OP_MLP_UP, HR_PASS_FORWARD, 8192, 5120, 2560, 1, 32, false, true},
      {HR_OP_MLP_DOWN, HR_PASS_FORWARD, 8192, 2560, 5120, 1, 32, false, true},
      {HR_OP_LOGIT, HR_PASS_FORWARD, 8192, 25129, 2560, 1, 1, false, true},
  };
  ASSERT_PRODUCTS(operators, rows);
  /* Two messages a layer of b·s·h bf16 numbers: 8192·2560·2. */
  const hr_operator *reduce = found(operators, HR_OP_ATTENTION_ALL_REDUCE, HR_PASS_FORWARD);
  assert_int_equal(reduce->bytes, 41943040);
  assert_int_equal(reduce->count, 32);
  assert_int_equal(found(operators, HR_OP_MLP_ALL_REDUCE, HR_PASS_FORWARD)->bytes, 41943040);
}

/* 32 query heads over 8 K/V heads of 128: Q 4096 + K 1024 + V 1024 = 6144 columns. */
static void grouped_heads_make_the_qkv_gemm_narrower(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = unfused_workload(&model);
  workload.batch = 1, workload.sequence = 4096;
  const hr_operators *operators = listed(&model, &workload);
  const expected_product rows[] = {
      {HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD, 4096, 6144, 4096, 1, 32, false, true},
      {HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD, 4096, 4096, 128, 32, 32, false, true},
      {HR_OP_ATTENTION_OVER_VALUE, HR_PASS_FORWARD, 4096, 128, 4096, 32, 32, false, false},
      {HR_OP_LINEAR_PROJECTION, HR_PASS_FORWARD, 4096, 4096, 4096, 1, 32, false, true},
      {HR_OP_MLP_UP, HR_PASS_FORWARD, 4096, 14336, 4096, 1, 32, false, true},
      {HR_OP_MLP_GATE, HR_PASS_FORWARD, 4096, 14336, 4096, 1, 32, false, true},
      {HR_OP_MLP_DOWN, HR_PASS_FORWARD, 4096, 4096, 14336, 1, 32, false, true},
      {HR_OP_LOGIT, HR_PASS_FORWARD, 4096, 128256, 4096, 1, 1, false, true},
  };
  ASSERT_PRODUCTS(operators, rows);
  /* Q and the scores have one matrix per query head, K one per K head: 2·(32·4096·128 + 8·4096·128 + 32·4096²). */
  assert_int_equal(found(operators, HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD)->bytes, 1115684864);
}

/* SIGMA 1.5B: Q through 3072, 32 · 64 = 2048 columns; K 4 · 64 = 256; V 16 · 64 = 1024. b·s = 8192. */
static void an_augmented_query_is_two_gemms(void **state)
{
  (void)state;
  hr_model model = sigma_1_5b();
  hr_workload workload = unfused_workload(&model);
  const hr_operators *operators = listed(&model, &workload);
  const expected_product rows[] = {
      {HR_OP_Q_DOWN, HR_PASS_FORWARD, 8192, 3072, 2048, 1, 26, false, true},
      {HR_OP_Q_UP, HR_PASS_FORWARD, 8192, 2048, 3072, 1, 26, false, true},
      {HR_OP_K_TRANSFORM, HR_PASS_FORWARD, 8192, 256, 2048, 1, 26, false, true},
      {HR_OP_V_TRANSFORM, HR_PASS_FORWARD, 8192, 1024, 2048, 1, 26, false, true},
      {HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD, 2048, 2048, 64, 128, 26, false, true},
  };
  ASSERT_PRODUCTS(operators, rows);
  assert_null(hr_operators_find(operators, HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD));
  workload.tensor_parallel =
      8; /* the narrow result is replicated on each device; with 4 key heads on 8 devices, each has one */
  operators = listed(&model, &workload);
  assert_int_equal(found(operators, HR_OP_Q_DOWN, HR_PASS_FORWARD)->gemm.n, 3072);
  assert_int_equal(found(operators, HR_OP_Q_UP, HR_PASS_FORWARD)->gemm.n, 256);
  assert_int_equal(found(operators, HR_OP_K_TRANSFORM, HR_PASS_FORWARD)->gemm.n, 64);
  assert_int_equal(found(operators, HR_OP_V_TRANSFORM, HR_PASS_FORWARD)->gemm.n, 128);
}

static int64_t between(int64_t low, int64_t high)
{
  return low + rand() % (high - low + 1);
}

/* Anthony et al. 2024, section III: 24bsh²(1 + s/6h) = 24bsh² + 4bs²h for each layer, and 2bshv for the logits. */
static void forward_flops_are_the_papers_closed_form(void **state)
{
  (void)state;
  srand(1);
  for (int i = 0; i < 1000; i++) {
    int64_t a = between(1, 96), h = a * between(1, 160), L = between(1, 100), v = between(1, 200000);
    hr_model model = paper_model(h, a, L, v);
    hr_workload workload = unfused_workload(&model);
    int64_t b = workload.batch = between(1, 16), s = workload.sequence = between(1, 4096);
    const hr_operators *operators = listed(&model, &workload);
    assert_int_equal(operators->flops, L * (24 * b * s * h * h + 4 * b * s * s * h) + 2 * b * s * h * v);
  }
}

static void training_has_three_times_the_forward_flops(void **state)
{
  (void)state;
  const hr_model models[] = {gpt3_2_7b(), llama3_8b(), mistral_7b(), sigma_1_5b()};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    hr_workload workload = unfused_workload(&models[i]);
    int64_t forward = listed(&models[i], &workload)->flops;
    workload.phase = HR_PHASE_TRAIN;
    assert_int_equal(listed(&models[i], &workload)->flops, 3 * forward);
  }
}

/* dX[m,k] = dY[m,n] W[n,k], dW[n,k] = dYᵀ X; dQ = dS K, dK = dSᵀ Q; dP = dO Vᵀ, dV = Pᵀ dO. */
static void gradients_are_gemms_of_the_right_shape(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = unfused_workload(&model);
  workload.phase = HR_PHASE_TRAIN;
  workload.batch = 1, workload.sequence = 4096;
  const hr_operators *operators = listed(&model, &workload);
  const expected_product rows[] = {
      {HR_OP_QKV_TRANSFORM, HR_PASS_DGRAD, 4096, 4096, 6144, 1, 32, false, false},
      {HR_OP_QKV_TRANSFORM, HR_PASS_WGRAD, 6144, 4096, 4096, 1, 32, true, false},
      {HR_OP_ATTENTION_SCORE, HR_PASS_DGRAD, 4096, 128, 4096, 32, 32, false, false},
      {HR_OP_ATTENTION_SCORE, HR_PASS_WGRAD, 4096, 128, 4096, 32, 32, true, false},
      {HR_OP_ATTENTION_OVER_VALUE, HR_PASS_DGRAD, 4096, 4096, 128, 32, 32, false, true},
      {HR_OP_ATTENTION_OVER_VALUE, HR_PASS_WGRAD, 4096, 128, 4096, 32, 32, true, false},
      {HR_OP_MLP_DOWN, HR_PASS_DGRAD, 4096, 14336, 4096, 1, 32, false, false},
      {HR_OP_MLP_DOWN, HR_PASS_WGRAD, 4096, 14336, 4096, 1, 32, true, false},
      {HR_OP_LOGIT, HR_PASS_DGRAD, 4096, 4096, 128256, 1, 1, false, false},
      {HR_OP_LOGIT, HR_PASS_WGRAD, 128256, 4096, 4096, 1, 1, true, false},
  };
  ASSERT_PRODUCTS(operators, rows);
  /* dK is written once for the four query heads that share it: 2·(32·4096² + 32·4096·128 + 8·4096·128). */
  assert_int_equal(found(operators, HR_OP_ATTENTION_SCORE, HR_PASS_WGRAD)->bytes, 1115684864);
}

static void the_backward_pass_runs_after_the_forward_one_in_reverse(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  workload.phase = HR_PHASE_TRAIN;
  workload.tensor_parallel = 2;
  const hr_operators *operators = listed(&model, &workload);
  size_t forward = 0;
  while (operators->items[forward].pass == HR_PASS_FORWARD)
    forward++;
  size_t next = forward;
  for (size_t i = forward; i-- > 0;) {
    const hr_operator *op = &operators->items[i];
    if (op->id == HR_OP_EMBEDDING_ALL_REDUCE) /* the gradient of a sum over devices is on all of them */
      continue;
    assert_int_equal(operators->items[next].id, op->id);
    assert_int_equal(operators->items[next].pass, HR_PASS_DGRAD);
    assert_int_equal(operators->items[next].count, op->count);
    assert_true(operators->items[next++].bytes > 0);
    if (op->kind == HR_KIND_GEMM || op->kind == HR_KIND_BMM)
      assert_int_equal(operators->items[next++].pass, HR_PASS_WGRAD);
  }
  assert_int_equal(operators->items[next].id, HR_OP_OPTIMIZER);
  assert_int_equal(next + 1, operators->count);
}

/* 8192 rows of ⌈50257 / 2⌉ logits, read forward, read and written backward, in 2 bytes. */
static void training_computes_a_loss_of_the_logits(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  workload.tensor_parallel = 2;
  assert_null(hr_operators_find(listed(&model, &workload), HR_OP_LOSS, HR_PASS_FORWARD));
  workload.phase = HR_PHASE_TRAIN;
  const hr_operators *operators = listed(&model, &workload);
  assert_int_equal(found(operators, HR_OP_LOSS, HR_PASS_FORWARD)->bytes, (int64_t)2 * 8192 * 25129);
  assert_int_equal(found(operators, HR_OP_LOSS, HR_PASS_DGRAD)->bytes, (int64_t)2 * 2 * 8192 * 25129);
  model.head = HR_HEAD_NONE;
  assert_null(hr_operators_find(listed(&model, &workload), HR_OP_LOSS, HR_PASS_FORWARD));
}

/* A gradient of 2 bytes twice, three fp32 numbers read and written, a weight of 2 bytes; in fp32 no weight beside
 * them. It is no part of a microbatch's bytes. */
static void the_optimizer_updates_each_parameter_that_the_device_keeps(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  const int64_t parameters = 2651553280; /* 12h²L + 13hL + (v + s)h + 2h: h = 2560, L = 32, v = 50257, s = 2048 */
  workload.phase = HR_PHASE_TRAIN, workload.data_parallel = 8;
  const hr_operators *operators = listed(&model, &workload);
  const hr_operator *update = found(operators, HR_OP_OPTIMIZER, HR_PASS_FORWARD);
  int64_t bytes = 0;
  assert_int_equal(update->bytes, 30 * parameters);
  assert_int_equal(update->count, 1);
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    bytes += op->kind == HR_KIND_COMMUNICATION || op->id == HR_OP_OPTIMIZER ? 0 : op->count * op->bytes;
  }
  assert_int_equal(operators->bytes, bytes);
  workload.zero_stage = 1;
  assert_int_equal(found(listed(&model, &workload), HR_OP_OPTIMIZER, HR_PASS_FORWARD)->bytes, 30 * parameters / 8);
  workload.dtype = HR_FP32;
  assert_int_equal(found(listed(&model, &workload), HR_OP_OPTIMIZER, HR_PASS_FORWARD)->bytes, 32 * parameters / 8);
}

static void prefill_makes_logits_for_the_last_token_alone(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  int64_t forward = listed(&model, &workload)->flops;
  workload.phase = HR_PHASE_PREFILL;
  const hr_operators *operators = listed(&model, &workload);
  assert_int_equal(found(operators, HR_OP_LOGIT, HR_PASS_FORWARD)->gemm.m, 4);
  assert_int_equal(forward - operators->flops, 2LL * (8192 - 4) * 2560 * 50257);
}

/* One token of each of 8 sequences over 4096 cached: K is 8·8 heads of 4096 · 128 bf16 numbers, 64 MiB. */
static void decode_reads_the_cache_of_one_token_a_sequence(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = unfused_workload(&model);
  workload.phase = HR_PHASE_DECODE;
  workload.batch = 8, workload.context = 4096;
  const hr_operators *operators = listed(&model, &workload);
  const expected_product rows[] = {
      {HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD, 8, 6144, 4096, 1, 32, false, true},
      {HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD, 1, 4096, 128, 256, 32, false, true},
      {HR_OP_ATTENTION_OVER_VALUE, HR_PASS_FORWARD, 1, 128, 4096, 256, 32, false, false},
      {HR_OP_MLP_DOWN, HR_PASS_FORWARD, 8, 4096, 14336, 1, 32, false, true},
      {HR_OP_LOGIT, HR_PASS_FORWARD, 8, 128256, 4096, 1, 1, false, true},
  };
  ASSERT_PRODUCTS(operators, rows);
  /* 67108864 of K, 2·256·128 of Q, 2·256·4096 of scores */
  assert_int_equal(found(operators, HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD)->bytes, 67108864 + 65536 + 2097152);
  workload.attention = HR_ATTENTION_FUSED;
  operators = listed(&model, &workload);
  const hr_operator *fused = found(operators, HR_OP_ATTENTION, HR_PASS_FORWARD);
  assert_int_equal(fused->bytes, 2 * 67108864 + 2 * 65536); /* K and V, Q and O */
  assert_int_equal(fused->flops, 2LL * 4096 * (128 + 128) * 32 * 8);
}

static void a_sliding_window_shortens_decode_and_the_fused_kernel(void **state)
{
  (void)state;
  hr_model model = mistral_7b();
  hr_workload workload = unfused_workload(&model);
  workload.batch = 1, workload.sequence = 16384, workload.context = 16384;
  const hr_operators *operators = listed(&model, &workload); /* all scores are computed, then masked */
  assert_int_equal(found(operators, HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD)->gemm.n, 16384);

  workload.attention = HR_ATTENTION_FUSED;
  operators = listed(&model, &workload);
  assert_int_equal(found(operators, HR_OP_ATTENTION, HR_PASS_FORWARD)->attention.window, 4096);
  /* The first 4096 queries see 1 … 4096 keys, the others 4096: 4096·4097/2 + 12288·4096 entries. */
  assert_int_equal(found(operators, HR_OP_ATTENTION, HR_PASS_FORWARD)->flops, 2LL * 58722304 * 256 * 32);

  workload.phase = HR_PHASE_DECODE;
  workload.attention = HR_ATTENTION_UNFUSED;
  operators = listed(&model, &workload);
  const hr_operator *score = found(operators, HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD);
  assert_int_equal(score->gemm.n, 4096);
  assert_int_equal(score->count, 32);
  workload.context = 1000; /* shorter than the window */
  operators = listed(&model, &workload);
  assert_int_equal(found(operators, HR_OP_ATTENTION_SCORE, HR_PASS_FORWARD)->gemm.n, 1000);
}

static void a_token_sees_its_own_chunk(void **state)
{
  (void)state;
  hr_model model = mistral_7b();
  hr_workload workload = unfused_workload(&model);
  workload.phase = HR_PHASE_DECODE;
  workload.attention = HR_ATTENTION_FUSED;
  model.groups[0].attention.window_kind = HR_WINDOW_CHUNKED; /* of 4096 */
  const int64_t rows[][2] = {{1000, 1000}, {4096, 4096}, {4097, 1}, {10000, 1808}, {16384, 4096}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    workload.context = rows[i][0];
    const hr_operators *operators = listed(&model, &workload);
    assert_int_equal(found(operators, HR_OP_ATTENTION, HR_PASS_FORWARD)->attention.kv_len, rows[i][1]);
  }
}

static void layers_with_and_without_a_window_are_listed_separately(void **state)
{
  (void)state;
  hr_model model = mistral_7b();
  model.groups[0].attention.window = 0;
  give_window(&model, 12, 4096);
  hr_workload workload = unfused_workload(&model);
  workload.phase = HR_PHASE_DECODE;
  workload.context = 16384;
  for (int form = HR_ATTENTION_UNFUSED; form <= HR_ATTENTION_FUSED; form++) {
    workload.attention = (hr_attention_form)form;
    const hr_operators *operators = listed(&model, &workload);
    hr_operator_id id = form == HR_ATTENTION_FUSED ? HR_OP_ATTENTION : HR_OP_ATTENTION_SCORE;
    int64_t keys = 0, layers = 0;
    for (size_t i = 0; i < operators->count; i++) {
      const hr_operator *op = &operators->items[i];
      if (op->id != id)
        continue;
      layers += op->count;
      keys += op->count * (form == HR_ATTENTION_FUSED ? op->attention.kv_len : op->gemm.n);
    }
    assert_int_equal(layers, 32);
    assert_int_equal(keys, 20 * 16384 + 12 * 4096);
  }
}

/* Causal: 2048·2049/2 entries a head; forward 2·entries·(80 + 80)·32·4, backward five products where forward has
 * two. */
static void fused_attention_counts_entries_below_the_diagonal(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  workload.attention = HR_ATTENTION_FUSED;
  workload.phase = HR_PHASE_TRAIN;
  const hr_operators *operators = listed(&model, &workload);
  const hr_operator *forward = found(operators, HR_OP_ATTENTION, HR_PASS_FORWARD);
  const hr_operator *backward = found(operators, HR_OP_ATTENTION, HR_PASS_DGRAD);
  assert_int_equal(forward->flops, 2LL * 2098176 * 160 * 128);
  assert_int_equal(2 * backward->flops, 5 * forward->flops);
  assert_int_equal(backward->bytes, 2 * forward->bytes);
  assert_null(hr_operators_find(operators, HR_OP_ATTENTION, HR_PASS_WGRAD));
  assert_null(hr_operators_find(operators, HR_OP_SOFTMAX, HR_PASS_FORWARD));
}

static void a_degree_that_does_not_divide_describes_the_most_loaded_device(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = unfused_workload(&model);
  workload.tensor_parallel = 3; /* ⌈32/3⌉ = 11 query heads, ⌈8/3⌉ = 3 K/V heads; 11 is prime: the kernel gets 11 */
  const hr_operators *operators = listed(&model, &workload);
  assert_int_equal(found(operators, HR_OP_QKV_TRANSFORM, HR_PASS_FORWARD)->gemm.n, (11 + 3 + 3) * 128);
  assert_int_equal(found(operators, HR_OP_MLP_UP, HR_PASS_FORWARD)->gemm.n, 4779);
  workload.attention = HR_ATTENTION_FUSED;
  operators = listed(&model, &workload);
  const hr_attention *attention = &found(operators, HR_OP_ATTENTION, HR_PASS_FORWARD)->attention;
  assert_int_equal(hr_attention_check(attention, NULL), HR_OK);
  assert_int_equal(attention->q_heads, 11);
  assert_int_equal(attention->k_heads, 11);
}

typedef struct expected_bytes {
  hr_operator_id id;
  int64_t forward, backward;
} expected_bytes;

static void assert_bytes(const hr_operators *operators, const expected_bytes *rows, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const hr_operator *forward = found(operators, rows[i].id, HR_PASS_FORWARD);
    const hr_operator *backward = found(operators, rows[i].id, HR_PASS_DGRAD);
    if (forward->bytes != rows[i].forward || backward->bytes != rows[i].backward)
      fail_msg("%s: %lld and %lld bytes", hr_operator_id_name(rows[i].id), (long long)forward->bytes,
               (long long)backward->bytes);
    assert_int_equal(forward->flops, 0);
    assert_int_equal(forward->kind, HR_KIND_MEMORY);
  }
}

/* bf16, b·s = 8192 rows; x = 2·8192·4096 bytes = 67108864 of one activation, f = 2·8192·14336 = 234881024. */
static void memory_operators_count_what_they_read_and_write(void **state)
{
  (void)state;
  const int64_t x = 67108864, f = 234881024, scores = 2LL * 4 * 32 * 2048 * 2048;
  hr_model model = llama3_8b();
  hr_workload workload = unfused_workload(&model);
  workload.phase = HR_PHASE_TRAIN;
  const hr_operators *operators = listed(&model, &workload);
  const expected_bytes rows[] = {
      {HR_OP_EMBEDDING, 2 * x, 3 * x},
      {HR_OP_ATTENTION_NORM, 2 * x, 3 * x},
      {HR_OP_ROTARY, 2 * (x + x / 4), 2 * (x + x / 4)}, /* 32 + 8 heads, all 128 elements rotated */
      {HR_OP_SOFTMAX, 2 * scores, 3 * scores},
      {HR_OP_ATTENTION_RESIDUAL, 3 * x, 3 * x},
      {HR_OP_ACTIVATION, 3 * f, 5 * f}, /* reads up and gate; backward those and the gradient, writes two */
      {HR_OP_MLP_RESIDUAL, 3 * x, 3 * x},
      {HR_OP_FINAL_NORM, 2 * x, 3 * x},
  };
  assert_bytes(operators, rows, sizeof rows / sizeof *rows);
  model.groups[0].attention.qk_norm = HR_QK_NORM_SHARED;
  operators = listed(&model, &workload);
  const expected_bytes qk_norm = {HR_OP_QK_NORM, 2 * (x + x / 4), 3 * (x + x / 4)};
  assert_bytes(operators, &qk_norm, 1);
}

/* GPT-3 2.7B, bf16: 8192 rows of 2560 are x = 2·8192·2560 = 41943040 bytes; the scores 2·4·32·2048·2048. Three dropouts
 * read and write each layer's activations, one the embedding's, and the same backward, as the seed gives the mask
 * again. */
static void dropout_is_four_operators_where_a_step_has_it(void **state)
{
  (void)state;
  const int64_t x = 41943040, scores = 2LL * 4 * 32 * 2048 * 2048;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  assert_int_equal(workload.dropout, HR_DROPOUT_TRAIN);
  assert_null(hr_operators_find(listed(&model, &workload), HR_OP_MLP_DROPOUT, HR_PASS_FORWARD));
  workload.framework = HR_FRAMEWORK_HEADROOM;
  workload.phase = HR_PHASE_TRAIN;
  const expected_bytes rows[] = {{HR_OP_EMBEDDING_DROPOUT, 2 * x, 2 * x},
                                 {HR_OP_SOFTMAX_DROPOUT, 2 * scores, 2 * scores},
                                 {HR_OP_ATTENTION_DROPOUT, 2 * x, 2 * x},
                                 {HR_OP_MLP_DROPOUT, 2 * x, 2 * x}};
  assert_bytes(listed(&model, &workload), rows, sizeof rows / sizeof *rows);
  workload.dropout = HR_DROPOUT_NONE;
  assert_null(hr_operators_find(listed(&model, &workload), HR_OP_MLP_DROPOUT, HR_PASS_FORWARD));
  workload.dropout = HR_DROPOUT_FORWARD;
  workload.phase = HR_PHASE_FORWARD;
  assert_non_null(hr_operators_find(listed(&model, &workload), HR_OP_SOFTMAX_DROPOUT, HR_PASS_FORWARD));
  workload.attention = HR_ATTENTION_FUSED; /* inside the kernel */
  assert_null(hr_operators_find(listed(&model, &workload), HR_OP_SOFTMAX_DROPOUT, HR_PASS_FORWARD));
  assert_non_null(hr_operators_find(listed(&model, &workload), HR_OP_ATTENTION_DROPOUT, HR_PASS_FORWARD));
  workload.phase = HR_PHASE_PREFILL;
  assert_null(hr_operators_find(listed(&model, &workload), HR_OP_ATTENTION_DROPOUT, HR_PASS_FORWARD));
}

/* Kernels of a framework store a mask of a byte for each element: 5/4 of the 16-bit traffic, and fused into its
 * neighbours the mask alone, 1/4. */
static void a_framework_stores_the_mask_of_dropout(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  workload.dropout = HR_DROPOUT_FORWARD;
  static const struct {
    hr_framework framework;
    int64_t moved;
  } rows[] = {{HR_FRAMEWORK_HEADROOM, 83886080}, {HR_FRAMEWORK_EAGER, 104857600}, {HR_FRAMEWORK_COMPILED, 20971520}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    workload.framework = rows[i].framework;
    const hr_operator *op = hr_operators_find(listed(&model, &workload), HR_OP_MLP_DROPOUT, HR_PASS_FORWARD);
    assert_non_null(op);
    assert_int_equal(op->moved_bytes, rows[i].moved);
  }
}

/* Falcon 7B: one norm feeds both branches, whose sum is added once; one message a layer. */
static void a_parallel_block_has_one_norm_one_residual_and_one_message(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  model.groups[0].parallel_block = true;
  model.groups[0].norms = 1;
  hr_workload workload = unfused_workload(&model);
  workload.tensor_parallel = 2;
  const hr_operators *operators = listed(&model, &workload);
  assert_null(hr_operators_find(operators, HR_OP_MLP_NORM, HR_PASS_FORWARD));
  assert_null(hr_operators_find(operators, HR_OP_ATTENTION_ALL_REDUCE, HR_PASS_FORWARD));
  assert_null(hr_operators_find(operators, HR_OP_ATTENTION_RESIDUAL, HR_PASS_FORWARD));
  found(operators, HR_OP_MLP_ALL_REDUCE, HR_PASS_FORWARD);
  /* reads three terms and writes their sum: 4·8192·2560·2 */
  assert_int_equal(found(operators, HR_OP_MLP_RESIDUAL, HR_PASS_FORWARD)->bytes, 167772160);
}

/* OPT 350M: embeddings of 512 elements are projected to 1024 and back. */
static void a_narrow_embedding_is_projected_in_and_out(void **state)
{
  (void)state;
  hr_model model = paper_model(1024, 16, 24, 50272);
  model.embedding_dim = 512;
  hr_workload workload = unfused_workload(&model);
  const hr_operators *operators = listed(&model, &workload);
  const expected_product rows[] = {
      {HR_OP_EMBEDDING_PROJECTION_IN, HR_PASS_FORWARD, 8192, 1024, 512, 1, 1, false, true},
      {HR_OP_EMBEDDING_PROJECTION_OUT, HR_PASS_FORWARD, 8192, 512, 1024, 1, 1, false, true},
      {HR_OP_LOGIT, HR_PASS_FORWARD, 8192, 50272, 512, 1, 1, false, true},
  };
  ASSERT_PRODUCTS(operators, rows);
}

static void counts_that_overflow_name_the_operator(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = unfused_workload(&model);
  workload.batch = workload.sequence = (int64_t)1 << 30;
  static hr_operators operators;
  hr_error error;
  assert_int_equal(hr_operators_list(&model, &workload, &operators, &error), HR_ERROR_OVERFLOW);
  assert_string_equal(error.message, "embedding: its FLOPs or bytes do not fit into 63 bits");
  workload.batch = 1, workload.sequence = (int64_t)1 << 31; /* linear layers fit, the square of scores does not */
  assert_int_equal(hr_operators_list(&model, &workload, &operators, &error), HR_ERROR_OVERFLOW);
  assert_string_equal(error.message, "attention_score: its FLOPs or bytes do not fit into 63 bits");
}

static void an_operator_is_named_with_its_pass(void **state)
{
  (void)state;
  char name[48];
  hr_operator op = {.id = HR_OP_MLP_UP};
  hr_operator_name(&op, name, sizeof name);
  assert_string_equal(name, "mlp_up");
  op.pass = HR_PASS_WGRAD;
  hr_operator_name(&op, name, sizeof name);
  assert_string_equal(name, "mlp_up_wgrad");
  assert_string_equal(hr_operator_kind_name(HR_KIND_BMM), "bmm");
  assert_string_equal(hr_operator_id_name((hr_operator_id)-1), "unknown");
}

static void assert_collective(const hr_operators *operators, hr_operator_id id, hr_pass pass, hr_collective_kind kind,
                              int64_t devices, int64_t stride, int64_t count, int64_t bytes)
{
  const hr_operator *op = found(operators, id, pass);
  assert_int_equal(op->collective, kind);
  assert_int_equal(op->devices, devices);
  assert_int_equal(op->stride, stride);
  assert_int_equal(op->count, count);
  assert_int_equal(op->bytes, bytes);
}

/* Korthikanti et al. 2022, section 4.2.2: an all-reduce becomes a reduce-scatter and an all-gather, the other way round
 * in the backward pass. b·s·h bf16 numbers are 8192·2560·2 = 41,943,040 bytes; a norm moves a quarter of them twice. */
static void sequence_parallelism_scatters_and_gathers_instead_of_reducing(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload w = hr_workload_default(&model);
  w.phase = HR_PHASE_TRAIN, w.tensor_parallel = 4, w.sequence_parallel = true;
  const hr_operators *ops = listed(&model, &w);
  const int64_t all = 41943040;
  assert_null(hr_operators_find(ops, HR_OP_ATTENTION_ALL_REDUCE, HR_PASS_FORWARD));
  assert_collective(ops, HR_OP_ATTENTION_ALL_GATHER, HR_PASS_FORWARD, HR_ALL_GATHER, 4, 1, 32, all);
  assert_collective(ops, HR_OP_MLP_REDUCE_SCATTER, HR_PASS_FORWARD, HR_REDUCE_SCATTER, 4, 1, 32, all);
  assert_collective(ops, HR_OP_ATTENTION_REDUCE_SCATTER, HR_PASS_DGRAD, HR_ALL_GATHER, 4, 1, 32, all);
  assert_collective(ops, HR_OP_MLP_ALL_GATHER, HR_PASS_DGRAD, HR_REDUCE_SCATTER, 4, 1, 32, all);
  assert_collective(ops, HR_OP_LOGIT_ALL_GATHER, HR_PASS_FORWARD, HR_ALL_GATHER, 4, 1, 1, all);
  assert_collective(ops, HR_OP_LOGIT_ALL_GATHER, HR_PASS_DGRAD, HR_REDUCE_SCATTER, 4, 1, 1, all);
  assert_int_equal(found(ops, HR_OP_MLP_NORM, HR_PASS_FORWARD)->bytes, 2 * all / 4);
  assert_int_equal(found(ops, HR_OP_MLP_UP, HR_PASS_FORWARD)->gemm.m, 8192);
  model.groups[0].dense.width = 0;
  model.groups[0].experts = (hr_ffn_experts){.experts = 8, .active = 2, .width = 2560};
  assert_collective(listed(&model, &w), HR_OP_MLP_ALL_GATHER, HR_PASS_FORWARD, HR_ALL_GATHER, 4, 1, 32, all);
  w.expert_parallel = 4; /* whole experts take each device's own tokens */
  assert_null(hr_operators_find(listed(&model, &w), HR_OP_MLP_ALL_GATHER, HR_PASS_FORWARD));
  assert_null(hr_operators_find(listed(&model, &w), HR_OP_MLP_REDUCE_SCATTER, HR_PASS_FORWARD));
}

/* The first of 4 devices has the first and the last eighth of 8192 tokens: 1024·1025/2 + 1024·7168 + 1024·1025/2 =
 * 8,389,632 scores of 8192·8193/2, a quarter. K and V of 2·8192 tokens, 4 heads each on a device. */
static void context_parallel_devices_have_equal_parts_of_the_causal_mask(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload w = hr_workload_default(&model);
  w.batch = 2, w.sequence = 8192, w.tensor_parallel = 2;
  int64_t whole = found(listed(&model, &w), HR_OP_ATTENTION, HR_PASS_FORWARD)->flops;
  w.context_parallel = 4;
  const hr_operators *ops = listed(&model, &w);
  int64_t flops = 0, calls = 0;
  for (size_t i = 0; i < ops->count; i++) {
    if (ops->items[i].id == HR_OP_ATTENTION)
      flops += ops->items[i].flops, calls++;
  }
  assert_int_equal(calls, 2);
  assert_int_equal(flops, whole / 4);
  assert_int_equal(found(ops, HR_OP_MLP_UP, HR_PASS_FORWARD)->gemm.m, 2 * 8192 / 4);
  assert_collective(ops, HR_OP_KV_ALL_GATHER, HR_PASS_FORWARD, HR_ALL_GATHER, 4, 2, 32, 2LL * 8192 * (4 + 4) * 128 * 2);
}

/* Stages are t · cp · dp devices apart; b·s/cp·h numbers go to the next one, of which with sequence parallelism each
 * device has a part. */
static void stages_send_the_activations_of_a_microbatch(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload w = hr_workload_default(&model);
  w.phase = HR_PHASE_TRAIN, w.pipeline_stages = 4, w.tensor_parallel = 2, w.data_parallel = 3;
  assert_collective(listed(&model, &w), HR_OP_PIPELINE_SEND, HR_PASS_DGRAD, HR_POINT_TO_POINT, 2, 6, 3, 41943040);
  w.sequence_parallel = true;
  assert_collective(listed(&model, &w), HR_OP_PIPELINE_SEND, HR_PASS_FORWARD, HR_POINT_TO_POINT, 2, 6, 3, 20971520);
}

/* This GPT-3 2.7B has 32·(12h² + 13h) + (50257 + 2048 + 2)·h = 2,651,553,280 parameters, a 32nd of them 82,861,040. */
static void the_zero_stage_decides_what_replicas_send(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload w = hr_workload_default(&model);
  w.phase = HR_PHASE_TRAIN, w.data_parallel = 4, w.context_parallel = 2;
  const int64_t layer = 2 * 82861040LL;
  const hr_operators *ops = listed(&model, &w);
  assert_collective(ops, HR_OP_GRADIENT_ALL_REDUCE, HR_PASS_WGRAD, HR_ALL_REDUCE, 8, 1, 32, layer);
  assert_null(hr_operators_find(ops, HR_OP_WEIGHT_ALL_GATHER, HR_PASS_FORWARD));
  for (w.zero_stage = 1; w.zero_stage <= 3; w.zero_stage++) {
    ops = listed(&model, &w);
    assert_null(hr_operators_find(ops, HR_OP_GRADIENT_ALL_REDUCE, HR_PASS_WGRAD));
    assert_collective(ops, HR_OP_GRADIENT_REDUCE_SCATTER, HR_PASS_WGRAD, HR_REDUCE_SCATTER, 8, 1, 32, layer);
    assert_collective(ops, HR_OP_WEIGHT_ALL_GATHER, HR_PASS_FORWARD, HR_ALL_GATHER, 8, 1, 32, layer);
    assert_true((hr_operators_find(ops, HR_OP_WEIGHT_ALL_GATHER, HR_PASS_DGRAD) != NULL) == (w.zero_stage == 3));
  }
}

static void selective_recomputation_repeats_attention_alone(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload w = unfused_workload(&model);
  w.phase = HR_PHASE_TRAIN;
  int64_t kept = listed(&model, &w)->flops;
  w.recompute = HR_RECOMPUTE_SELECTIVE;
  const hr_operators *ops = listed(&model, &w);
  assert_int_equal(ops->flops - kept, 32LL * 4 * 4 * 2048 * 2048 * 2560); /* 4bs²h a layer */
  assert_non_null(hr_operators_find(ops, HR_OP_SOFTMAX, HR_PASS_RECOMPUTE));
  assert_null(hr_operators_find(ops, HR_OP_MLP_UP, HR_PASS_RECOMPUTE));
}

static bool is_fused(const hr_operators *ops, hr_operator_id id)
{
  const hr_operator *op = hr_operators_find(ops, id, HR_PASS_FORWARD);
  assert_non_null(op);
  return op->fused;
}

static void decode_steps_of_few_tokens_have_fewer_kernels(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b(); /* its projection has 6.6 million weights, QKV 19.7 and the MLP 26.2 */
  hr_workload w = hr_workload_default(&model);
  w.phase = HR_PHASE_DECODE, w.framework = HR_FRAMEWORK_HEADROOM, w.batch = 8;
  const hr_operators *ops = listed(&model, &w);
  assert_true(is_fused(ops, HR_OP_ATTENTION_RESIDUAL));
  assert_false(is_fused(ops, HR_OP_ATTENTION_NORM) || is_fused(ops, HR_OP_MLP_NORM));
  assert_false(is_fused(ops, HR_OP_ACTIVATION) || is_fused(ops, HR_OP_MLP_RESIDUAL));
  model.hidden = 1024;
  for (size_t g = 0; g < model.group_count; g++)
    model.groups[g].dense.width = 4096;
  ops = listed(&model, &w);
  assert_true(is_fused(ops, HR_OP_ATTENTION_NORM) && is_fused(ops, HR_OP_MLP_NORM));
  assert_true(is_fused(ops, HR_OP_ACTIVATION) && is_fused(ops, HR_OP_MLP_RESIDUAL));
  assert_false(is_fused(ops, HR_OP_FINAL_NORM) || is_fused(ops, HR_OP_LINEAR_PROJECTION));
  w.batch = 9;
  assert_false(is_fused(listed(&model, &w), HR_OP_MLP_NORM));
  w.batch = 8, w.framework = HR_FRAMEWORK_COMPILED;
  assert_false(is_fused(listed(&model, &w), HR_OP_MLP_NORM));
  w.framework = HR_FRAMEWORK_HEADROOM, w.phase = HR_PHASE_PREFILL;
  assert_false(is_fused(listed(&model, &w), HR_OP_MLP_NORM));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpt3_2_7b_has_the_gemms_of_table_ii),
      cmocka_unit_test(tensor_parallelism_splits_heads_width_and_vocabulary),
      cmocka_unit_test(grouped_heads_make_the_qkv_gemm_narrower),
      cmocka_unit_test(an_augmented_query_is_two_gemms),
      cmocka_unit_test(forward_flops_are_the_papers_closed_form),
      cmocka_unit_test(training_has_three_times_the_forward_flops),
      cmocka_unit_test(gradients_are_gemms_of_the_right_shape),
      cmocka_unit_test(the_backward_pass_runs_after_the_forward_one_in_reverse),
      cmocka_unit_test(prefill_makes_logits_for_the_last_token_alone),
      cmocka_unit_test(decode_reads_the_cache_of_one_token_a_sequence),
      cmocka_unit_test(a_sliding_window_shortens_decode_and_the_fused_kernel),
      cmocka_unit_test(a_token_sees_its_own_chunk),
      cmocka_unit_test(layers_with_and_without_a_window_are_listed_separately),
      cmocka_unit_test(fused_attention_counts_entries_below_the_diagonal),
      cmocka_unit_test(a_degree_that_does_not_divide_describes_the_most_loaded_device),
      cmocka_unit_test(memory_operators_count_what_they_read_and_write),
      cmocka_unit_test(dropout_is_four_operators_where_a_step_has_it),
      cmocka_unit_test(a_framework_stores_the_mask_of_dropout),
      cmocka_unit_test(a_parallel_block_has_one_norm_one_residual_and_one_message),
      cmocka_unit_test(a_narrow_embedding_is_projected_in_and_out),
      cmocka_unit_test(counts_that_overflow_name_the_operator),
      cmocka_unit_test(an_operator_is_named_with_its_pass),
      cmocka_unit_test(training_computes_a_loss_of_the_logits),
      cmocka_unit_test(the_optimizer_updates_each_parameter_that_the_device_keeps),
      cmocka_unit_test(sequence_parallelism_scatters_and_gathers_instead_of_reducing),
      cmocka_unit_test(context_parallel_devices_have_equal_parts_of_the_causal_mask),
      cmocka_unit_test(stages_send_the_activations_of_a_microbatch),
      cmocka_unit_test(the_zero_stage_decides_what_replicas_send),
      cmocka_unit_test(selective_recomputation_repeats_attention_alone),
      cmocka_unit_test(decode_steps_of_few_tokens_have_fewer_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

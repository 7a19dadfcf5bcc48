/* The operators of a step, one small function each, in the order in which a step runs them.
 *
 * Sizes: Anthony et al. 2024 (arXiv 2401.14489), Table II, for unequal K and V heads; docs/operators.md has them
 * all. */
#include "analysis/model/operator_builder.h"

#include "base/error.h"

static hr_checked64 rows_of(const hr_operator_builder *builder, int64_t columns)
{
  return hr_times(hr_checked(builder->shard.rows), columns);
}

/* A linear map y = x Wᵀ of `rows` tokens. */
static void linear(hr_operator_builder *builder, hr_operator_id id, int64_t count, int64_t rows, int64_t outputs,
                   int64_t inputs)
{
  hr_gemm_sizes product = {
      .m = rows, .n = outputs, .k = inputs, .transpose_b = true, .matrices_a = 1, .matrices_b = 1, .matrices_c = 1};
  hr_append_gemm(builder, id, HR_KIND_GEMM, HR_PASS_FORWARD, count, &product);
}

static void layer_linear(hr_operator_builder *builder, hr_operator_id id, int64_t outputs, int64_t inputs)
{
  linear(builder, id, builder->model->layers, builder->shard.rows, outputs, inputs);
}

/* An operator that streams `elements` so many times forward and so many times backward. */
static void memory(hr_operator_builder *builder, hr_operator_id id, int64_t count, hr_checked64 elements,
                   int64_t forward_moves, int64_t backward_moves)
{
  hr_append_traffic(builder, id, HR_KIND_MEMORY, count, hr_times(elements, forward_moves),
                    hr_times(elements, backward_moves));
}

/* Reads x and writes y; backward reads x and dy and writes dx. The weights are too small to count. */
static void norm(hr_operator_builder *builder, hr_operator_id id, int64_t count, int64_t width)
{
  memory(builder, id, count, rows_of(builder, width), 2, 3);
}

/* Reads a row of the table for each token and writes it; learned positions are read once for all sequences. Backward
 * reads the gradient and adds it to the rows of the table's. */
static void embedding(hr_operator_builder *builder)
{
  const hr_model *model = builder->model;
  hr_checked64 tokens = rows_of(builder, builder->shard.embedding_dim);
  hr_checked64 positions = hr_checked(0);
  if (model->positions == HR_POSITIONS_LEARNED)
    positions = hr_times(hr_checked(builder->shard.q_len), model->hidden);
  hr_append_traffic(builder, HR_OP_EMBEDDING, HR_KIND_MEMORY, 1, hr_plus(hr_times(tokens, 2), positions),
                    hr_plus(hr_times(tokens, 3), hr_times(positions, 2)));
  if (model->embedding_norm)
    norm(builder, HR_OP_EMBEDDING_NORM, 1, builder->shard.embedding_dim);
  if (builder->shard.embedding_dim != model->hidden)
    linear(builder, HR_OP_EMBEDDING_PROJECTION_IN, 1, builder->shard.rows, model->hidden, builder->shard.embedding_dim);
}

/* One product for Q, K and V. With an augmented Q (SIGMA, Table 7) its two maps stand alone: the first one's result is
 * held whole by every device, so q_rank is not split, and the second is split over the heads. */
static void qkv_transform(hr_operator_builder *builder)
{
  const hr_shard *shard = &builder->shard;
  int64_t hidden = builder->model->hidden, rank = builder->model->q_rank;
  if (rank == 0) {
    layer_linear(builder, HR_OP_QKV_TRANSFORM, shard->q_columns + shard->k_columns + shard->v_columns, hidden);
    return;
  }
  layer_linear(builder, HR_OP_Q_DOWN, rank, hidden);
  layer_linear(builder, HR_OP_Q_UP, shard->q_columns, rank);
  layer_linear(builder, HR_OP_K_TRANSFORM, shard->k_columns, hidden);
  layer_linear(builder, HR_OP_V_TRANSFORM, shard->v_columns, hidden);
}

static void qk_norm(hr_operator_builder *builder)
{
  if (builder->model->qk_norm != HR_QK_NORM_NONE)
    norm(builder, HR_OP_QK_NORM, builder->model->layers, builder->shard.q_columns + builder->shard.k_columns);
}

/* Reads and writes the rotated part of Q and K; backward rotates the gradients back. */
static void rotary(hr_operator_builder *builder)
{
  const hr_model *model = builder->model;
  if (model->positions != HR_POSITIONS_ROTARY || model->rotary_dim == 0)
    return;
  hr_checked64 elements =
      hr_times(rows_of(builder, builder->shard.q_heads + builder->shard.k_heads), model->rotary_dim);
  memory(builder, HR_OP_ROTARY, model->layers, elements, 2, 2);
}

/* Scores, softmax and over-value through memory, over the whole q_len × kv_len rectangle. */
static void unfused_attention(hr_operator_builder *builder, int64_t count, int64_t kv_len)
{
  const hr_model *model = builder->model;
  const hr_shard *shard = &builder->shard;
  int64_t q_len = shard->q_len, batch = builder->workload->batch; /* below 2^40, and so are the heads: see the checks */
  hr_checked64 q = hr_times(hr_checked(batch), shard->q_heads);
  hr_checked64 k = hr_times(hr_checked(batch), shard->k_heads);
  hr_checked64 v = hr_times(hr_checked(batch), shard->v_heads);
  if (q.overflow || k.overflow || v.overflow) {
    builder->overflow = true;
    builder->overflow_id = HR_OP_ATTENTION_SCORE;
    return;
  }
  hr_gemm_sizes score = {.m = q_len,
                         .n = kv_len,
                         .k = model->qk_dim,
                         .transpose_b = true,
                         .matrices_a = q.value,
                         .matrices_b = k.value,
                         .matrices_c = q.value};
  hr_gemm_sizes over_value = {
      .m = q_len, .n = model->v_dim, .k = kv_len, .matrices_a = q.value, .matrices_b = v.value, .matrices_c = q.value};
  hr_checked64 scores = hr_times(hr_times(q, q_len), kv_len);
  hr_append_gemm(builder, HR_OP_ATTENTION_SCORE, HR_KIND_BMM, HR_PASS_FORWARD, count, &score);
  /* Reads and writes the scores; backward reads P and dP and writes dS. */
  memory(builder, HR_OP_SOFTMAX, count, scores, 2, 3);
  hr_append_gemm(builder, HR_OP_ATTENTION_OVER_VALUE, HR_KIND_BMM, HR_PASS_FORWARD, count, &over_value);
}

static void fused_attention(hr_operator_builder *builder, int64_t count, int64_t kv_len, int64_t window)
{
  const hr_shard *shard = &builder->shard;
  hr_operator *op = hr_append_operator(builder, HR_OP_ATTENTION, HR_KIND_ATTENTION, HR_PASS_FORWARD, count);
  hr_attention *a = &op->attention;
  *a = hr_attention_default();
  a->batch = builder->workload->batch;
  a->q_len = shard->q_len;
  a->kv_len = kv_len;
  a->q_heads = shard->q_heads;
  /* A degree that does not divide the heads can leave query heads that K or V heads do not divide (32 over 8 on 3
   * devices: 11 over 3). A kernel needs equal groups, so more K or V heads are then held. */
  a->k_heads = hr_divisor_at_least(shard->q_heads, shard->k_heads);
  a->v_heads = hr_divisor_at_least(shard->q_heads, shard->v_heads);
  a->qk_dim = builder->model->qk_dim;
  a->v_dim = builder->model->v_dim;
  a->dtype = builder->workload->dtype;
  a->window = window;
  if (hr_attention_flops(a, &op->flops) != HR_OK || hr_attention_bytes(a, &op->bytes) != HR_OK) {
    builder->overflow_id = builder->overflow ? builder->overflow_id : HR_OP_ATTENTION;
    builder->overflow = true;
  }
}

/* Layers with a sliding window stand apart where it changes their sizes: in decode they read `window` keys of the
 * cache, and a fused kernel skips what lies outside. Unfused scores are computed for the whole square and masked. */
static void attention(hr_operator_builder *builder)
{
  const hr_model *model = builder->model;
  bool decode = builder->workload->phase == HR_PHASE_DECODE;
  bool fused = builder->workload->attention == HR_ATTENTION_FUSED;
  int64_t kv_len = builder->shard.kv_len;
  bool window_counts = (decode || fused) && model->window > 0 && model->window < kv_len;
  int64_t windowed = window_counts ? hr_min64(model->window_layers, model->layers) : 0;
  int64_t full = model->layers - windowed;
  int64_t windowed_kv_len = decode ? hr_min64(model->window, kv_len) : kv_len;

  if (full > 0 && fused)
    fused_attention(builder, full, kv_len, 0);
  else if (full > 0)
    unfused_attention(builder, full, kv_len);
  if (windowed > 0 && fused)
    fused_attention(builder, windowed, windowed_kv_len, decode ? 0 : model->window);
  else if (windowed > 0)
    unfused_attention(builder, windowed, windowed_kv_len);
}

/* The message is the activations of all tokens; in training the gradients of a branch's input are summed the same way.
 * A parallel block sums both branches at once, but has two inputs to sum in the backward pass where it has two
 * norms. */
static void all_reduce(hr_operator_builder *builder, hr_operator_id id, int64_t inputs)
{
  hr_checked64 message = rows_of(builder, builder->model->hidden);
  if (builder->workload->tensor_parallel > 1)
    hr_append_traffic(builder, id, HR_KIND_COMMUNICATION, builder->model->layers, message, hr_times(message, inputs));
}

/* Reads the terms and writes their sum; backward sums as many gradients. */
static void residual(hr_operator_builder *builder, hr_operator_id id, int64_t terms)
{
  memory(builder, id, builder->model->layers, rows_of(builder, builder->model->hidden), terms + 1, terms + 1);
}

static void attention_block(hr_operator_builder *builder)
{
  const hr_model *model = builder->model;
  if (model->layer_norms >= 1)
    norm(builder, HR_OP_ATTENTION_NORM, model->layers, model->hidden);
  qkv_transform(builder);
  qk_norm(builder);
  rotary(builder);
  attention(builder);
  layer_linear(builder, HR_OP_LINEAR_PROJECTION, model->hidden, builder->shard.o_columns);
  if (!model->parallel_block)
    all_reduce(builder, HR_OP_ATTENTION_ALL_REDUCE, 1);
  if (model->layer_norms >= 3)
    norm(builder, HR_OP_ATTENTION_POST_NORM, model->layers, model->hidden);
  if (!model->parallel_block)
    residual(builder, HR_OP_ATTENTION_RESIDUAL, 2);
}

/* Reads up (and gate) and writes their combination; backward also reads the gradient and writes one for each input. */
static void activation(hr_operator_builder *builder)
{
  int64_t inputs = builder->model->mlp_gated ? 2 : 1;
  memory(builder, HR_OP_ACTIVATION, builder->model->layers, rows_of(builder, builder->shard.mlp_width), inputs + 1,
         2 * inputs + 1);
}

static void mlp_block(hr_operator_builder *builder)
{
  const hr_model *model = builder->model;
  if (model->layer_norms >= 2)
    norm(builder, HR_OP_MLP_NORM, model->layers, model->hidden);
  layer_linear(builder, HR_OP_MLP_UP, builder->shard.mlp_width, model->hidden);
  if (model->mlp_gated)
    layer_linear(builder, HR_OP_MLP_GATE, builder->shard.mlp_width, model->hidden);
  activation(builder);
  layer_linear(builder, HR_OP_MLP_DOWN, model->hidden, builder->shard.mlp_width);
  all_reduce(builder, HR_OP_MLP_ALL_REDUCE, model->parallel_block && model->layer_norms > 1 ? 2 : 1);
  if (model->layer_norms >= 4)
    norm(builder, HR_OP_MLP_POST_NORM, model->layers, model->hidden);
  residual(builder, HR_OP_MLP_RESIDUAL, model->parallel_block ? 3 : 2);
}

static void head(hr_operator_builder *builder)
{
  const hr_model *model = builder->model;
  const hr_shard *shard = &builder->shard;
  if (model->final_norm)
    norm(builder, HR_OP_FINAL_NORM, 1, model->hidden);
  if (shard->embedding_dim != model->hidden)
    linear(builder, HR_OP_EMBEDDING_PROJECTION_OUT, 1, shard->logit_rows, shard->embedding_dim, model->hidden);
  linear(builder, HR_OP_LOGIT, 1, shard->logit_rows, shard->vocabulary, shard->embedding_dim);
}

static hr_status sum_up(hr_operators *operators, hr_error *error)
{
  hr_checked64 flops = hr_checked(0), bytes = hr_checked(0);
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    flops = hr_plus(flops, hr_times(hr_checked(op->flops), op->count));
    if (op->kind != HR_KIND_COMMUNICATION)
      bytes = hr_plus(bytes, hr_times(hr_checked(op->bytes), op->count));
  }
  if (flops.overflow || bytes.overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the step's operations or bytes do not fit into 63 bits");
  operators->flops = flops.value;
  operators->bytes = bytes.value;
  return HR_OK;
}

hr_status hr_operators_list(const hr_model *model, const hr_workload *workload, hr_operators *operators,
                            hr_error *error)
{
  HR_NEED(error, model, workload, operators);
  hr_operator_builder builder; /* not cleared: the search builds a hundred thousand of these a second */
  builder.model = model;
  builder.workload = workload;
  builder.to = operators;
  builder.overflow = false;
  operators->count = 0;
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  HR_TRY(hr_shard_sizes(model, workload, &builder.shard, error));

  embedding(&builder);
  attention_block(&builder);
  mlp_block(&builder);
  head(&builder);
  if (!builder.overflow && workload->phase == HR_PHASE_TRAIN)
    hr_append_backward(&builder);
  if (builder.overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: its operations or bytes do not fit into 63 bits",
                   hr_operator_id_name(builder.overflow_id));
  return sum_up(operators, error);
}

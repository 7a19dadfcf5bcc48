/* The operators of a step, one small function each, in the order in which a step runs them.
 *
 * Sizes: Anthony et al. 2024 (arXiv 2401.14489), Table II, for unequal K and V heads; docs/operators.md has them
 * all. */
#include "analysis/model/operator_list.h"

#include "base/error.h"

static hr_checked64 rows_of(const hr_operator_list *list, int64_t columns)
{
  return hr_times(hr_checked(list->split.rows), columns);
}

/* A linear map y = x Wᵀ of `rows` tokens. */
static void linear(hr_operator_list *list, hr_operator_id id, int64_t count, int64_t rows, int64_t outputs,
                   int64_t inputs)
{
  hr_product product = {
      .m = rows, .n = outputs, .k = inputs, .transpose_b = true, .matrices_a = 1, .matrices_b = 1, .matrices_c = 1};
  hr_append_product(list, id, HR_KIND_GEMM, HR_PASS_FORWARD, count, &product);
}

static void layer_linear(hr_operator_list *list, hr_operator_id id, int64_t outputs, int64_t inputs)
{
  linear(list, id, list->model->layers, list->split.rows, outputs, inputs);
}

/* An operator that streams `elements` so many times forward and so many times backward. */
static void memory(hr_operator_list *list, hr_operator_id id, int64_t count, hr_checked64 elements,
                   int64_t forward_moves, int64_t backward_moves)
{
  hr_append_moves(list, id, HR_KIND_MEMORY, count, hr_times(elements, forward_moves),
                  hr_times(elements, backward_moves));
}

/* Reads x and writes y; backward reads x and dy and writes dx. The weights are too small to count. */
static void norm(hr_operator_list *list, hr_operator_id id, int64_t count, int64_t width)
{
  memory(list, id, count, rows_of(list, width), 2, 3);
}

/* Reads a row of the table for each token and writes it; learned positions are read once for all sequences. Backward
 * reads the gradient and adds it to the rows of the table's. */
static void embedding(hr_operator_list *list)
{
  const hr_model *model = list->model;
  hr_checked64 tokens = rows_of(list, list->split.embedding_dim);
  hr_checked64 positions = hr_checked(0);
  if (model->positions == HR_POSITIONS_LEARNED)
    positions = hr_times(hr_checked(list->split.q_len), model->hidden);
  hr_append_moves(list, HR_OP_EMBEDDING, HR_KIND_MEMORY, 1, hr_plus(hr_times(tokens, 2), positions),
                  hr_plus(hr_times(tokens, 3), hr_times(positions, 2)));
  if (model->embedding_norm)
    norm(list, HR_OP_EMBEDDING_NORM, 1, list->split.embedding_dim);
  if (list->split.embedding_dim != model->hidden)
    linear(list, HR_OP_EMBEDDING_PROJECTION_IN, 1, list->split.rows, model->hidden, list->split.embedding_dim);
}

/* One product for Q, K and V. With an augmented Q (SIGMA, Table 7) its two maps stand alone: the first one's result is
 * held whole by every device, so q_rank is not split, and the second is split over the heads. */
static void qkv_transform(hr_operator_list *list)
{
  const hr_split *split = &list->split;
  int64_t hidden = list->model->hidden, rank = list->model->q_rank;
  if (rank == 0) {
    layer_linear(list, HR_OP_QKV_TRANSFORM, split->q_columns + split->k_columns + split->v_columns, hidden);
    return;
  }
  layer_linear(list, HR_OP_Q_DOWN, rank, hidden);
  layer_linear(list, HR_OP_Q_UP, split->q_columns, rank);
  layer_linear(list, HR_OP_K_TRANSFORM, split->k_columns, hidden);
  layer_linear(list, HR_OP_V_TRANSFORM, split->v_columns, hidden);
}

static void qk_norm(hr_operator_list *list)
{
  if (list->model->qk_norm != HR_QK_NORM_NONE)
    norm(list, HR_OP_QK_NORM, list->model->layers, list->split.q_columns + list->split.k_columns);
}

/* Reads and writes the rotated part of Q and K; backward rotates the gradients back. */
static void rotary(hr_operator_list *list)
{
  const hr_model *model = list->model;
  if (model->positions != HR_POSITIONS_ROTARY || model->rotary_dim == 0)
    return;
  hr_checked64 elements = hr_times(rows_of(list, list->split.q_heads + list->split.k_heads), model->rotary_dim);
  memory(list, HR_OP_ROTARY, model->layers, elements, 2, 2);
}

/* Scores, softmax and over-value through memory, over the whole q_len × kv_len rectangle. */
static void unfused_attention(hr_operator_list *list, int64_t count, int64_t kv_len)
{
  const hr_model *model = list->model;
  const hr_split *split = &list->split;
  int64_t q_len = split->q_len, batch = list->workload->batch; /* below 2^40, and so are the heads: see the checks */
  hr_checked64 q = hr_times(hr_checked(batch), split->q_heads);
  hr_checked64 k = hr_times(hr_checked(batch), split->k_heads);
  hr_checked64 v = hr_times(hr_checked(batch), split->v_heads);
  if (q.overflow || k.overflow || v.overflow) {
    list->overflow = true;
    list->overflow_id = HR_OP_ATTENTION_SCORE;
    return;
  }
  hr_product score = {.m = q_len,
                      .n = kv_len,
                      .k = model->qk_dim,
                      .transpose_b = true,
                      .matrices_a = q.value,
                      .matrices_b = k.value,
                      .matrices_c = q.value};
  hr_product over_value = {
      .m = q_len, .n = model->v_dim, .k = kv_len, .matrices_a = q.value, .matrices_b = v.value, .matrices_c = q.value};
  hr_checked64 scores = hr_times(hr_times(q, q_len), kv_len);
  hr_append_product(list, HR_OP_ATTENTION_SCORE, HR_KIND_BMM, HR_PASS_FORWARD, count, &score);
  /* Reads and writes the scores; backward reads P and dP and writes dS. */
  memory(list, HR_OP_SOFTMAX, count, scores, 2, 3);
  hr_append_product(list, HR_OP_ATTENTION_OVER_VALUE, HR_KIND_BMM, HR_PASS_FORWARD, count, &over_value);
}

static void fused_attention(hr_operator_list *list, int64_t count, int64_t kv_len, int64_t window)
{
  const hr_split *split = &list->split;
  hr_operator *op = hr_append_operator(list, HR_OP_ATTENTION, HR_KIND_ATTENTION, HR_PASS_FORWARD, count);
  hr_attention *a = &op->attention;
  *a = hr_attention_default();
  a->batch = list->workload->batch;
  a->q_len = split->q_len;
  a->kv_len = kv_len;
  a->q_heads = split->q_heads;
  /* A degree that does not divide the heads can leave query heads that K or V heads do not divide (32 over 8 on 3
   * devices: 11 over 3). A kernel needs equal groups, so more K or V heads are then held. */
  a->k_heads = hr_divisor_at_least(split->q_heads, split->k_heads);
  a->v_heads = hr_divisor_at_least(split->q_heads, split->v_heads);
  a->qk_dim = list->model->qk_dim;
  a->v_dim = list->model->v_dim;
  a->dtype = list->workload->dtype;
  a->window = window;
  if (hr_attention_flops(a, &op->flops) != HR_OK || hr_attention_bytes(a, &op->bytes) != HR_OK) {
    list->overflow_id = list->overflow ? list->overflow_id : HR_OP_ATTENTION;
    list->overflow = true;
  }
}

/* Layers with a sliding window stand apart where it changes their sizes: in decode they read `window` keys of the
 * cache, and a fused kernel skips what lies outside. Unfused scores are computed for the whole square and masked. */
static void attention(hr_operator_list *list)
{
  const hr_model *model = list->model;
  bool decode = list->workload->phase == HR_PHASE_DECODE;
  bool fused = list->workload->attention == HR_ATTENTION_FUSED;
  int64_t kv_len = list->split.kv_len;
  bool window_counts = (decode || fused) && model->window > 0 && model->window < kv_len;
  int64_t windowed = window_counts ? hr_min64(model->window_layers, model->layers) : 0;
  int64_t full = model->layers - windowed;
  int64_t windowed_kv_len = decode ? hr_min64(model->window, kv_len) : kv_len;

  if (full > 0 && fused)
    fused_attention(list, full, kv_len, 0);
  else if (full > 0)
    unfused_attention(list, full, kv_len);
  if (windowed > 0 && fused)
    fused_attention(list, windowed, windowed_kv_len, decode ? 0 : model->window);
  else if (windowed > 0)
    unfused_attention(list, windowed, windowed_kv_len);
}

/* The message is the activations of all tokens; in training the gradients of a branch's input are summed the same way.
 * A parallel block sums both branches at once, but has two inputs to sum in the backward pass where it has two
 * norms. */
static void all_reduce(hr_operator_list *list, hr_operator_id id, int64_t inputs)
{
  hr_checked64 message = rows_of(list, list->model->hidden);
  if (list->workload->tensor_parallel > 1)
    hr_append_moves(list, id, HR_KIND_COMMUNICATION, list->model->layers, message, hr_times(message, inputs));
}

/* Reads the terms and writes their sum; backward sums as many gradients. */
static void residual(hr_operator_list *list, hr_operator_id id, int64_t terms)
{
  memory(list, id, list->model->layers, rows_of(list, list->model->hidden), terms + 1, terms + 1);
}

static void attention_block(hr_operator_list *list)
{
  const hr_model *model = list->model;
  if (model->layer_norms >= 1)
    norm(list, HR_OP_ATTENTION_NORM, model->layers, model->hidden);
  qkv_transform(list);
  qk_norm(list);
  rotary(list);
  attention(list);
  layer_linear(list, HR_OP_LINEAR_PROJECTION, model->hidden, list->split.o_columns);
  if (!model->parallel_block)
    all_reduce(list, HR_OP_ATTENTION_ALL_REDUCE, 1);
  if (model->layer_norms >= 3)
    norm(list, HR_OP_ATTENTION_POST_NORM, model->layers, model->hidden);
  if (!model->parallel_block)
    residual(list, HR_OP_ATTENTION_RESIDUAL, 2);
}

/* Reads up (and gate) and writes their combination; backward also reads the gradient and writes one for each input. */
static void activation(hr_operator_list *list)
{
  int64_t inputs = list->model->mlp_gated ? 2 : 1;
  memory(list, HR_OP_ACTIVATION, list->model->layers, rows_of(list, list->split.mlp_width), inputs + 1, 2 * inputs + 1);
}

static void mlp_block(hr_operator_list *list)
{
  const hr_model *model = list->model;
  if (model->layer_norms >= 2)
    norm(list, HR_OP_MLP_NORM, model->layers, model->hidden);
  layer_linear(list, HR_OP_MLP_UP, list->split.mlp_width, model->hidden);
  if (model->mlp_gated)
    layer_linear(list, HR_OP_MLP_GATE, list->split.mlp_width, model->hidden);
  activation(list);
  layer_linear(list, HR_OP_MLP_DOWN, model->hidden, list->split.mlp_width);
  all_reduce(list, HR_OP_MLP_ALL_REDUCE, model->parallel_block && model->layer_norms > 1 ? 2 : 1);
  if (model->layer_norms >= 4)
    norm(list, HR_OP_MLP_POST_NORM, model->layers, model->hidden);
  residual(list, HR_OP_MLP_RESIDUAL, model->parallel_block ? 3 : 2);
}

static void head(hr_operator_list *list)
{
  const hr_model *model = list->model;
  const hr_split *split = &list->split;
  if (model->final_norm)
    norm(list, HR_OP_FINAL_NORM, 1, model->hidden);
  if (split->embedding_dim != model->hidden)
    linear(list, HR_OP_EMBEDDING_PROJECTION_OUT, 1, split->logit_rows, split->embedding_dim, model->hidden);
  linear(list, HR_OP_LOGIT, 1, split->logit_rows, split->vocabulary, split->embedding_dim);
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
  hr_operator_list list; /* not cleared: the search builds a hundred thousand of these a second */
  list.model = model;
  list.workload = workload;
  list.to = operators;
  list.overflow = false;
  operators->count = 0;
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  HR_TRY(hr_split_sizes(model, workload, &list.split, error));

  embedding(&list);
  attention_block(&list);
  mlp_block(&list);
  head(&list);
  if (!list.overflow && workload->phase == HR_PHASE_TRAIN)
    hr_append_backward(&list);
  if (list.overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: its operations or bytes do not fit into 63 bits",
                   hr_operator_id_name(list.overflow_id));
  return sum_up(operators, error);
}

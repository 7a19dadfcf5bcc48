/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of a step, one function each, in the order in which a step runs them.
 *
 * Sizes: Anthony et al. 2024 (arXiv 2401.14489), Table II, for unequal K and V heads: docs/operators.md. */
#include "analysis/model/operator_builder.h"

#include "base/error.h"

static hr_checked64 rows_of(const hr_operator_builder *builder, int64_t columns)
{
  return hr_times(hr_checked(builder->shard.rows), columns);
}

/* A linear layer y = x Wᵀ over `rows` tokens. */
static void linear(hr_operator_builder *builder, hr_operator_id id, int64_t count, int64_t rows, int64_t outputs,
                   int64_t inputs)
{
  hr_gemm_sizes sizes = {
      .m = rows, .n = outputs, .k = inputs, .transpose_b = true, .matrices_a = 1, .matrices_b = 1, .matrices_c = 1};
  hr_append_gemm(builder, id, HR_KIND_GEMM, HR_PASS_FORWARD, count, &sizes);
}

static void layer_linear(hr_operator_builder *builder, hr_operator_id id, int64_t outputs, int64_t inputs)
{
  linear(builder, id, builder->model->layers, builder->shard.rows, outputs, inputs);
}

/* An operator that reads or writes `elements` so many times forward and backward. */
static void memory(hr_operator_builder *builder, hr_operator_id id, int64_t count, hr_checked64 elements,
                   int64_t forward_moves, int64_t backward_moves)
{
  hr_append_traffic(builder, id, HR_KIND_MEMORY, count, hr_times(elements, forward_moves),
                    hr_times(elements, backward_moves));
}

/* Reads x, writes y; backward reads x and dy, writes dx. The weights are negligible. */
static void norm(hr_operator_builder *builder, hr_operator_id id, int64_t count, int64_t width)
{
  memory(builder, id, count, rows_of(builder, width), 2, 3);
}

/* Reads and writes one table row per token; learned positions are read once for all sequences. Backward reads the
 * gradient and adds it to the rows of the table's gradient. */
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

/* One GEMM for Q, K and V. An augmented Q (SIGMA, Table 7) is two GEMMs of its own: every device holds the whole result
 * of the first, so q_rank is not split; the second is split over the heads. */
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

/* The message is the activations of all tokens; training also reduces the gradients of each branch's input. A parallel
 * block reduces both branches at once, but with two norms it has two input gradients to reduce. */
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
  hr_append_attention(builder);
  layer_linear(builder, HR_OP_LINEAR_PROJECTION, model->hidden, builder->shard.o_columns);
  if (!model->parallel_block)
    all_reduce(builder, HR_OP_ATTENTION_ALL_REDUCE, 1);
  if (model->layer_norms >= 3)
    norm(builder, HR_OP_ATTENTION_POST_NORM, model->layers, model->hidden);
  if (!model->parallel_block)
    residual(builder, HR_OP_ATTENTION_RESIDUAL, 2);
}

/* Reads up (and gate), writes the result; backward also reads the gradient and writes one per input. */
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
    return hr_fail(error, HR_ERROR_OVERFLOW, "the FLOPs or bytes of the step do not fit into 63 bits");
  operators->flops = flops.value;
  operators->bytes = bytes.value;
  return HR_OK;
}

hr_status hr_operators_list(const hr_model *model, const hr_workload *workload, hr_operators *operators,
                            hr_error *error)
{
  HR_NEED(error, model, workload, operators);
  hr_operator_builder builder; /* not cleared: a search builds a hundred thousand per second */
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
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: its FLOPs or bytes do not fit into 63 bits",
                   hr_operator_id_name(builder.overflow_id));
  return sum_up(operators, error);
}

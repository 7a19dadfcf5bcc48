/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of a step, one function each, in the order in which a step runs them.
 *
 * Sizes: Anthony et al. 2024 (arXiv 2401.14489), Table II, for unequal K and V heads: docs/operators.md. */
#include "model/layers/layer_kinds.h"
#include "model/layers/operator_tensors.h"
#include "model/operators/fp8_linears.h"
#include "model/operators/framework.h"
#include "model/operators/fused.h"

#include "base/error.h"
#include "base/struct_size.h"

#include <headroom/experimental/operators.h>

static int64_t streams_of(const hr_model *model)
{
  return hr_max64(model->residual_streams, 1);
}

static hr_checked64 rows_of(const hr_operator_builder *builder, int64_t columns)
{
  return hr_times(hr_checked(builder->shard.rows), columns);
}

/* Devices that share a layer's heads and columns and have its tokens in common between its blocks. */
static bool splits_columns(const hr_operator_builder *builder)
{
  return builder->workload->tensor_parallel > 1;
}

/* Each device has rows of the table, and zeros in the place of the others'. The sum's gradient is on all devices; with
 * sequence parallelism it is gathered. Source: Megatron-LM, VocabParallelEmbedding. */
static void add_up_embedding(hr_operator_builder *builder)
{
  const int64_t t = builder->workload->tensor_parallel;
  hr_checked64 message = rows_of(builder, builder->shard.embedding_dim);
  if (splits_columns(builder) && builder->workload->sequence_parallel)
    hr_append_communication(builder, HR_OP_EMBEDDING_REDUCE_SCATTER, HR_REDUCE_SCATTER, t, message, message);
  else if (splits_columns(builder))
    hr_append_communication(builder, HR_OP_EMBEDDING_ALL_REDUCE, HR_ALL_REDUCE, t, message, hr_checked(0));
}

/* Reads and writes one table row per token; learned positions are read once for all sequences. Backward reads the
 * gradient and adds it to the rows of the table's gradient. */
static void embedding(hr_operator_builder *builder)
{
  const hr_model *model = builder->model;
  int64_t width = builder->shard.embedding_dim;
  hr_checked64 tokens = rows_of(builder, width);
  hr_checked64 positions = hr_checked(0);
  if (model->positions == HR_POSITIONS_LEARNED)
    positions = hr_times(hr_checked(builder->shard.q_len), model->hidden);
  hr_append_traffic(builder, HR_OP_EMBEDDING, HR_KIND_MEMORY, width,
                    hr_plus(hr_times(tokens, 1 + streams_of(model)), positions),
                    hr_plus(hr_times(tokens, 2 + streams_of(model)), hr_times(positions, 2)));
  add_up_embedding(builder);
  if (model->embedding_norm)
    hr_append_norm(builder, HR_OP_EMBEDDING_NORM, hr_checked(builder->shard.stream_rows), width);
  hr_append_dropout(builder, HR_OP_EMBEDDING_DROPOUT, hr_checked(builder->shard.stream_rows), width);
  if (width != model->hidden)
    hr_append_linear(builder, HR_OP_EMBEDDING_PROJECTION_IN, builder->shard.rows, model->hidden, width);
}

static void hidden_norms(hr_operator_builder *builder, hr_operator_id id, int64_t count)
{
  for (int64_t i = 0; i < count; i++)
    hr_append_norm(builder, id, hr_checked(builder->shard.stream_rows), builder->model->hidden);
}

static void hidden_dropout(hr_operator_builder *builder, hr_operator_id id)
{
  hr_append_dropout(builder, id, hr_checked(builder->shard.stream_rows), builder->model->hidden);
}

/* With sequence parallelism the tokens of a block are gathered before it. Routed experts on several devices take the
 * tokens without gathering them. A block with two norms has two inputs. */
static void gather_tokens(hr_operator_builder *builder, hr_operator_id id, int64_t inputs)
{
  hr_checked64 message = hr_times(rows_of(builder, builder->model->hidden), inputs);
  if (splits_columns(builder) && builder->workload->sequence_parallel)
    hr_append_communication(builder, id, HR_ALL_GATHER, builder->workload->tensor_parallel, message, message);
}

/* Sums a block's parts: for every device, or with sequence parallelism each device's tokens for it. The message is the
 * activations of all tokens; training also reduces the gradients of each branch's input, which the gather does if there
 * is one. A parallel block reduces both branches at once, but with two norms it has two input gradients to reduce. */
static void reduce(hr_operator_builder *builder, hr_operator_id all_reduce, hr_operator_id reduce_scatter,
                   int64_t inputs)
{
  int64_t t = builder->workload->tensor_parallel;
  hr_checked64 message = rows_of(builder, builder->model->hidden);
  if (!splits_columns(builder))
    return;
  if (builder->workload->sequence_parallel)
    hr_append_communication(builder, reduce_scatter, HR_REDUCE_SCATTER, t, message, message);
  else
    hr_append_communication(builder, all_reduce, HR_ALL_REDUCE, t, message, hr_times(message, inputs));
}

/* Weights of all streams for each token, by one linear layer of all of them, and the weighted sum that a block reads.
 * Norm, sigmoids and Sinkhorn iterations are of so few numbers that they are left out. */
static void collapse(hr_operator_builder *builder, hr_operator_id weights, hr_operator_id sum, int64_t count)
{
  const int64_t n = builder->model->residual_streams, hidden = builder->model->hidden;
  hr_checked64 elements = hr_times(hr_checked(builder->shard.stream_rows), hidden);
  if (n == 0)
    return;
  hr_append_linear(builder, weights, builder->shard.stream_rows, count, n * hidden);
  hr_append_traffic(builder, sum, HR_KIND_MEMORY, hidden, hr_times(elements, n + 1), hr_times(elements, 2 * n + 1));
}

/* Weights of a block: of its input, of its output in each stream, and of each stream in each. */
static int64_t hc_weights(const hr_operator_builder *builder)
{
  const int64_t n = builder->model->residual_streams;
  return n * (2 + n);
}

/* Reads the terms and writes their sum; backward sums as many gradients. Several streams are all read and written, the
 * other terms are read once. */
static void residual(hr_operator_builder *builder, hr_operator_id id, int64_t terms)
{
  terms += 2 * (streams_of(builder->model) - 1);
  hr_append_rowwise(builder, id, hr_checked(builder->shard.stream_rows), builder->model->hidden, terms + 1, terms + 1);
}

static void append_kinds(hr_operator_builder *builder, bool mixers)
{
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    const hr_layer_kind *kind = hr_layer_kind_at(i);
    if (kind->is_mixer == mixers && kind->present(builder->layer))
      kind->operators(builder);
  }
}

/* The norms of a layer: before the mixer, before the feed-forward network, behind the mixer, behind the network. A
 * layer with only one of the two has one before it and one behind it; a parallel block may share the first. More than
 * four are before and behind the networks that a layer has beside each other. */
typedef struct layer_norms {
  int64_t before_mixer, behind_mixer, before_ffn, behind_ffn;
} layer_norms;

static layer_norms norms_of(const hr_layer_group *layer)
{
  bool mixer = hr_has_mixer(layer), ffn = hr_has_ffn(layer);
  int64_t n = layer->norms;
  if (mixer && ffn && layer->norms_behind)
    return (layer_norms){false, n >= 1, false, n >= 2};
  if (mixer && ffn)
    return (layer_norms){n >= 1, n >= 3, n > 4 ? n / 2 - 1 : n >= 2, n > 4 ? (n - 1) / 2 : n >= 4};
  return (layer_norms){mixer && n >= 1, mixer && n >= 2, ffn && n >= 1, ffn && n >= 2};
}

static void mixer_block(hr_operator_builder *builder, const layer_norms *norms, bool parallel)
{
  collapse(builder, HR_OP_ATTENTION_HC_WEIGHTS, HR_OP_ATTENTION_HC_PRE, hc_weights(builder));
  hidden_norms(builder, HR_OP_ATTENTION_NORM, norms->before_mixer);
  gather_tokens(builder, HR_OP_ATTENTION_ALL_GATHER, parallel && builder->layer->norms > 1 ? 2 : 1);
  append_kinds(builder, true);
  if (!parallel)
    reduce(builder, HR_OP_ATTENTION_ALL_REDUCE, HR_OP_ATTENTION_REDUCE_SCATTER, 1);
  hidden_norms(builder, HR_OP_ATTENTION_POST_NORM, norms->behind_mixer);
  hidden_dropout(builder, HR_OP_ATTENTION_DROPOUT);
  if (!parallel)
    residual(builder, HR_OP_ATTENTION_RESIDUAL, hr_count_mixers(builder->layer) + 1);
}

/* Routed experts that are whole exchange the tokens of each device, so that only the shared ones need those of all. */
static bool has_split_ffn(const hr_operator_builder *builder)
{
  const hr_layer_group *layer = builder->layer;
  bool whole = layer->experts.experts > 0 && builder->workload->expert_parallel > 1;
  return !whole || layer->experts.shared_width > 0 || layer->dense.width > 0 || !builder->workload->sequence_parallel;
}

static void ffn_block(hr_operator_builder *builder, const layer_norms *norms, bool parallel)
{
  collapse(builder, HR_OP_MLP_HC_WEIGHTS, HR_OP_MLP_HC_PRE, hc_weights(builder));
  hidden_norms(builder, HR_OP_MLP_NORM, norms->before_ffn);
  if (!parallel && has_split_ffn(builder))
    gather_tokens(builder, HR_OP_MLP_ALL_GATHER, 1);
  append_kinds(builder, false);
  if (parallel || has_split_ffn(builder))
    reduce(builder, HR_OP_MLP_ALL_REDUCE, HR_OP_MLP_REDUCE_SCATTER, parallel && builder->layer->norms > 1 ? 2 : 1);
  hidden_norms(builder, HR_OP_MLP_POST_NORM, norms->behind_ffn);
  hidden_dropout(builder, HR_OP_MLP_DROPOUT);
  residual(builder, HR_OP_MLP_RESIDUAL, parallel ? hr_count_mixers(builder->layer) + 2 : 2);
}

static void layers(hr_operator_builder *builder, const hr_layer_group *group)
{
  const hr_layer_group share = hr_shard_layer(builder->model, group, builder->workload);
  const layer_norms norms = norms_of(group);
  bool mixer = hr_has_mixer(group), ffn = hr_has_ffn(group), parallel = group->parallel_block && mixer && ffn;
  size_t first = builder->to->count;
  builder->layer = &share;
  builder->group = (size_t)(group - builder->model->groups);
  hr_begin_tensors(builder);
  if (mixer)
    mixer_block(builder, &norms, parallel);
  if (ffn)
    ffn_block(builder, &norms, parallel);
  builder->layer = NULL;
  if (group != builder->model->groups)
    hr_merge_operators(builder, first);
}

/* The activations of a microbatch go from each stage to the next, with v parts v times around, their gradients back. */
static void send_to_next_stage(hr_operator_builder *builder)
{
  const hr_workload *w = builder->workload;
  hr_checked64 token = hr_times(hr_checked(builder->model->hidden), streams_of(builder->model));
  hr_checked64 message = hr_times(token, builder->shard.stream_rows);
  if (w->pipeline_stages == 1)
    return;
  hr_append_communication(builder, HR_OP_PIPELINE_SEND, HR_POINT_TO_POINT, 2, message, message);
  builder->to->items[builder->to->count - 1].count = w->pipeline_stages * hr_virtual_stages(w) - 1;
  hr_set_stride(builder, hr_times(hr_times(hr_checked(w->tensor_parallel), w->context_parallel), w->data_parallel));
}

static void head(hr_operator_builder *builder)
{
  const hr_model *model = builder->model;
  const hr_shard *shard = &builder->shard;
  if (model->final_norm) {
    collapse(builder, HR_OP_FINAL_HC_WEIGHTS, HR_OP_FINAL_HC_PRE, model->residual_streams);
    hidden_norms(builder, HR_OP_FINAL_NORM, 1);
  }
  if (model->head != HR_HEAD_NONE)
    gather_tokens(builder, HR_OP_LOGIT_ALL_GATHER, 1);
  if (shard->embedding_dim != model->hidden)
    hr_append_linear(builder, HR_OP_EMBEDDING_PROJECTION_OUT, shard->logit_rows, shard->embedding_dim, model->hidden);
  if (model->head != HR_HEAD_NONE)
    hr_append_linear(builder, HR_OP_LOGIT, shard->logit_rows, shard->outputs, shard->embedding_dim);
}

/* Cross entropy reads the logits; backward it reads them again and writes their gradient. The few bytes that devices
 * with parts of the vocabulary exchange for each token are negligible. */
static void loss(hr_operator_builder *builder)
{
  const hr_shard *shard = &builder->shard;
  if (builder->workload->phase == HR_PHASE_TRAIN && builder->model->head != HR_HEAD_NONE)
    hr_append_rowwise(builder, HR_OP_LOSS, hr_checked(shard->logit_rows), shard->outputs, 1, 2);
}

static hr_status sum_up(hr_operators *operators, hr_error *error)
{
  hr_checked64 flops = hr_checked(0), bytes = hr_checked(0);
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    flops = hr_plus(flops, hr_times(hr_checked(op->flops), op->count));
    if (op->kind != HR_KIND_COMMUNICATION && hr_runs_with_microbatches(op->id))
      bytes = hr_plus(bytes, hr_times(hr_checked(op->bytes), op->count));
  }
  if (flops.overflow || bytes.overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the FLOPs or bytes of the step do not fit into 63 bits");
  operators->flops = flops.value;
  operators->bytes = bytes.value;
  return HR_OK;
}

static hr_status begin(const hr_model *model, const hr_workload *workload, hr_operators *operators,
                       hr_operator_builder *builder, hr_error *error)
{
  builder->model = model;
  builder->workload = workload;
  builder->to = operators;
  builder->layer = NULL;
  builder->held = NULL;
  builder->overflow = builder->full = false;
  operators->count = 0;
  return hr_shard_sizes(model, workload, &builder->shard, error);
}

static hr_status end(hr_operator_builder *builder, hr_error *error)
{
  const hr_workload *workload = builder->workload;
  if (!builder->overflow && workload->phase == HR_PHASE_TRAIN) {
    hr_append_backward(builder);
    HR_TRY(hr_append_updates(builder, error));
  }
  if (builder->overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: its FLOPs or bytes do not fit into 63 bits",
                   hr_operator_id_name(builder->overflow_id));
  if (builder->full)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "the layers differ so much that a step has more than %d operators",
                   HR_OPERATORS_MAX);
  hr_apply_framework(builder->model, workload, builder->to);
  hr_fuse_operators(builder->model, workload, builder->to);
  hr_multiply_in_fp8(workload, builder->to);
  return sum_up(builder->to, error);
}

hr_status hr_list_operators(const hr_model *model, const hr_workload *workload, hr_operators *operators,
                            hr_error *error)
{
  hr_operator_builder builder; /* not cleared: a search builds a hundred thousand per second */
  HR_TRY(begin(model, workload, operators, &builder, error));
  hr_begin_tensors(&builder);
  embedding(&builder);
  for (size_t i = 0; i < model->group_count; i++)
    layers(&builder, &model->groups[i]);
  send_to_next_stage(&builder);
  hr_begin_tensors(&builder);
  head(&builder);
  loss(&builder);
  return end(&builder, error);
}

hr_status hr_list_operators_between(const hr_model *model, const hr_workload *workload,
                                    const struct hr_held_parameters *held, hr_operators *operators, hr_error *error)
{
  hr_operator_builder builder;
  HR_TRY(begin(model, workload, operators, &builder, error));
  builder.weights[0] = builder.weights[1] = builder.written = 0; /* communication and updates name no tensors */
  builder.held = held;
  send_to_next_stage(&builder);
  return end(&builder, error);
}

hr_status hr_operators_list(const hr_model *model, const hr_workload *workload, hr_operators *operators,
                            hr_error *error)
{
  HR_NEED(error, model, workload, operators);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  return hr_list_operators(model, workload, operators, error);
}

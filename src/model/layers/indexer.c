/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/indexer.h"

#include "base/error.h"

#define INDEX_SCORE_BYTES 4 /* of a score in fp32, and of a key's number */

static int64_t choices(const hr_indexer *x)
{
  return x->sums_heads ? 1 : x->heads;
}

/* The operator is an attention of all heads over one K head, with a number instead of a value. The scores of the heads
 * are summed, or the largest of a block is taken, where they are computed, as in DeepGEMM's mqa_logits: only the result
 * is written, in fp32. */
static void index_score(hr_operator_builder *builder, const hr_indexer *x, hr_checked64 *scores)
{
  int64_t entries = 0, batch = builder->workload->batch, bytes = (int64_t)hr_dtype_bytes(builder->workload->dtype);
  hr_operator *op = hr_append_operator(builder, HR_OP_INDEX_SCORE, HR_KIND_ATTENTION, HR_PASS_FORWARD);
  hr_attention *a = &op->attention;
  *a = hr_attention_default();
  a->batch = batch, a->q_len = builder->shard.q_len, a->kv_len = builder->shard.kv_len;
  a->q_heads = x->heads, a->qk_dim = x->dim;
  a->k_heads = a->v_heads = a->v_dim = 1;
  a->dtype = builder->workload->dtype;
  if (hr_attention_entries(a, &entries) != HR_OK)
    hr_record_overflow(builder, HR_OP_INDEX_SCORE);
  hr_checked64 all = hr_times(hr_checked(entries), batch);
  hr_checked64 queries = hr_times(hr_times(hr_times(hr_checked(x->heads), x->dim), a->q_len), batch);
  hr_checked64 keys = hr_times(hr_times(hr_checked(a->kv_len), x->dim), batch);
  hr_checked64 read = hr_times(hr_plus(queries, keys), bytes);
  *scores = hr_times(hr_times(hr_checked(hr_ceil_div(entries, x->block)), batch), choices(x));
  hr_set_figure(builder, op, hr_times(hr_times(hr_times(all, 2), x->heads), x->dim), &op->flops);
  hr_set_figure(builder, op, hr_plus(read, hr_times(*scores, INDEX_SCORE_BYTES)), &op->bytes);
  hr_read_cache(builder, keys);
}

/* Reads the scores and writes the numbers of the chosen blocks. */
static void index_top_k(hr_operator_builder *builder, const hr_indexer *x, hr_checked64 scores)
{
  int64_t blocks = hr_ceil_div(builder->shard.kv_len, x->block);
  hr_operator *op = hr_append_operator(builder, HR_OP_INDEX_TOP_K, HR_KIND_MEMORY, HR_PASS_FORWARD);
  op->columns = blocks;
  hr_checked64 chosen =
      hr_times(hr_times(hr_checked(builder->shard.rows), choices(x)), hr_min64(blocks, x->topk / x->block));
  hr_set_figure(builder, op, hr_times(hr_plus(scores, chosen), INDEX_SCORE_BYTES), &op->bytes);
}

void hr_append_indexer(hr_operator_builder *builder, const hr_indexer *x)
{
  const int64_t rows = builder->shard.rows, hidden = builder->model->hidden;
  hr_checked64 scores, heads = hr_times(hr_checked(rows), x->heads + 1);
  if (x->heads == 0)
    return;
  hr_append_linear(builder, HR_OP_INDEX_Q, rows, x->heads * x->dim, x->inputs);
  hr_append_linear(builder, HR_OP_INDEX_K, rows, x->dim, hidden);
  hr_append_norm(builder, HR_OP_INDEX_NORM, x->sums_heads ? hr_checked(rows) : heads, x->dim);
  if (x->sums_heads)
    hr_append_linear(builder, HR_OP_INDEX_WEIGHTS, rows, x->heads, hidden);
  if (builder->model->positions == HR_POSITIONS_ROTARY && x->rotary_dim > 0)
    hr_append_rowwise(builder, HR_OP_INDEX_ROTARY, heads, x->rotary_dim, 2, 2);
  index_score(builder, x, &scores);
  index_top_k(builder, x, scores);
}

/* Servers compute the scores for some tokens at a time, in chunks of their own. */
hr_checked64 hr_index_elements(const hr_layer_context *c, const hr_indexer *x)
{
  int64_t wide = INDEX_SCORE_BYTES / hr_min64(INDEX_SCORE_BYTES, (int64_t)hr_dtype_bytes(c->workload->dtype));
  if (x->heads == 0)
    return hr_checked(0);
  hr_checked64 scores = hr_times(hr_checked(c->shard->rows), hr_ceil_div(c->shard->kv_len, x->block));
  return hr_times(hr_times(scores, choices(x)), wide);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/indexer.h"

#include "base/error.h"

#define INDEX_SCORE_BYTES 4 /* of a score in fp32, and of a key's number */

int64_t hr_keys_of_tokens(int64_t tokens, int64_t ratio)
{
  return ratio > 0 ? tokens / ratio : tokens;
}

/* The sum over the first `tokens` tokens. */
static hr_checked64 pairs_of_tokens(int64_t tokens, int64_t ratio, int64_t most)
{
  const int64_t keys = hr_keys_of_tokens(tokens, ratio), last = most > 0 ? hr_min64(keys, most) : keys;
  hr_attention whole = hr_attention_default();
  int64_t entries = 0;
  if (keys == 0)
    return hr_checked(0);
  whole.q_len = whole.kv_len = keys - 1;
  whole.window = most < keys - 1 ? most : 0;
  bool overflow = hr_attention_entries(&whole, &entries) != HR_OK;
  hr_checked64 sum =
      hr_plus(hr_times(hr_checked(entries), ratio), hr_times(hr_checked(last), tokens - keys * ratio + 1));
  sum.overflow = sum.overflow || overflow;
  return sum;
}

hr_checked64 hr_pairs_of_keys(const hr_operator_builder *builder, int64_t ratio, int64_t most)
{
  const int64_t tokens = builder->shard.kv_len, each = hr_max64(ratio, 1);
  hr_checked64 before = pairs_of_tokens(tokens - builder->shard.q_len, each, most);
  return hr_plus(pairs_of_tokens(tokens, each, most), hr_times(before, -1));
}

hr_attention_sequences hr_call_of_keys(const hr_operator_builder *builder, int64_t ratio)
{
  const int64_t each = builder->shard.q_len == 1 ? 1 : hr_max64(ratio, 1);
  return (hr_attention_sequences){.batch = builder->workload->batch * each,
                                  .q_len = hr_ceil_div(builder->shard.q_len, each),
                                  .kv_len = hr_keys_of_tokens(builder->shard.kv_len, ratio)};
}

static int64_t choices(const hr_indexer *x)
{
  return x->sums_heads ? 1 : x->heads;
}

/* The operator is an attention of all heads over one K head, with a number instead of a value. The scores of the heads
 * are summed, or the largest of a block is taken, where they are computed, as in DeepGEMM's mqa_logits: only the result
 * is written, in fp32. */
static void index_score(hr_operator_builder *builder, const hr_indexer *x, hr_checked64 *scores)
{
  int64_t batch = builder->workload->batch, bytes = (int64_t)hr_dtype_bytes(builder->workload->dtype);
  const hr_attention_sequences call = hr_call_of_keys(builder, x->ratio);
  hr_operator *op = hr_append_operator(builder, HR_OP_INDEX_SCORE, HR_KIND_ATTENTION, HR_PASS_FORWARD);
  hr_attention *a = &op->attention;
  *a = hr_attention_default();
  a->batch = call.batch, a->q_len = call.q_len, a->kv_len = call.kv_len;
  a->q_heads = x->heads, a->qk_dim = x->dim;
  a->k_heads = a->v_heads = a->v_dim = 1;
  a->dtype = builder->workload->dtype;
  hr_checked64 entries = hr_pairs_of_keys(builder, x->ratio, 0), all = hr_times(entries, batch);
  hr_checked64 queries = hr_times(hr_times(hr_checked(x->heads), x->dim), builder->shard.rows);
  hr_checked64 keys = hr_times(hr_times(hr_checked(a->kv_len), x->dim), batch);
  hr_checked64 read = hr_times(hr_plus(queries, keys), bytes);
  hr_checked64 kept = entries.overflow ? entries : hr_checked(hr_ceil_div(entries.value, x->block));
  *scores = hr_times(hr_times(kept, batch), choices(x));
  hr_set_figure(builder, op, hr_times(hr_times(hr_times(all, 2), x->heads), x->dim), &op->flops);
  hr_set_figure(builder, op, hr_plus(read, hr_times(*scores, INDEX_SCORE_BYTES)), &op->bytes);
  hr_read_cache(builder, keys);
}

/* Reads the scores and writes the numbers of the chosen blocks. */
static void index_top_k(hr_operator_builder *builder, const hr_indexer *x, hr_checked64 scores)
{
  int64_t blocks = hr_ceil_div(hr_keys_of_tokens(builder->shard.kv_len, x->ratio), x->block);
  hr_operator *op = hr_append_operator(builder, HR_OP_INDEX_TOP_K, HR_KIND_MEMORY, HR_PASS_FORWARD);
  op->columns = blocks;
  hr_checked64 chosen =
      hr_times(hr_times(hr_checked(builder->shard.rows), choices(x)), hr_min64(blocks, x->topk / x->block));
  hr_set_figure(builder, op, hr_times(hr_plus(scores, chosen), INDEX_SCORE_BYTES), &op->bytes);
}

/* A key of several tokens is a sum over them and those of the key before, weighted for each element: each token has two
 * vectors and their weights. */
static void make_keys(hr_operator_builder *builder, const hr_indexer *x)
{
  const int64_t rows = builder->shard.rows, parts = x->ratio > 0 ? 4 : 1, each = hr_max64(x->ratio, 1);
  hr_checked64 keys = hr_checked(hr_ceil_div(rows, each));
  hr_append_linear(builder, HR_OP_INDEX_K, rows, parts * x->dim, builder->model->hidden);
  if (x->ratio > 0) {
    hr_checked64 moved = hr_times(hr_plus(hr_checked(4 * rows), keys), x->dim);
    hr_append_traffic(builder, HR_OP_INDEX_COMPRESS, HR_KIND_MEMORY, x->dim, moved, hr_checked(0));
  }
  if (!x->sums_heads)
    keys = hr_plus(keys, hr_times(hr_checked(rows), x->heads));
  hr_append_norm(builder, HR_OP_INDEX_NORM, keys, x->dim);
}

void hr_append_indexer(hr_operator_builder *builder, const hr_indexer *x)
{
  const int64_t rows = builder->shard.rows;
  hr_checked64 scores;
  if (x->heads == 0)
    return;
  hr_append_linear(builder, HR_OP_INDEX_Q, rows, x->heads * x->dim, x->inputs);
  make_keys(builder, x);
  if (x->sums_heads)
    hr_append_linear(builder, HR_OP_INDEX_WEIGHTS, rows, x->heads, builder->model->hidden);
  hr_checked64 heads =
      hr_plus(hr_times(hr_checked(rows), x->heads), hr_checked(hr_ceil_div(rows, hr_max64(x->ratio, 1))));
  if (builder->model->positions == HR_POSITIONS_ROTARY && x->rotary_dim > 0)
    hr_append_rowwise(builder, HR_OP_INDEX_ROTARY, heads, x->rotary_dim, 2, 2);
  if (hr_keys_of_tokens(builder->shard.kv_len, x->ratio) == 0)
    return;
  index_score(builder, x, &scores);
  index_top_k(builder, x, scores);
}

/* Servers compute the scores for some tokens at a time, in chunks of their own. */
hr_checked64 hr_index_elements(const hr_layer_context *c, const hr_indexer *x)
{
  int64_t wide = INDEX_SCORE_BYTES / hr_min64(INDEX_SCORE_BYTES, (int64_t)hr_dtype_bytes(c->workload->dtype));
  if (x->heads == 0)
    return hr_checked(0);
  hr_checked64 scores =
      hr_times(hr_checked(c->shard->rows), hr_ceil_div(hr_keys_of_tokens(c->shard->kv_len, x->ratio), x->block));
  return hr_times(hr_times(scores, choices(x)), wide);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/attention_calls.h"

#include "base/error.h"

/* Scores, softmax and attention over value through memory, over the whole q_len × kv_len rectangle. */
static void unfused_attention(hr_operator_builder *builder, const hr_mixer_attention *m,
                              const hr_attention_sequences *call)
{
  hr_checked64 q = hr_times(hr_checked(call->batch), m->q_heads); /* below 2^40 each: both were checked */
  hr_checked64 k = hr_times(hr_checked(call->batch), m->k_heads);
  hr_checked64 v = hr_times(hr_checked(call->batch), m->v_heads);
  if (q.overflow || k.overflow || v.overflow) {
    hr_record_overflow(builder, HR_OP_ATTENTION_SCORE);
    return;
  }
  hr_gemm_sizes score = {.m = call->q_len,
                         .n = call->kv_len,
                         .k = m->qk_dim,
                         .transpose_b = true,
                         .matrices_a = q.value,
                         .matrices_b = k.value,
                         .matrices_c = q.value};
  hr_gemm_sizes over_value = {.m = call->q_len,
                              .n = m->v_dim,
                              .k = call->kv_len,
                              .matrices_a = q.value,
                              .matrices_b = v.value,
                              .matrices_c = q.value};
  hr_checked64 cached_k = hr_times(hr_times(k, call->kv_len), m->qk_dim);
  hr_checked64 cached_v = hr_times(hr_times(v, call->kv_len), m->v_dim);
  hr_append_gemm(builder, HR_OP_ATTENTION_SCORE, HR_KIND_BMM, HR_PASS_FORWARD, &score);
  hr_read_cache(builder, cached_k);
  /* Reads and writes the scores; backward reads P and dP and writes dS. */
  hr_append_rowwise(builder, HR_OP_SOFTMAX, hr_times(q, call->q_len), call->kv_len, 2, 3);
  hr_append_dropout(builder, HR_OP_SOFTMAX_DROPOUT, hr_times(q, call->q_len), call->kv_len);
  hr_append_gemm(builder, HR_OP_ATTENTION_OVER_VALUE, HR_KIND_BMM, HR_PASS_FORWARD, &over_value);
  hr_read_cache(builder, cached_v);
}

static void fused_attention(hr_operator_builder *builder, const hr_mixer_attention *m,
                            const hr_attention_sequences *call)
{
  hr_operator *op = hr_append_operator(builder, HR_OP_ATTENTION, HR_KIND_ATTENTION, HR_PASS_FORWARD);
  hr_attention *a = &op->attention;
  *a = hr_attention_default();
  a->batch = call->batch;
  a->q_len = call->q_len;
  a->kv_len = call->kv_len;
  a->q_heads = m->q_heads;
  /* If t does not divide the heads, the K or V heads may not divide the query heads (32 and 8 on 3 devices: 11 and 3).
   * A kernel needs groups of equal size, so the device then holds more K or V heads. */
  a->k_heads = hr_divisor_at_min(m->q_heads, m->k_heads);
  a->v_heads = hr_divisor_at_min(m->q_heads, m->v_heads);
  a->qk_dim = m->qk_dim;
  a->v_dim = m->v_dim;
  a->dtype = builder->workload->dtype;
  a->window = call->window;
  if (hr_attention_flops(a, &op->flops) != HR_OK || hr_attention_bytes(a, &op->bytes) != HR_OK)
    hr_record_overflow(builder, HR_OP_ATTENTION);
  hr_checked64 token = hr_plus(hr_times(hr_checked(a->k_heads), a->qk_dim), hr_times(hr_checked(a->v_heads), a->v_dim));
  hr_read_cache(builder, hr_times(hr_times(token, a->kv_len), a->batch));
}

/* The whole chunks of a call over several, and the tokens behind them as a call of their own. Context-parallel devices
 * share the chunks. */
static int64_t split_chunks(const hr_attention_sequences *whole, int64_t chunk, int64_t devices,
                            hr_attention_sequences *chunks, hr_attention_sequences *rest)
{
  int64_t tokens = whole->kv_len;
  *chunks = *rest = *whole;
  chunks->batch = hr_ceil_div(whole->batch * (tokens / chunk), devices); /* at most b·s, which was checked */
  chunks->q_len = chunks->kv_len = chunk;
  rest->batch = hr_ceil_div(whole->batch, devices);
  rest->q_len = rest->kv_len = tokens % chunk;
  return rest->q_len;
}

typedef void (*append_fn)(hr_operator_builder *builder, const hr_mixer_attention *m,
                          const hr_attention_sequences *call);

/* A sequence has 2·cp equal parts. The n-th device has the n-th part and the n-th from the end, so that all compute as
 * many unmasked scores; these are the calls of the first device. Source: Llama 3 (arXiv 2407.21783), section 3.3.2. */
static void append_both_parts(hr_operator_builder *builder, const hr_mixer_attention *m,
                              const hr_attention_sequences *call)
{
  hr_attention_sequences first = *call, last = *call;
  first.q_len = last.q_len = call->q_len / 2;
  first.kv_len = first.q_len;
  if (first.window >= first.kv_len)
    first.window = 0;
  fused_attention(builder, m, &first);
  fused_attention(builder, m, &last);
}

/* K and V of the other context-parallel devices. The backward pass gathers them again instead of keeping them, and
 * reduces their gradients, which takes as long. Source: Llama 3 (arXiv 2407.21783), section 3.3.2. */
static void gather_keys(hr_operator_builder *builder, const hr_mixer_attention *m)
{
  const hr_workload *w = builder->workload;
  hr_checked64 columns =
      hr_plus(hr_times(hr_checked(m->k_heads), m->qk_dim), hr_times(hr_checked(m->v_heads), m->v_dim));
  hr_checked64 message = hr_times(hr_times(columns, w->batch), builder->shard.kv_len);
  if (w->context_parallel == 1)
    return;
  hr_append_communication(builder, HR_OP_KV_ALL_GATHER, HR_ALL_GATHER, w->context_parallel, message,
                          hr_times(message, 2));
  hr_set_stride(builder, hr_checked(w->tensor_parallel));
}

/* Keys that the last token sees. */
static int64_t keys_of_last(const hr_mixer_attention *m, int64_t tokens)
{
  if (m->window == 0)
    return tokens;
  return m->window_kind == HR_WINDOW_CHUNKED ? (tokens - 1) % m->window + 1 : hr_min64(m->window, tokens);
}

void hr_append_attention_call(hr_operator_builder *builder, const hr_mixer_attention *m,
                              const hr_attention_sequences *call)
{
  bool fused = builder->workload->attention == HR_ATTENTION_FUSED;
  (fused ? fused_attention : unfused_attention)(builder, m, call);
}

/* A window shortens what decode reads of the cache, and a fused kernel skips tiles outside it; unfused scores of a
 * sliding window are computed and masked afterwards. */
void hr_append_attention(hr_operator_builder *builder, const hr_mixer_attention *m)
{
  bool fused = builder->workload->attention == HR_ATTENTION_FUSED;
  gather_keys(builder, m);
  append_fn append = fused ? fused_attention : unfused_attention;
  bool decode = builder->workload->phase == HR_PHASE_DECODE;
  hr_attention_sequences call = {
      .batch = builder->workload->batch, .q_len = builder->shard.q_len, .kv_len = builder->shard.kv_len};
  bool window_counts = m->window > 0 && m->window < call.kv_len;
  if (decode) {
    call.kv_len = keys_of_last(m, call.kv_len);
  } else if (window_counts && m->window_kind == HR_WINDOW_CHUNKED) {
    hr_attention_sequences chunks, rest;
    if (split_chunks(&call, m->window, builder->workload->context_parallel, &chunks, &rest) > 0)
      append(builder, m, &rest);
    append(builder, m, &chunks);
    return;
  } else if (window_counts && fused) {
    call.window = m->window;
  }
  if (fused && builder->workload->context_parallel > 1)
    append = append_both_parts;
  append(builder, m, &call);
}

/* ---- memory ---- */

static hr_checked64 score_count(const hr_layer_context *c, const hr_mixer_attention *m)
{
  int64_t keys = c->shard->kv_len; /* of a chunk where chunks are sequences */
  if (m->window_kind == HR_WINDOW_CHUNKED && m->window > 0)
    keys = hr_min64(keys, m->window);
  return hr_times(hr_times(hr_times(hr_checked(m->q_heads), c->workload->batch), c->shard->q_len), keys);
}

/* The softmax's result, and its dropout's mask and result. */
static hr_checked64 score_bytes(const hr_layer_context *c, const hr_mixer_attention *m)
{
  int64_t element = (int64_t)hr_dtype_bytes(c->workload->dtype);
  return hr_times(score_count(c, m), c->workload->dropout ? 2 * element + 1 : element);
}

hr_checked64 hr_saved_scores(const hr_layer_context *c, const hr_mixer_attention *m)
{
  if (c->workload->attention == HR_ATTENTION_FUSED) /* the log-sum-exp of each row, in fp32 */
    return hr_times(hr_times(hr_checked(m->q_heads), c->shard->rows), 4);
  return c->workload->recompute == HR_RECOMPUTE_SELECTIVE ? hr_checked(0) : score_bytes(c, m);
}

hr_checked64 hr_recomputed_scores(const hr_layer_context *c, const hr_mixer_attention *m)
{
  return c->workload->attention == HR_ATTENTION_FUSED ? hr_checked(0) : score_bytes(c, m);
}

/* Both the scores and their softmax. */
hr_checked64 hr_live_scores(const hr_layer_context *c, const hr_mixer_attention *m)
{
  return c->workload->attention == HR_ATTENTION_FUSED ? hr_checked(0) : hr_times(score_count(c, m), 2);
}

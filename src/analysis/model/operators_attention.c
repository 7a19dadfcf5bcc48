/* SPDX-License-Identifier: Apache-2.0 */
/* The attention operators of a layer. Sizes: docs/operators.md. */
#include "analysis/model/operator_builder.h"

/* Scores, softmax and attention over value through memory, over the whole q_len × kv_len rectangle. */
static void unfused_attention(hr_operator_builder *builder, int64_t count, int64_t kv_len)
{
  const hr_model *model = builder->model;
  const hr_shard *shard = &builder->shard;
  int64_t q_len = shard->q_len, batch = builder->workload->batch; /* below 2^40, like the heads: both were checked */
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
  hr_append_traffic(builder, HR_OP_SOFTMAX, HR_KIND_MEMORY, count, hr_times(scores, 2), hr_times(scores, 3));
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
  /* If t does not divide the heads, the K or V heads may not divide the query heads (32 and 8 on 3 devices: 11 and 3).
   * A kernel needs groups of equal size, so the device then holds more K or V heads. */
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

/* Layers with a sliding window are listed separately where the window changes their sizes: in decode they read `window`
 * keys of the cache, and a fused kernel skips tiles outside the window. Unfused scores are masked afterwards. */
void hr_append_attention(hr_operator_builder *builder)
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

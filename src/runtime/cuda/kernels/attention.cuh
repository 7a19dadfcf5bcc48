/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that all attention kernels share: a head's operands, the keys that a row sees, and what happens to a score
 * between Q Kᵀ and the softmax.
 *
 * HR_FIRST_KEYS: each query sees no key before one of its own, given in memory.
 *
 * HR_SCORE_MOD: scores are capped or biased, or the scale is negative, so that they are scaled before the softmax and
 * not inside its exponent. */
#include "runtime/cuda/kernels/attention_layout.h"

typedef long long int64;
typedef hr_layout_strides strides;
typedef hr_attention_call attention_call;

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

/* One head of one sequence. */
struct head_view {
  const element *q, *k, *v;
  out_element *o;
  float *lse;
  float slope;
  float score_scale, out_scale; /* of fp8: that of Q times that of K; that of V. Set with HR_HEAD_SCALES */
  int q_len, kv_len;
  const int *first_keys; /* with HR_FIRST_KEYS */
};

/* Keys first … end − 1. */
struct key_range {
  int first, end;
};

__device__ inline float minus_infinity()
{
  return __uint_as_float(0xFF800000u);
}
__device__ inline float not_a_number()
{
  return __uint_as_float(0x7FFFFFFFu);
}

/* `row` is the sequence's first in its batch entry. */
__device__ inline void set_first_keys(const attention_call &call, head_view &view, int64 entry, int64 row)
{
#ifdef HR_FIRST_KEYS
  view.first_keys = call.first_keys + entry * call.q_len + row;
#endif
}

__device__ inline head_view view_head(const attention_call &call, int batch, int head)
{
  int64 entry = batch, q_first = 0, kv_first = 0;
  head_view view = {};
  view.q_len = call.q_len;
  view.kv_len = call.kv_len;
  if (call.q_offsets) { /* variable lengths: sequences concatenated in one batch entry */
    entry = 0;
    q_first = call.q_offsets[batch];
    kv_first = call.kv_offsets[batch];
    view.q_len = call.q_offsets[batch + 1] - (int)q_first;
    view.kv_len = call.kv_offsets[batch + 1] - (int)kv_first;
  }
  int k_head = head / call.k_group, v_head = head / call.v_group;
  view.q = call.q + entry * call.q_at.batch + q_first * call.q_at.row + head * call.q_at.head;
  view.k = call.k + entry * call.k_at.batch + kv_first * call.k_at.row + k_head * call.k_at.head;
  view.v = call.v + entry * call.v_at.batch + kv_first * call.v_at.row + v_head * call.v_at.head;
  view.o = call.o + entry * call.o_at.batch + q_first * call.o_at.row + head * call.o_at.head;
  if (call.lse)
    view.lse = call.lse + entry * call.lse_at.batch + q_first * call.lse_at.row + head * call.lse_at.head;
  view.slope = call.slopes ? call.slopes[head] : 0;
  set_first_keys(call, view, entry, q_first);
#ifdef HR_HEAD_SCALES
  view.score_scale = call.q_scales[head] * call.k_scales[k_head];
  view.out_scale = call.v_scales[v_head];
#endif
  return view;
}

/* Row i of q_len has position i + kv_len − q_len among the keys. */
__device__ inline key_range keys_of_row(const attention_call &call, const head_view &view, int row)
{
  int own = row + view.kv_len - view.q_len;
  key_range keys = {0, view.kv_len};
  if (call.causal)
    keys.end = max(0, min(own + 1, view.kv_len));
  if (call.window > 0)
    keys.first = max(0, own - call.window + 1);
#ifdef HR_FIRST_KEYS
  keys.first = max(keys.first, view.first_keys[max(0, min(row, view.q_len - 1))]);
#endif
  return keys;
}

/* The softmax argument of a score q · k, before its multiplication by softmax_factor(). By __fmul_rn(), which the
 * compiler does not merge with the subtraction of a base: the base itself has been rounded. */
__device__ inline float modify_score(const attention_call &call, const head_view &view, float score, int row, int key)
{
#ifdef HR_SCORE_MOD
  score = __fmul_rn(score, call.scale);
  if (call.softcap > 0)
    score = __fmul_rn(call.softcap, tanhf(score / call.softcap));
  if (call.slopes)
    score += view.slope * (float)(key - (row + view.kv_len - view.q_len));
#endif
  return score;
}

#include "runtime/cuda/kernels/softmax_base.cuh"

/* `score_scale`: of the head's Q and K. */
__device__ inline float softmax_factor(const attention_call &call, float score_scale = 1)
{
#ifdef HR_SCORE_MOD
  return LOG2_E;
#else
  return call.scale * score_scale * LOG2_E;
#endif
}

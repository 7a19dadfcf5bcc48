/* What the attention kernels share: the call, which keys a row sees, what happens to a score between the product and the
 * softmax, and rows that are computed one by one. The call's layout is that of hr_cuda_attention in attention.h.
 *
 * HR_MODIFIED: scores are capped or biased, or the scale is negative, so that they are scaled before the softmax and not
 * inside of its exponent. */

typedef long long int64;

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

struct strides {
  int64 batch, row, head; /* in elements */
};

struct attention_call {
  const element *q, *k, *v;
  element *o;
  float *lse;                          /* NULL: not wanted */
  const float *slopes;                 /* one a query head; NULL: no bias */
  const int *q_offsets, *kv_offsets;   /* where each sequence begins, and the end; NULL: all are as long */
  int *counters;                       /* of a persistent grid: items handed out, blocks that are done; 0 before and after */
  strides q_at, k_at, v_at, o_at, lse_at;
  int q_len, kv_len; /* of the longest */
  int q_heads, k_group, v_group; /* groups: query heads that share a K head, a V head */
  int qk_dim, v_dim;
  int causal, window; /* window: keys to the left that a row sees, itself included; 0: all */
  int row_tiles;      /* of a head */
  int heads, items;   /* q_heads · batch; row tiles of all */
  int band_heads;     /* heads whose row tiles are worked on at the same time */
  float scale, cap;   /* cap 0: none */
};

/* One head of one sequence. */
struct head_view {
  const element *q, *k, *v;
  element *o;
  float *lse;
  float slope;
  int q_len, kv_len;
};

/* Keys first … end − 1. */
struct key_range {
  int first, end;
};

__device__ inline float minus_infinity() { return __uint_as_float(0xFF800000u); }
__device__ inline float not_a_number() { return __uint_as_float(0x7FFFFFFFu); }

__device__ inline head_view view_head(const attention_call &call, int batch, int head)
{
  int64 entry = batch, q_first = 0, kv_first = 0;
  head_view view = {};
  view.q_len = call.q_len;
  view.kv_len = call.kv_len;
  if (call.q_offsets) { /* sequences of their own lengths, one after the other in one batch entry */
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
  return view;
}

/* Row i of q_len stands at position i + kv_len − q_len among the keys. */
__device__ inline key_range keys_of_row(const attention_call &call, const head_view &view, int row)
{
  int own = row + view.kv_len - view.q_len;
  key_range keys = {0, view.kv_len};
  if (call.causal)
    keys.end = max(0, min(own + 1, view.kv_len));
  if (call.window > 0)
    keys.first = max(0, own - call.window + 1);
  return keys;
}

/* From q · k to what the softmax is of, in units of softmax_factor(). */
__device__ inline float modify_score(const attention_call &call, const head_view &view, float score, int row, int key)
{
#ifdef HR_MODIFIED
  score *= call.scale;
  if (call.cap > 0)
    score = call.cap * tanhf(score / call.cap);
  if (call.slopes)
    score += view.slope * (float)(key - (row + view.kv_len - view.q_len));
#endif
  return score;
}

__device__ inline float softmax_factor(const attention_call &call)
{
#ifdef HR_MODIFIED
  return LOG2_E;
#else
  return call.scale * LOG2_E;
#endif
}

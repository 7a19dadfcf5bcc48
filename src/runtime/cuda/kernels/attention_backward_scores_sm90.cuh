/* SPDX-License-Identifier: Apache-2.0 */
/* Between the WGMMAs of attention_backward_sm90.cu: P of scores, dS of P and dP. All are transposed: of a tile of 64
 * keys and HR_Q_TILE queries, a thread has keys t / 4 and t / 4 + 8 of its warp's 16, and of every 8 queries 2 (t % 4)
 * and the next. */

#define TILE_WORDS (HR_Q_TILE / 4) /* of P or dS as the A operand, of a thread */

/* Two queries: lse · log2 e, or delta. */
__device__ inline float2 row_terms_at(unsigned terms, int n, int offset)
{
  float2 two;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(two.x), "=f"(two.y)
               : "r"(terms + n * 64 + threadIdx.x % 4 * 16 + offset)
               : "memory");
  return two;
}

/* A warpgroup's keys beside a Q tile: what mask and bias need of it. */
struct tile_place {
  int key, row;          /* of the thread's first element */
  int ahead, kv_len;     /* query i is at position i + ahead of the keys */
  const int *first_keys; /* of the sequence, with HR_FIRST_KEYS */
  int last_row;
  float slope;
};

/* Queries first … end − 1 of the tile see the key, counted from the thread's first. */
__device__ inline key_range queries_of_key(const attention_call &call, const tile_place &at, int half)
{
  int key = at.key + half * 8, own = key - at.ahead - at.row;
  key_range rows = {call.causal ? own : 0, call.window > 0 ? own + call.window : HR_Q_TILE};
  if (key >= at.kv_len)
    rows.end = rows.first;
  return rows;
}

__device__ inline bool sees(const tile_place &at, const key_range &rows, int half, int offset)
{
  bool visible = offset >= rows.first && offset < rows.end;
#ifdef HR_FIRST_KEYS
  visible = visible && at.first_keys[max(0, min(at.row + offset, at.last_row))] <= at.key + half * 8;
#endif
  return visible;
}

#ifdef HR_SCORE_MOD
/* The argument of P's exponential, and what dS is multiplied by besides P: the slope of the soft cap. */
__device__ inline float modified(const attention_call &call, const tile_place &at, float score, int half, int offset,
                                 float &slope)
{
  score *= call.scale;
  slope = 1;
  if (call.softcap > 0) {
    float t = tanh_approx(score / call.softcap);
    score = call.softcap * t;
    slope = 1 - t * t;
  }
  return score + at.slope * (float)(at.key + half * 8 - (at.row + offset + at.ahead));
}
#endif

/* Scores become P, and with HR_SCORE_MOD P times the slope of the soft cap, whose P is in `p`. */
template <bool MASKED>
__device__ inline void find_p(const attention_call &call, const tile_place &at, float (&s)[HR_Q_TILE / 2],
                              unsigned (&p)[TILE_WORDS], unsigned terms)
{
  float factor = softmax_factor(call);
  key_range rows[2];
  if (MASKED) {
    rows[0] = queries_of_key(call, at, 0);
    rows[1] = queries_of_key(call, at, 1);
  }
#pragma unroll
  for (int n = 0; n < HR_Q_TILE / 8; n++) {
    float2 lse = row_terms_at(terms, n, 0);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float weight[2], slope[2] = {1, 1};
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float score = s[n * 4 + half * 2 + e];
#ifdef HR_SCORE_MOD
        score = modified(call, at, score, half, n * 8 + e, slope[e]);
#endif
        weight[e] = exp2_approx(fmaf(score, factor, e ? -lse.y : -lse.x));
        if (MASKED && !sees(at, rows[half], half, n * 8 + e))
          weight[e] = 0;
        s[n * 4 + half * 2 + e] = weight[e] * slope[e];
      }
      p[n * 2 + half] = pack_pair(weight[0], weight[1]);
    }
  }
}

/* dS as the A operand. All of it before it is packed: the words then take over P's registers. */
__device__ inline void find_ds(const float (&s)[HR_Q_TILE / 2], float (&dp)[HR_Q_TILE / 2], unsigned (&ds)[TILE_WORDS],
                               unsigned terms)
{
#pragma unroll
  for (int n = 0; n < HR_Q_TILE / 8; n++) {
    float2 delta = row_terms_at(terms, n, 8);
#pragma unroll
    for (int i = n * 4; i < n * 4 + 4; i++)
      dp[i] = s[i] * (dp[i] - (i % 2 ? delta.y : delta.x));
  }
#pragma unroll
  for (int i = 0; i < TILE_WORDS; i++)
    ds[i] = pack_pair(dp[2 * i], dp[2 * i + 1]);
}

/* dS of 64 keys, a panel of dS [query][key]. */
__device__ inline void store_ds(const unsigned (&ds)[TILE_WORDS], unsigned panel)
{
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  unsigned to = panel + (lane / 16 * 8 + lane % 8) * PANEL_ROW + ((warp * 2 + lane / 8 % 2) ^ lane % 8) * 16;
#pragma unroll
  for (int step = 0; step < HR_Q_TILE / 16; step++)
    stmatrix_x4_transposed(to + step * 16 * PANEL_ROW, ds[4 * step], ds[4 * step + 1], ds[4 * step + 2],
                           ds[4 * step + 3]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The consumer warpgroups of decode_latent_sm90.cu: registers, WGMMAs, online softmax, and what one tells the other.
 * GROUP 0 is A, which computes the scores of the tile in buffer 0, and has V's left half of the columns; GROUP 1 is
 * B. */

#define CONSUMER_THREADS 256
#define V_HALF (HR_V / 2)

/* A thread has rows t / 4 and t / 4 + 8 of its warp's 16 (half 0 and 1), of every 8 columns 2 (t % 4) and the next.
 * Exponentials are of the difference to a row's base, in base 2. */
struct consumer_state {
  float scores[KEYS / 2], out[V_HALF / 2];
  unsigned p[KEYS / 4];
  float base[2], sum[2];
  key_range unmasked; /* keys that every query of the row block sees */
};

/* Rows of both warpgroups, in shared memory. */
enum { BASE_A, BASE_B, SUM_A, SUM_B };

__device__ inline float *exchange(int what)
{
  return (float *)(shared + EXCHANGE_AT) + what * ROWS;
}

/* Named barriers: a warpgroup's scores are computed; its P and bases are in shared memory; the sums are. */
enum { A_SCORED = 1, B_SCORED, A_READY, B_READY, SUMS_READY };

/* This thread's row of the Q tile. */
__device__ inline int row_of(int half)
{
  return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + 8 * half;
}

__device__ inline void release(int barrier)
{
  if (threadIdx.x % 32 == 0)
    mbarrier_arrive(mbarrier_at(barrier));
}

/* ---- WGMMAs ---- */

/* The start of shared memory in units of matrix descriptors. Computed wherever it is needed, so that the compiler adds
 * constants to one uniform register, and does not keep the descriptors of a whole loop in registers. */
__device__ inline unsigned descriptor_base()
{
  return (unsigned)uniform((int)(shared_address(shared) >> 4));
}

/* A matrix descriptor of `bytes` bytes behind the base, with 1024 bytes between blocks of 8 rows. */
__device__ inline unsigned long long descriptor_at(unsigned base, int bytes, unsigned leading)
{
  return (unsigned long long)(base + (bytes >> 4) + (leading >> 4 << 16)) | 1ull << 62 | 64ull << 32;
}

/* Issues S (+)= Q Kᵀ over the panels of a half. */
template <int GROUP, int HALF> __device__ inline void issue_qk(consumer_state &c)
{
  unsigned base = descriptor_base();
#pragma unroll
  for (int panel = 0; panel < Q_PANELS; panel++) {
    if (is_early(GROUP, panel) != (HALF == EARLY))
      continue;
#pragma unroll
    for (int step = 0; step < 4; step++) {
      unsigned long long a = descriptor_at(base, panel * PANEL_BYTES + step * 32, 0);
      unsigned long long b = descriptor_at(base, K_AT + GROUP * K_BYTES + panel * PANEL_BYTES + step * 32, 0);
      WGMMA_SS(64, c.scores, a, b, HALF == LATE || panel % HALF_PANELS > 0 || step > 0);
    }
  }
  wgmma_commit();
}

/* The B operand: V of keys 16 step … 16 step + 15 of a buffer, this warpgroup's columns. */
template <int GROUP> __device__ inline unsigned long long v_descriptor(unsigned base, int buffer, int step)
{
  return descriptor_at(base, K_AT + buffer * K_BYTES + GROUP * HALF_PANELS * PANEL_BYTES + step * 16 * PANEL_ROW,
                       PANEL_BYTES);
}

/* Issues O += P V of this warpgroup's tile, P from registers. */
template <int GROUP> __device__ inline void issue_own_pv(consumer_state &c)
{
  unsigned base = descriptor_base();
#pragma unroll
  for (int step = 0; step < KEYS / 16; step++)
    WGMMA_RS(HR_V_HALF, c.out, c.p + 4 * step, v_descriptor<GROUP>(base, GROUP, step));
  wgmma_commit();
}

/* Issues O += P V of the other warpgroup's tile, P from shared memory. */
template <int GROUP> __device__ inline void issue_other_pv(consumer_state &c)
{
  unsigned base = descriptor_base();
#pragma unroll
  for (int step = 0; step < KEYS / 16; step++)
    WGMMA_SS_MN(HR_V_HALF, c.out, descriptor_at(base, K_AT + (1 - GROUP) * K_BYTES + P_AT + step * 32, 0),
                v_descriptor<GROUP>(base, 1 - GROUP, step));
  wgmma_commit();
}

/* ---- online softmax ---- */

__device__ inline float softmax_factor(const latent_call &call)
{
#ifdef HR_SCORE_MOD
  return LOG2_E;
#else
  return call.scale * LOG2_E;
#endif
}

__device__ inline void modify_scores(const latent_call &call, consumer_state &c)
{
#ifdef HR_SCORE_MOD
  float inverse = 1 / call.softcap;
#pragma unroll
  for (int i = 0; i < KEYS / 2; i++) {
    float score = c.scores[i] * call.scale;
    c.scores[i] = call.softcap > 0 ? call.softcap * tanh_approx(score * inverse) : score;
  }
#endif
}

/* Scores of keys that a row does not see become −∞; skipped if all queries see all keys of the tile. */
__device__ inline void mask_scores(const latent_call &call, const work_item &item, consumer_state &c, int tile)
{
  if (tile * KEYS >= c.unmasked.first && tile * KEYS + KEYS <= c.unmasked.end)
    return;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    key_range keys = keys_of_query(call, item.length, min(first_query(call) + row_of(half) / HR_HEADS, call.q_len - 1));
    int from = tile * KEYS + threadIdx.x % 4 * 2, first = keys.first - from, end = keys.end - from;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (n * 8 + e < first || n * 8 + e >= end)
          c.scores[n * 4 + half * 2 + e] = minus_infinity();
  }
}

__device__ inline key_range find_unmasked(const latent_call &call, const work_item &item)
{
  int query = first_query(call), last = min(query + HR_QUERIES, call.q_len) - 1;
  return {keys_of_query(call, item.length, last).first, keys_of_query(call, item.length, query).end};
}

/* A base follows the row maximum when it falls behind by a factor of 2^8, which happens seldom after the first tiles:
 * exponentials up to 2^8 do no harm, and O need not be rescaled. */
#define BASE_BEHIND 8

/* How far a base is above the largest score. bf16: so far that P of all keys adds up to 1 at most and O stays within
 * fp32. */
__device__ inline float above_max(const latent_call &call)
{
#ifdef HR_DTYPE_bf16
  return BASE_BEHIND - call.top;
#else
  return 0;
#endif
}

/* The base with the tile's scores. */
__device__ inline float grown_base(const consumer_state &c, int half, float base, float factor, float above)
{
  float most[2] = {minus_infinity(), minus_infinity()};
#pragma unroll
  for (int n = 0; n < KEYS / 8; n++)
    most[n % 2] = fmaxf(most[n % 2], fmaxf(c.scores[n * 4 + half * 2], c.scores[n * 4 + half * 2 + 1]));
  float both = fmaxf(most[0], most[1]);
  both = fmaxf(both, __shfl_xor_sync(0xFFFFFFFFu, both, 1));
  both = fmaxf(both, __shfl_xor_sync(0xFFFFFFFFu, both, 2));
  both = both == minus_infinity() ? both : base_of_row(both, factor, above); /* the factor may be 0 */
  return both > base + BASE_BEHIND ? both : base;
}

/* A base of −∞, while a row has seen no key, would make NaN of −∞ − −∞. */
__device__ inline float safe(float base)
{
  return base == minus_infinity() ? 0.0f : base;
}

/* Sets the bases; O and sums of before are to be multiplied by `rescale`. */
__device__ inline void change_base(consumer_state &c, const float (&base)[2], float (&rescale)[2])
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    rescale[half] = exp2_approx(c.base[half] - safe(base[half]));
    c.base[half] = base[half];
    c.sum[half] *= rescale[half];
  }
}

/* Scores of a half to exponentials, which are added to the sum, and to P as the A operand of P V. */
__device__ inline void exponentials(consumer_state &c, int half, float factor)
{
  float base = safe(c.base[half]), of_row = factor_of_row(base, factor), sum[2] = {};
#pragma unroll
  for (int n = 0; n < KEYS / 8; n++) {
    float *pair = c.scores + n * 4 + half * 2;
    pair[0] = exp2_approx(fmaf(pair[0], of_row, -base));
    pair[1] = exp2_approx(fmaf(pair[1], of_row, -base));
    sum[0] += pair[0];
    sum[1] += pair[1];
    c.p[2 * n + half] = pack_pair(pair[0], pair[1]);
  }
  c.sum[half] += sum[0] + sum[1];
}

/* No WGMMA is in flight: the compiler would wait for each of them before the branch. */
__device__ inline void rescale_out(consumer_state &c, const float (&rescale)[2])
{
  if (!__any_sync(0xFFFFFFFFu, rescale[0] != 1 || rescale[1] != 1))
    return;
#pragma unroll
  for (int i = 0; i < V_HALF / 2; i++)
    c.out[i] *= rescale[i / 2 % 2];
}

/* Writes P to this warpgroup's buffer for the other one, when all of its warps have computed their scores from it. */
template <int GROUP> __device__ inline void store_p(const consumer_state &c)
{
  named_barrier_sync(GROUP == 0 ? A_SCORED : B_SCORED, 128);
  int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16;
  unsigned to = shared_address(shared) + K_AT + GROUP * K_BYTES + P_AT + row * PANEL_ROW;
#pragma unroll
  for (int n = 0; n < KEYS / 8; n += 2) {
    int chunk = (n + threadIdx.x % 32 / 16) ^ row % 8;
    stmatrix_x4(to + chunk * 16, c.p[2 * n], c.p[2 * n + 1], c.p[2 * n + 2], c.p[2 * n + 3]);
  }
  fence_proxy_async();
}

/* Bases of this thread's rows to and from shared memory. */
__device__ inline void write_rows(int what, const float (&values)[2])
{
  if (threadIdx.x % 4 == 0)
    exchange(what)[row_of(0)] = values[0], exchange(what)[row_of(1)] = values[1];
}

__device__ inline void read_rows(int what, float (&values)[2])
{
  values[0] = exchange(what)[row_of(0)];
  values[1] = exchange(what)[row_of(1)];
}

/* The bases with the scores of a tile. */
__device__ inline void update_bases(const latent_call &call, const work_item &item, consumer_state &c, int tile,
                                    float factor, float (&rescale)[2])
{
  modify_scores(call, c);
  mask_scores(call, item, c, tile);
  const float above = above_max(call);
  const float base[2] = {grown_base(c, 0, c.base[0], factor, above), grown_base(c, 1, c.base[1], factor, above)};
  change_base(c, base, rescale);
}

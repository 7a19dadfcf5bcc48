/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of the exact fp32 attention kernels, on CUDA cores: 256 threads as 16 × 16 process 64 query rows and HR_KV_TILE
 * keys.
 *
 *   thread (x, y): rows y, y + 16, y + 32, y + 48; of S the keys x, x + 16, …; of O columns x · ADJACENT … of every 16
 *   · ADJACENT
 *
 * HR_ALIGNED: cp.async copies of 16 bytes, otherwise of 4. */

#define THREADS HR_FP32_THREADS
#define ROWS HR_FP32_ROWS
#define THREAD_ROWS 4
#define THREAD_KEYS (HR_KV_TILE / 16)
#define THREAD_COLUMNS (HR_V / 16)                             /* of O */
#define ADJACENT (HR_V % 64 == 0 ? 4 : HR_V % 32 == 0 ? 2 : 1) /* of them that are contiguous */
#define PITCH(dim) hr_fp32_pitch(dim)                          /* floats between rows of a Q, K or P tile */

#ifndef HR_QK
#define HR_QK 16 /* attention_blocked_fp32 has no tiles of Q and K */
#endif
#define LAYOUT hr_fp32_layout_of(HR_QK, HR_V, HR_KV_TILE)
enum { Q_SIZE = LAYOUT.q_size, K_SIZE = LAYOUT.k_size, V_SIZE = LAYOUT.v_size, P_SIZE = LAYOUT.p_size }; /* floats */

extern __shared__ __align__(16) float shared[];

struct state {
  float scores[THREAD_ROWS][THREAD_KEYS], out[THREAD_ROWS][THREAD_COLUMNS];
  float row_max[THREAD_ROWS], row_sum[THREAD_ROWS];
};

/* Starts the copies of `rows` × `dim` elements to a tile of TILE_ROWS × WIDTH with rows of `pitch`; the rest becomes
 * 0. */
template <int TILE_ROWS, int WIDTH>
__device__ inline void load_tile(float *tile, int pitch, const float *from, int64 stride, int rows, int dim)
{
#ifdef HR_ALIGNED
  constexpr int MMA_K = 4;
#else
  constexpr int MMA_K = 1;
#endif
#pragma unroll 4
  for (int i = threadIdx.x; i < TILE_ROWS * (WIDTH / MMA_K); i += THREADS) {
    int row = i / (WIDTH / MMA_K), column = i % (WIDTH / MMA_K) * MMA_K;
    bool there = row < rows && column < dim;
    const float *at = there ? from + row * stride + column : from;
    unsigned to = shared_address(tile + row * pitch + column);
    if (MMA_K == 4)
      cp_async_16(to, at, there);
    else
      cp_async_4(to, at, there);
  }
  cp_async_commit();
}

/* Whether every row of the Q tile sees every key of the K/V tile. */
__device__ inline bool is_unmasked(const attention_call &call, const head_view &view, int first_row, int first_key)
{
  key_range top = keys_of_row(call, view, first_row);
  key_range bottom = keys_of_row(call, view, min(first_row + ROWS, view.q_len) - 1);
  return first_key >= bottom.first && first_key + HR_KV_TILE <= top.end;
}

template <bool UNMASKED>
__device__ inline void mask_tile(const attention_call &call, const head_view &view, state &s, int first_row,
                                 int first_key)
{
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; i++) {
    int row = first_row + threadIdx.x / 16 + 16 * i;
    key_range keys = keys_of_row(call, view, row);
#pragma unroll
    for (int j = 0; j < THREAD_KEYS; j++) {
      int key = first_key + threadIdx.x % 16 + 16 * j;
      float score = modify_score(call, view, s.scores[i][j], row, key);
      s.scores[i][j] = !UNMASKED && (key < keys.first || key >= keys.end) ? minus_infinity() : score;
    }
  }
}

/* Applies score modifications and the mask to the scores of a tile. */
__device__ inline void mask_scores(const attention_call &call, const head_view &view, state &s, int first_row,
                                   int first_key)
{
  if (is_unmasked(call, view, first_row, first_key))
    mask_tile<true>(call, view, s, first_row, first_key);
  else
    mask_tile<false>(call, view, s, first_row, first_key);
}

template <class OPERATION> __device__ inline float row_reduce(float value, OPERATION combine)
{
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  return value;
}

/* Online softmax: the scores of a tile become P in shared memory, and the row sum and O are rescaled to the new row
 * maximum. The difference is taken before it is scaled, so that the exponent is as exact as the scores, and 2^top is
 * the weight of the maximum. */
__device__ inline void online_softmax(const attention_call &call, state &s, float *p_tile)
{
  float factor = softmax_factor(call);
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; i++) {
    float row_max = s.row_max[i], sum = 0;
#pragma unroll
    for (int j = 0; j < THREAD_KEYS; j++)
      row_max = fmaxf(row_max, s.scores[i][j]);
    row_max = row_reduce(row_max, [](float a, float b) { return fmaxf(a, b); });
    float base = row_max == minus_infinity() ? 0 : row_max;
    float rescale = exp2_approx((s.row_max[i] - base) * factor);
#pragma unroll
    for (int j = 0; j < THREAD_KEYS; j++) {
      float p = exp2_approx(fmaf(s.scores[i][j] - base, factor, call.top));
      p_tile[(threadIdx.x / 16 + 16 * i) * PITCH(HR_KV_TILE) + threadIdx.x % 16 + 16 * j] = p;
      sum += p;
    }
    s.row_max[i] = row_max;
    s.row_sum[i] = s.row_sum[i] * rescale + sum;
#pragma unroll
    for (int n = 0; n < THREAD_COLUMNS; n++)
      s.out[i][n] *= rescale;
  }
}

__device__ inline void mma_pv(state &s, const float *p_tile, const float *v_tile)
{
  struct alignas(ADJACENT * sizeof(float)) pack {
    float at[ADJACENT];
  };
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll 1
  for (int key = 0; key < HR_KV_TILE; key += 4) {
    float4 p[THREAD_ROWS];
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
      p[i] = *(const float4 *)(p_tile + (y + 16 * i) * PITCH(HR_KV_TILE) + key);
#pragma unroll
    for (int n = 0; n < THREAD_COLUMNS; n += ADJACENT)
#pragma unroll
      for (int k = 0; k < 4; k++) {
        pack v = *(const pack *)(v_tile + (key + k) * HR_V + x * ADJACENT + n * 16);
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
          for (int e = 0; e < ADJACENT; e++)
            s.out[i][n + e] = fmaf(k == 0   ? p[i].x
                                   : k == 1 ? p[i].y
                                   : k == 2 ? p[i].z
                                            : p[i].w,
                                   v.at[e], s.out[i][n + e]);
      }
  }
}

/* Divides O by the row sum and stores it. A row without keys is 0, even if V has NaN; a row whose every score is −∞ is
 * NaN. */
__device__ inline void epilogue(const attention_call &call, const head_view &view, const state &s, int first_row)
{
  int x = threadIdx.x % 16;
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; i++) {
    int row = first_row + threadIdx.x / 16 + 16 * i;
    float sum = row_reduce(s.row_sum[i], [](float a, float b) { return a + b; });
    key_range keys = keys_of_row(call, view, row);
    if (row >= view.q_len)
      continue;
    bool nothing = keys.first >= keys.end;
    float inverse = 1.0f / sum;
#pragma unroll
    for (int n = 0; n < THREAD_COLUMNS; n++) {
      int column = x * ADJACENT + n / ADJACENT * 16 * ADJACENT + n % ADJACENT;
      if (column < call.v_dim)
        view.o[row * call.o_at.row + column] = nothing ? 0 : s.out[i][n] * inverse;
    }
    if (view.lse && x == 0)
      view.lse[row * call.lse_at.row] = s.row_max[i] * (softmax_factor(call) * LN_2) + (log2f(sum) - call.top) * LN_2;
  }
}

__device__ inline void clear_accumulators(state &s)
{
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; i++) {
    s.row_max[i] = minus_infinity();
    s.row_sum[i] = 0;
#pragma unroll
    for (int n = 0; n < THREAD_COLUMNS; n++)
      s.out[i][n] = 0;
  }
}

__device__ inline void load_v_tile(const attention_call &call, const head_view &view, float *v_tile, int tile)
{
  int first_key = tile * HR_KV_TILE;
  load_tile<HR_KV_TILE, HR_V>(v_tile, HR_V, view.v + first_key * call.v_at.row, call.v_at.row, view.kv_len - first_key,
                              call.v_dim);
}

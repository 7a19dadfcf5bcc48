/* Attention forward with an online softmax in exact fp32, without matrix units; any GPU from compute capability 8.0 on.
 *
 *   block: 256 threads as 16 × 16, 64 query rows × the keys in tiles of HR_COLUMNS, right to left
 *   thread (x, y): rows y, y + 16, y + 32, y + 48; of S the keys x, x + 16, …; of O columns x · WIDE … of every 16 · WIDE
 *   S = Q Kᵀ → softmax over the 16 threads of a row → P through shared memory → O = O · correction + P V
 *
 * Rows of Q, K and P in shared memory are 4 words longer than a multiple of 32, so that 8 rows read in 16 bytes each lie in
 * different banks. The next K is copied while P V runs, the next V while S does. HR_ALIGNED: copies of 16 bytes, otherwise
 * of 4. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_fp32.cuh"

/* Elements of shared memory. attention_flash_fp32.c reckons the same. */
#define Q_SIZE (ROWS * PITCH(HR_QK))
#define K_SIZE (HR_COLUMNS * PITCH(HR_QK))

__device__ inline void multiply_scores(state &s, const float *q_tile, const float *k_tile)
{
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < OWN; i++)
#pragma unroll
    for (int j = 0; j < KEYS; j++)
      s.scores[i][j] = 0;
#pragma unroll 4
  for (int d = 0; d < HR_QK; d += 4) {
    float4 q[OWN], k[KEYS];
#pragma unroll
    for (int i = 0; i < OWN; i++)
      q[i] = *(const float4 *)(q_tile + (y + 16 * i) * PITCH(HR_QK) + d);
#pragma unroll
    for (int j = 0; j < KEYS; j++)
      k[j] = *(const float4 *)(k_tile + (x + 16 * j) * PITCH(HR_QK) + d);
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
      for (int j = 0; j < KEYS; j++) {
        s.scores[i][j] = fmaf(q[i].x, k[j].x, s.scores[i][j]);
        s.scores[i][j] = fmaf(q[i].y, k[j].y, s.scores[i][j]);
        s.scores[i][j] = fmaf(q[i].z, k[j].z, s.scores[i][j]);
        s.scores[i][j] = fmaf(q[i].w, k[j].w, s.scores[i][j]);
      }
  }
}

__device__ inline void fill_k(const attention_call &call, const head_view &view, float *k_tile, int tile)
{
  int first_key = tile * HR_COLUMNS;
  fill_tile<HR_COLUMNS, HR_QK>(k_tile, PITCH(HR_QK), view.k + first_key * call.k_at.row, call.k_at.row,
                               view.kv_len - first_key, call.qk_dim);
}

extern "C" __global__ __launch_bounds__(THREADS, HR_V <= 128 ? 2 : 1) void attention(const attention_call call)
{
  int row_tile = call.row_tiles - 1 - blockIdx.x % call.row_tiles; /* the longest of a causal call first */
  int head = blockIdx.x / call.row_tiles % call.q_heads, batch = blockIdx.x / call.row_tiles / call.q_heads;
  int first_row = row_tile * ROWS;
  head_view view = view_head(call, batch, head);
  if (first_row >= view.q_len)
    return;
  float *k_tile = shared + Q_SIZE, *v_tile = k_tile + K_SIZE, *p_tile = v_tile + V_SIZE;
  int first = keys_of_row(call, view, first_row).first / HR_COLUMNS;
  int end = (keys_of_row(call, view, min(first_row + ROWS, view.q_len) - 1).end + HR_COLUMNS - 1) / HR_COLUMNS;
  state s;
  begin(s);
  if (first < end) {
    fill_tile<ROWS, HR_QK>(shared, PITCH(HR_QK), view.q + first_row * call.q_at.row, call.q_at.row,
                           view.q_len - first_row, call.qk_dim);
    fill_k(call, view, k_tile, end - 1);
    fill_v(call, view, v_tile, end - 1);
  }
#pragma unroll 1
  for (int tile = end - 1; tile >= first; tile--) {
    copies_wait<1>(); /* K of this tile; V may be on its way */
    __syncthreads();
    multiply_scores(s, shared, k_tile);
    mask_scores(call, view, s, first_row, tile * HR_COLUMNS);
    soften(call, s, p_tile);
    copies_wait<0>();
    __syncthreads();
    if (tile > first)
      fill_k(call, view, k_tile, tile - 1);
    multiply_values(s, p_tile, v_tile);
    __syncthreads();
    if (tile > first)
      fill_v(call, view, v_tile, tile - 1);
  }
  finish(call, view, s, first_row);
}

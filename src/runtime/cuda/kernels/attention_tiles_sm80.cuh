/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of attention_flash_sm80.cu and attention_blocked.cu: their cp.async copies to shared memory and their GEMMs by
 * mma.sync, which takes 32 bytes of a row at a time (16 elements of 16 bits, 8 of tf32).
 *
 * Head sizes are padded with zeros to HR_QK and HR_V, multiples of 16, in shared memory only. hr_sm80_layout has the
 * sizes. */

#ifndef HR_ROW_WARPS
#define HR_ROW_WARPS 1
#endif
#define THREADS (32 * HR_WARPS)
#define WARP_ROWS (16 * HR_M_TILES)
#define ROWS (HR_WARPS / HR_ROW_WARPS * WARP_ROWS)
#define CHUNK (16 / (int)sizeof(element)) /* elements of one 16-byte copy */
#define PITCH(dim) hr_sm80_pitch(dim, (int)sizeof(element))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

#define LAYOUT \
  hr_sm80_layout_of(HR_QK, HR_V, HR_WARPS, HR_M_TILES, HR_ROW_WARPS, HR_KV_TILE, HR_STAGES, (int)sizeof(element))
enum { /* elements */
       Q_SIZE = LAYOUT.q_size,
       K_SIZE = LAYOUT.k_size,
       V_SIZE = LAYOUT.v_size,
       EXCHANGE_AT = LAYOUT.exchange_at / (int)sizeof(element)
};

#define MMA_K (2 * CHUNK) /* k of one mma.sync */
#define QK_STEPS (HR_QK / MMA_K)
#define PV_STEPS (HR_KV_TILE / MMA_K / HR_ROW_WARPS) /* over a warp's keys */
#define Q_IN_REGISTERS (QK_STEPS * HR_M_TILES <= 8)  /* fragments of Q stay in registers: 4 per step and M tile */
#define S_TILES (HR_KV_TILE / 8 / HR_ROW_WARPS)
#define O_TILES (HR_V / 8 / HR_ROW_WARPS)

extern __shared__ __align__(16) element shared[];

/* HR_ROW_WARPS 2: pairs of warps share their rows. In Q Kᵀ each warp has half of the tile's keys, in P V half of O's
 * columns. K and V have one stage each, and their copies are spread over the GEMMs. */
static_assert(HR_ROW_WARPS == 1 || (HR_ROW_WARPS == 2 && HR_STAGES == 1), "HR_ROW_WARPS");
__device__ inline int row_group()
{
  return threadIdx.x / 32 / HR_ROW_WARPS;
}
__device__ inline int warp_in_group()
{
  return HR_ROW_WARPS == 1 ? 0 : threadIdx.x / 32 % HR_ROW_WARPS;
}

/* A warp's registers: fragments of Q, accumulators of S, P as an mma operand, accumulators of O, and for each of a
 * thread's rows the base of its exponents, the largest score that this base allows (limit), and the row sum. */
struct warp_state {
  unsigned q[HR_M_TILES][Q_IN_REGISTERS ? QK_STEPS : 1][4];
  float scores[HR_M_TILES][S_TILES][4];
  unsigned p[PV_STEPS][HR_M_TILES][4];
  float out[HR_M_TILES][O_TILES][4];
  float base[HR_M_TILES][2], limit[HR_M_TILES][2], row_sum[HR_M_TILES][2];
};

/* ---- copies ---- */

/* Threads that share the `chunks` of a row evenly: 8, which need one address per row and offsets, or fewer; 32 for rows
 * of 512 bytes, whose address arithmetic spaces the copies out (docs/notes/attention-gpu.md). */
__device__ constexpr int lanes_per_row(int chunks)
{
  return chunks % 32 == 0 ? 32 : chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2;
}

/* Starts the copies of `rows` × `dim` elements to a tile of TILE_ROWS × WIDTH; the rest becomes 0. */
template <int TILE_ROWS, int WIDTH>
__device__ inline void load_tile(element *tile, const element *from, int64 stride, int rows, int dim)
{
#ifdef HR_ALIGNED
  constexpr int CHUNKS = WIDTH / CHUNK, LANES = lanes_per_row(CHUNKS), AT_ONCE = THREADS / LANES;
  constexpr int COPIES = (TILE_ROWS + AT_ONCE - 1) / AT_ONCE;
  int first = threadIdx.x / LANES, column = threadIdx.x % LANES * CHUNK;
  unsigned to = shared_address(tile + first * PITCH(WIDTH) + column);
  from += first * stride + column;
#pragma unroll
  for (int i = 0; i < COPIES * AT_ONCE; i += AT_ONCE, from += AT_ONCE * stride) {
    if (TILE_ROWS % AT_ONCE != 0 && first + i >= TILE_ROWS)
      break;
#pragma unroll
    for (int c = 0; c < WIDTH; c += LANES * CHUNK)
      cp_async_16(to + (i * PITCH(WIDTH) + c) * (int)sizeof(element), from + c,
                  first + i < rows && (c + LANES * CHUNK <= WIDTH - 16 || column + c < dim));
  }
#else
#pragma unroll 4
  for (int i = threadIdx.x; i < TILE_ROWS * WIDTH; i += THREADS) {
    int row = i / WIDTH, column = i % WIDTH;
    bool there = row < rows && column < dim;
    tile[row * PITCH(WIDTH) + column] = there ? from[row * stride + column] : (element)0;
  }
#endif
}

/* Loads K or V tiles from right to left, except the last tile, which may be partial. */
template <int WIDTH> struct tile_loader {
  const element *at;
  int64 stride;
  int dim;

  static constexpr int CHUNKS = WIDTH / CHUNK, LANES = lanes_per_row(CHUNKS), ROWS_AT_ONCE = THREADS / LANES;
  static constexpr bool EVEN = HR_KV_TILE % ROWS_AT_ONCE == 0;

  __device__ static inline int column()
  {
    return threadIdx.x % LANES * CHUNK;
  }

  /* `first_row`: of the tile that is loaded next. */
  __device__ inline void start_at(const element *from, int64 row_stride, int64 first_row, int width)
  {
    stride = row_stride;
    dim = width;
    at = from + first_row * stride;
#ifdef HR_ALIGNED
    if (EVEN)
      at += threadIdx.x / LANES * stride + column();
#endif
  }

  /* The whole tile. */
  __device__ inline void load(element *tile)
  {
#ifdef HR_ALIGNED
    if constexpr (EVEN)
      load_rows(tile, 0, HR_KV_TILE, true);
    else
#endif
      load_tile<HR_KV_TILE, WIDTH>(tile, at, stride, HR_KV_TILE, dim);
    advance();
  }

  /* One of PARTS of the tile, so that copies spread over the GEMMs; the caller calls advance() after the last. */
  template <int PARTS> __device__ inline void load_part(element *tile, int split, bool wanted)
  {
#ifdef HR_ALIGNED
    if constexpr (EVEN) { /* `at` includes this thread's offset, which load_tile() would add again */
      constexpr int TAKEN = HR_KV_TILE / ROWS_AT_ONCE % PARTS == 0 ? PARTS : 1;
      if (split < TAKEN)
        load_rows(tile, split * (HR_KV_TILE / TAKEN), (split + 1) * (HR_KV_TILE / TAKEN), wanted);
      return;
    }
#endif
    if (split == 0 && wanted)
      load_tile<HR_KV_TILE, WIDTH>(tile, at, stride, HR_KV_TILE, dim);
  }

  __device__ inline void advance()
  {
    at -= HR_KV_TILE * stride;
  }

  __device__ inline void load_rows(element *tile, int first, int end, bool wanted)
  {
    const element *from = at + first * stride;
    unsigned to = shared_address(tile + threadIdx.x / LANES * PITCH(WIDTH) + column());
#pragma unroll
    for (int i = first; i < end; i += ROWS_AT_ONCE, from += ROWS_AT_ONCE * stride)
#pragma unroll
      for (int c = 0; c < WIDTH; c += LANES * CHUNK)
        cp_async_16_if(wanted, to + (i * PITCH(WIDTH) + c) * (int)sizeof(element), from + c,
                       c + LANES * CHUNK <= WIDTH - 16 || column() + c < dim); /* WIDTH - 16 < dim */
  }
};

/* ---- Q Kᵀ and P V ---- */

/* Rounds operands to the precision of the Tensor Cores. */
__device__ inline void round_operands(unsigned (&factors)[4])
{
#ifdef HR_DTYPE_tf32
#pragma unroll
  for (int e = 0; e < 4; e++)
    factors[e] = round_to_tf32(factors[e]);
#endif
}

/* Fragments of 16 rows of Q. */
__device__ inline void ldmatrix_q(unsigned (&to)[4], const element *q_tile, int m_tile, int step)
{
  int lane = threadIdx.x % 32, row = row_group() * WARP_ROWS + m_tile * 16 + lane % 16;
  ldmatrix_x4(to, shared_address(q_tile + row * PITCH(HR_QK) + step * MMA_K + lane / 16 * CHUNK));
  round_operands(to);
}

__device__ inline void clear_scores(warp_state &w)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int n = 0; n < S_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        w.scores[i][n][e] = 0;
}

/* S += Q Kᵀ for 16 keys, two tiles of S. */
__device__ inline void mma_qk_step(warp_state &w, const unsigned (&q)[HR_M_TILES][4], const unsigned (&k)[4], int pair)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++) {
    mma_sync(w.scores[i][2 * pair], q[i], k[0], k[1]);
    mma_sync(w.scores[i][2 * pair + 1], q[i], k[2], k[3]);
  }
}

/* Q's fragments for a step, from shared memory or registers. */
__device__ inline void q_fragments(unsigned (&to)[HR_M_TILES][4], const warp_state &w, const element *q_tile, int step)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++) {
    if (!Q_IN_REGISTERS)
      ldmatrix_q(to[i], q_tile, i, step);
#pragma unroll
    for (int e = 0; Q_IN_REGISTERS && e < 4; e++)
      to[i][e] = w.q[i][Q_IN_REGISTERS ? step : 0][e];
  }
}

/* S = Q Kᵀ; `beside` is called after every step. */
template <class BESIDE>
__device__ inline void mma_qk(warp_state &w, const element *q_tile, const element *k_tile, BESIDE beside)
{
  int lane = threadIdx.x % 32, key = warp_in_group() * S_TILES * 8 + lane / 16 * 8 + lane % 8;
  unsigned k_row = shared_address(k_tile + key * PITCH(HR_QK) + lane / 8 % 2 * CHUNK);
  clear_scores(w);
#pragma unroll
  for (int step = 0; step < QK_STEPS; step++) {
    unsigned q[HR_M_TILES][4];
    q_fragments(q, w, q_tile, step);
#pragma unroll
    for (int n = 0; n < S_TILES / 2; n++) {
      unsigned k[4];
      ldmatrix_x4(k, k_row + (n * 16 * PITCH(HR_QK) + step * MMA_K) * (int)sizeof(element));
      round_operands(k);
      mma_qk_step(w, q, k, n);
    }
    beside(step);
  }
}

#ifdef HR_DTYPE_tf32

/* A thread's accumulators of S belong to keys 2 t and 2 t + 1, but an mma operand has columns t and t + 4. P V takes
 * the keys in the accumulators' order, in P and in V, so that nothing moves between threads. The columns of O are
 * permuted, too: ADJACENT tiles share 8 · ADJACENT columns, so that a thread reads ADJACENT contiguous elements of
 * V. */
#define ADJACENT (HR_V / HR_ROW_WARPS % 32 == 0 ? 4 : 2)

struct alignas(ADJACENT * sizeof(element)) adjacent_columns {
  element at[ADJACENT];
};

__device__ inline void convert_p(unsigned (&to)[4], const float (&p)[MMA_K / 8][4])
{
#pragma unroll
  for (int e = 0; e < 4; e++)
    to[e] = round_to_tf32(__float_as_uint(p[0][e % 2 * 2 + e / 2]));
}

/* Address of this thread's part of a V tile. */
__device__ inline unsigned v_address(const element *v_tile)
{
  int lane = threadIdx.x % 32;
  return shared_address(v_tile + lane % 4 * 2 * PITCH(HR_V) + warp_in_group() * O_TILES * 8 + lane / 4 * ADJACENT);
}

__device__ inline void load_adjacent(unsigned (&to)[4], unsigned from)
{
  if (ADJACENT == 4)
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
  round_operands(to);
}

/* O += P V for the keys of a step. */
__device__ inline void mma_pv(warp_state &w, const unsigned (&p)[HR_M_TILES][4], unsigned v_first, int step)
{
#pragma unroll
  for (int n = 0; n < O_TILES; n += ADJACENT) {
    unsigned even[4] = {}, odd[4] = {}, from = v_first + (step * 8 * PITCH(HR_V) + n * 8) * (int)sizeof(element);
    load_adjacent(even, from);
    load_adjacent(odd, from + PITCH(HR_V) * (int)sizeof(element));
#pragma unroll
    for (int j = 0; j < ADJACENT; j++)
#pragma unroll
      for (int i = 0; i < HR_M_TILES; i++)
        mma_sync(w.out[i][n + j], p[i], even[j], odd[j]);
  }
}

/* Writes a thread's part of a row of O to the tile that held Q. */
__device__ inline void stage_o(const warp_state &w, element *row, int i, int half)
{
#pragma unroll
  for (int n = 0; n < O_TILES; n += ADJACENT)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      adjacent_columns both;
#pragma unroll
      for (int j = 0; j < ADJACENT; j++)
        both.at[j] = w.out[i][n + j][half * 2 + e];
      *(adjacent_columns *)(row + n * 8 + (threadIdx.x % 4 * 2 + e) * ADJACENT) = both;
    }
}

#else

__device__ inline void convert_p(unsigned (&to)[4], const float (&p)[MMA_K / 8][4])
{
#pragma unroll
  for (int e = 0; e < 4; e++)
    to[e] = pack_pair(p[e / 2][e % 2 * 2], p[e / 2][e % 2 * 2 + 1]);
}

/* Address of this thread's part of a V tile. */
__device__ inline unsigned v_address(const element *v_tile)
{
  int lane = threadIdx.x % 32;
  return shared_address(v_tile + lane % 16 * PITCH(HR_V) + warp_in_group() * O_TILES * 8 + lane / 16 * CHUNK);
}

__device__ inline void mma_pv(warp_state &w, const unsigned (&p)[HR_M_TILES][4], unsigned v_first, int step)
{
#pragma unroll
  for (int n = 0; n < O_TILES; n += 2) {
    unsigned v[4];
    ldmatrix_x4_trans(v, v_first + (step * MMA_K * PITCH(HR_V) + n * 8) * (int)sizeof(element));
#pragma unroll
    for (int i = 0; i < HR_M_TILES; i++) {
      mma_sync(w.out[i][n], p[i], v[0], v[1]);
      mma_sync(w.out[i][n + 1], p[i], v[2], v[3]);
    }
  }
}

/* Writes a thread's part of a row of O to the tile that held Q. */
__device__ inline void stage_o(const warp_state &w, element *row, int i, int half)
{
#pragma unroll
  for (int n = 0; n < O_TILES; n++)
    *(unsigned *)(row + n * 8 + threadIdx.x % 4 * 2) = pack_pair(w.out[i][n][half * 2], w.out[i][n][half * 2 + 1]);
}

#endif

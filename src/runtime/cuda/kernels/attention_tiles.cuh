/* Tiles of attention_flash_sm80.cu: their copies to shared memory, and their products by the matrix units, which take 32
 * bytes of a row at a time (16 numbers of 16 bits, 8 of tf32).
 *
 * A row of a tile in shared memory has an odd number of 16-byte chunks, so that 8 rows of which ldmatrix reads 16 bytes
 * each lie in different banks. Head sizes are padded to HR_QK and HR_V, multiples of 16, with zeros, in shared memory only. */

#ifndef HR_TEAM
#define HR_TEAM 1
#endif
#define THREADS (32 * HR_WARPS)
#define TEAM_ROWS (16 * HR_ROW_TILES)
#define ROWS (HR_WARPS / HR_TEAM * TEAM_ROWS)
#define CHUNK (16 / (int)sizeof(element)) /* elements that are copied at once */
#define PITCH(dim) (((dim) / CHUNK | 1) * CHUNK) /* elements between rows of a tile */
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

/* Elements of shared memory; Q's part takes O in the end. Behind the stages of K and V lies what the warps of a team give
 * each other. attention_flash_sm80.c reckons the same. */
#define Q_SIZE (ROWS * LARGER(PITCH(HR_QK), PITCH(HR_V)))
#define K_SIZE (HR_COLUMNS * PITCH(HR_QK))
#define V_SIZE (HR_COLUMNS * PITCH(HR_V))

#define STEP (2 * CHUNK) /* elements that a product takes */
#define QK_STEPS (HR_QK / STEP)
#define KEY_STEPS (HR_COLUMNS / STEP / HR_TEAM) /* of a warp's keys */
#define Q_HELD (QK_STEPS * HR_ROW_TILES <= 8) /* fragments of Q stay in registers: 4 a step and row tile */
#define SCORE_TILES (HR_COLUMNS / 8 / HR_TEAM)
#define OUT_TILES (HR_V / 8 / HR_TEAM)

extern __shared__ __align__(16) element shared[];

/* Warps of a team have the same rows: each scores its part of a tile's keys, and sums its part of O's columns. They have one
 * stage of K and V, and spread copies over products. */
static_assert(HR_TEAM == 1 || (HR_TEAM == 2 && HR_STAGES == 1), "HR_TEAM");
__device__ inline int team() { return threadIdx.x / 32 / HR_TEAM; }
__device__ inline int member() { return HR_TEAM == 1 ? 0 : threadIdx.x / 32 % HR_TEAM; }

/* What a warp keeps: Q, sums of S, the weights as factors, sums of O, and for each of a thread's rows what exponents are
 * relative to, the score up to which that will do, and the sum of weights. */
struct warp_state {
  unsigned q[HR_ROW_TILES][Q_HELD ? QK_STEPS : 1][4];
  float scores[HR_ROW_TILES][SCORE_TILES][4];
  unsigned weights[KEY_STEPS][HR_ROW_TILES][4];
  float out[HR_ROW_TILES][OUT_TILES][4];
  float base[HR_ROW_TILES][2], limit[HR_ROW_TILES][2], sum[HR_ROW_TILES][2];
};

/* ---- copies ---- */

/* Threads that share the `chunks` of a row evenly: 8, which need one address a row and offsets, or fewer. Of rows of 512
 * bytes 32 do, whose addresses space the copies out: at head size 256 shared memory has no time to take them all at once,
 * and 8 threads a row cost 5%; at 128 they gain 1%. */
__device__ constexpr int sharing(int chunks)
{
  return chunks % 32 == 0 ? 32 : chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2;
}

/* `rows` × `dim` elements into a tile of TILE_ROWS × WIDTH; the rest of it becomes 0. */
template <int TILE_ROWS, int WIDTH>
__device__ inline void fill_tile(element *tile, const element *from, int64 stride, int rows, int dim)
{
#ifdef HR_ALIGNED
  constexpr int CHUNKS = WIDTH / CHUNK, LANES = sharing(CHUNKS), AT_ONCE = THREADS / LANES;
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
      copy_async(to + (i * PITCH(WIDTH) + c) * (int)sizeof(element), from + c,
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

/* Tiles of K or V from right to left, all but the last, which may end early. */
template <int WIDTH> struct tile_source {
  const element *at;
  int64 stride;
  int dim;

  static constexpr int CHUNKS = WIDTH / CHUNK, LANES = sharing(CHUNKS), ROWS_AT_ONCE = THREADS / LANES;
  static constexpr bool EVEN = HR_COLUMNS % ROWS_AT_ONCE == 0;

  __device__ static inline int column() { return threadIdx.x % LANES * CHUNK; }

  /* `first_row`: of the tile that is copied next. */
  __device__ inline void open(const element *from, int64 row_stride, int64 first_row, int width)
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
  __device__ inline void copy(element *tile)
  {
#ifdef HR_ALIGNED
    if constexpr (EVEN)
      copy_rows(tile, 0, HR_COLUMNS, true);
    else
#endif
      fill_tile<HR_COLUMNS, WIDTH>(tile, at, stride, HR_COLUMNS, dim);
    go_on();
  }

  /* One of PARTS, where it can, so that copies spread over products; go_on() follows the last. */
  template <int PARTS> __device__ inline void copy_part(element *tile, int part, bool wanted)
  {
#ifdef HR_ALIGNED
    if constexpr (EVEN) { /* `at` is this thread's then, which fill_tile() does not take */
      constexpr int TAKEN = HR_COLUMNS / ROWS_AT_ONCE % PARTS == 0 ? PARTS : 1;
      if (part < TAKEN)
        copy_rows(tile, part * (HR_COLUMNS / TAKEN), (part + 1) * (HR_COLUMNS / TAKEN), wanted);
      return;
    }
#endif
    if (part == 0 && wanted)
      fill_tile<HR_COLUMNS, WIDTH>(tile, at, stride, HR_COLUMNS, dim);
  }

  __device__ inline void go_on() { at -= HR_COLUMNS * stride; }

  __device__ inline void copy_rows(element *tile, int first, int end, bool wanted)
  {
    const element *from = at + first * stride;
    unsigned to = shared_address(tile + threadIdx.x / LANES * PITCH(WIDTH) + column());
#pragma unroll
    for (int i = first; i < end; i += ROWS_AT_ONCE, from += ROWS_AT_ONCE * stride)
#pragma unroll
      for (int c = 0; c < WIDTH; c += LANES * CHUNK)
        copy_async_if(wanted, to + (i * PITCH(WIDTH) + c) * (int)sizeof(element), from + c,
                      c + LANES * CHUNK <= WIDTH - 16 || column() + c < dim); /* WIDTH - 16 < dim */
  }
};

/* ---- products ---- */

/* Factors as the matrix units multiply them. */
__device__ inline void round_factors(unsigned (&factors)[4])
{
#ifdef HR_DTYPE_tf32
#pragma unroll
  for (int e = 0; e < 4; e++)
    factors[e] = round_to_tf32(factors[e]);
#endif
}

/* Fragments of 16 rows of Q. */
__device__ inline void load_q(unsigned (&to)[4], const element *q_tile, int row_tile, int step)
{
  int lane = threadIdx.x % 32, row = team() * TEAM_ROWS + row_tile * 16 + lane % 16;
  load_matrices(to, shared_address(q_tile + row * PITCH(HR_QK) + step * STEP + lane / 16 * CHUNK));
  round_factors(to);
}

__device__ inline void clear_scores(warp_state &w)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int n = 0; n < SCORE_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        w.scores[i][n][e] = 0;
}

/* Scores of 16 keys: two tiles. */
__device__ inline void multiply_keys(warp_state &w, const unsigned (&q)[HR_ROW_TILES][4], const unsigned (&k)[4], int pair)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++) {
    multiply_add(w.scores[i][2 * pair], q[i], k[0], k[1]);
    multiply_add(w.scores[i][2 * pair + 1], q[i], k[2], k[3]);
  }
}

/* Q's fragments for a step, from shared memory or as they are held. */
__device__ inline void take_q(unsigned (&to)[HR_ROW_TILES][4], const warp_state &w, const element *q_tile, int step)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++) {
    if (!Q_HELD)
      load_q(to[i], q_tile, i, step);
#pragma unroll
    for (int e = 0; Q_HELD && e < 4; e++)
      to[i][e] = w.q[i][Q_HELD ? step : 0][e];
  }
}

/* scores = Q Kᵀ; `beside` is called after every step. */
template <class BESIDE>
__device__ inline void multiply_scores(warp_state &w, const element *q_tile, const element *k_tile, BESIDE beside)
{
  int lane = threadIdx.x % 32, key = member() * SCORE_TILES * 8 + lane / 16 * 8 + lane % 8;
  unsigned k_row = shared_address(k_tile + key * PITCH(HR_QK) + lane / 8 % 2 * CHUNK);
  clear_scores(w);
#pragma unroll
  for (int step = 0; step < QK_STEPS; step++) {
    unsigned q[HR_ROW_TILES][4];
    take_q(q, w, q_tile, step);
#pragma unroll
    for (int n = 0; n < SCORE_TILES / 2; n++) {
      unsigned k[4];
      load_matrices(k, k_row + (n * 16 * PITCH(HR_QK) + step * STEP) * (int)sizeof(element));
      round_factors(k);
      multiply_keys(w, q, k, n);
    }
    beside(step);
  }
}

#ifdef HR_DTYPE_tf32

/* A thread's sums are of keys 2 t and 2 t + 1 where factors are of columns t and t + 4: the products take the keys in that
 * other order, in the weights as in V, and nothing moves between threads. Columns of O are dealt out anew too, WIDE tiles
 * sharing 8 · WIDE columns, so that a thread reads WIDE numbers of V that lie side by side. */
#define WIDE (HR_V / HR_TEAM % 32 == 0 ? 4 : 2)

struct alignas(WIDE * sizeof(element)) side_by_side {
  element at[WIDE];
};

__device__ inline void keep_weights(unsigned (&to)[4], const float (&weights)[STEP / 8][4])
{
#pragma unroll
  for (int e = 0; e < 4; e++)
    to[e] = round_to_tf32(__float_as_uint(weights[0][e % 2 * 2 + e / 2]));
}

/* Where this thread's part of a tile of V begins. */
__device__ inline unsigned v_address(const element *v_tile)
{
  int lane = threadIdx.x % 32;
  return shared_address(v_tile + lane % 4 * 2 * PITCH(HR_V) + member() * OUT_TILES * 8 + lane / 4 * WIDE);
}

__device__ inline void load_side_by_side(unsigned (&to)[4], unsigned from)
{
  if (WIDE == 4)
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
  round_factors(to);
}

/* out += P V for the keys of a step. */
__device__ inline void multiply_values(warp_state &w, const unsigned (&weights)[HR_ROW_TILES][4], unsigned v_first, int step)
{
#pragma unroll
  for (int n = 0; n < OUT_TILES; n += WIDE) {
    unsigned even[4] = {}, odd[4] = {}, from = v_first + (step * 8 * PITCH(HR_V) + n * 8) * (int)sizeof(element);
    load_side_by_side(even, from);
    load_side_by_side(odd, from + PITCH(HR_V) * (int)sizeof(element));
#pragma unroll
    for (int j = 0; j < WIDE; j++)
#pragma unroll
      for (int i = 0; i < HR_ROW_TILES; i++)
        multiply_add(w.out[i][n + j], weights[i], even[j], odd[j]);
  }
}

/* A thread's part of a row of O into the tile that held Q. */
__device__ inline void stage_out(const warp_state &w, element *row, int i, int half)
{
#pragma unroll
  for (int n = 0; n < OUT_TILES; n += WIDE)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      side_by_side both;
#pragma unroll
      for (int j = 0; j < WIDE; j++)
        both.at[j] = w.out[i][n + j][half * 2 + e];
      *(side_by_side *)(row + n * 8 + (threadIdx.x % 4 * 2 + e) * WIDE) = both;
    }
}

#else

__device__ inline void keep_weights(unsigned (&to)[4], const float (&weights)[STEP / 8][4])
{
#pragma unroll
  for (int e = 0; e < 4; e++)
    to[e] = pack_two(weights[e / 2][e % 2 * 2], weights[e / 2][e % 2 * 2 + 1]);
}

/* Where this thread's part of a tile of V begins. */
__device__ inline unsigned v_address(const element *v_tile)
{
  int lane = threadIdx.x % 32;
  return shared_address(v_tile + lane % 16 * PITCH(HR_V) + member() * OUT_TILES * 8 + lane / 16 * CHUNK);
}

__device__ inline void multiply_values(warp_state &w, const unsigned (&weights)[HR_ROW_TILES][4], unsigned v_first, int step)
{
#pragma unroll
  for (int n = 0; n < OUT_TILES; n += 2) {
    unsigned v[4];
    load_transposed(v, v_first + (step * STEP * PITCH(HR_V) + n * 8) * (int)sizeof(element));
#pragma unroll
    for (int i = 0; i < HR_ROW_TILES; i++) {
      multiply_add(w.out[i][n], weights[i], v[0], v[1]);
      multiply_add(w.out[i][n + 1], weights[i], v[2], v[3]);
    }
  }
}

/* A thread's part of a row of O into the tile that held Q. */
__device__ inline void stage_out(const warp_state &w, element *row, int i, int half)
{
#pragma unroll
  for (int n = 0; n < OUT_TILES; n++)
    *(unsigned *)(row + n * 8 + threadIdx.x % 4 * 2) = pack_two(w.out[i][n][half * 2], w.out[i][n][half * 2 + 1]);
}

#endif

/* Tiles of the fp32 attention kernels, without matrix units: 256 threads as 16 × 16 have 64 query rows and HR_COLUMNS keys.
 *
 *   thread (x, y): rows y, y + 16, y + 32, y + 48; of S the keys x, x + 16, …; of O columns x · WIDE … of every 16 · WIDE
 *
 * Rows of Q, K and P in shared memory are 4 words longer than a multiple of 32, so that 8 rows read in 16 bytes each lie in
 * different banks. HR_ALIGNED: copies of 16 bytes, otherwise of 4. */

#define THREADS 256
#define ROWS 64
#define OWN 4                     /* rows of a thread */
#define KEYS (HR_COLUMNS / 16)    /* of a thread */
#define OUT (HR_V / 16)           /* columns of a thread */
#define WIDE (HR_V % 64 == 0 ? 4 : HR_V % 32 == 0 ? 2 : 1) /* of them that lie side by side */
#define PITCH(dim) (((dim) + 31) / 32 * 32 + 4)

#define V_SIZE (HR_COLUMNS * HR_V) /* elements of a tile of V */
#define P_SIZE (ROWS * PITCH(HR_COLUMNS))

extern __shared__ __align__(16) float shared[];

struct state {
  float scores[OWN][KEYS], out[OWN][OUT];
  float largest[OWN], sum[OWN];
};

/* `rows` × `dim` elements into a tile of TILE_ROWS × WIDTH with rows of `pitch`; the rest of it becomes 0. */
template <int TILE_ROWS, int WIDTH>
__device__ inline void fill_tile(float *tile, int pitch, const float *from, int64 stride, int rows, int dim)
{
#ifdef HR_ALIGNED
  constexpr int STEP = 4;
#else
  constexpr int STEP = 1;
#endif
#pragma unroll 4
  for (int i = threadIdx.x; i < TILE_ROWS * (WIDTH / STEP); i += THREADS) {
    int row = i / (WIDTH / STEP), column = i % (WIDTH / STEP) * STEP;
    bool there = row < rows && column < dim;
    const float *at = there ? from + row * stride + column : from;
    unsigned to = shared_address(tile + row * pitch + column);
    if (STEP == 4)
      copy_async(to, at, there);
    else
      copy_async_word(to, at, there);
  }
  copies_commit();
}

/* Whether all rows of a block see all keys of a tile. */
__device__ inline bool sees_whole_tile(const attention_call &call, const head_view &view, int first_row, int first_key)
{
  key_range top = keys_of_row(call, view, first_row);
  key_range bottom = keys_of_row(call, view, min(first_row + ROWS, view.q_len) - 1);
  return first_key >= bottom.first && first_key + HR_COLUMNS <= top.end;
}

template <bool WHOLE>
__device__ inline void mask_tile(const attention_call &call, const head_view &view, state &s, int first_row, int first_key)
{
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    int row = first_row + threadIdx.x / 16 + 16 * i;
    key_range keys = keys_of_row(call, view, row);
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
      int key = first_key + threadIdx.x % 16 + 16 * j;
      float score = modify_score(call, view, s.scores[i][j], row, key);
      s.scores[i][j] = !WHOLE && (key < keys.first || key >= keys.end) ? minus_infinity() : score;
    }
  }
}

/* Scores scaled and masked: what the softmax is of. */
__device__ inline void mask_scores(const attention_call &call, const head_view &view, state &s, int first_row,
                                   int first_key)
{
  if (sees_whole_tile(call, view, first_row, first_key))
    mask_tile<true>(call, view, s, first_row, first_key);
  else
    mask_tile<false>(call, view, s, first_row, first_key);
}

template <class OPERATION> __device__ inline float over_row(float value, OPERATION combine)
{
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  return value;
}

/* Scores become weights, which go to shared memory; sum and out are brought to the same largest score. The difference is
 * formed before it is scaled, so that the exponent is as exact as the scores. */
__device__ inline void soften(const attention_call &call, state &s, float *p_tile)
{
  float factor = softmax_factor(call);
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    float largest = s.largest[i], sum = 0;
#pragma unroll
    for (int j = 0; j < KEYS; j++)
      largest = fmaxf(largest, s.scores[i][j]);
    largest = over_row(largest, [](float a, float b) { return fmaxf(a, b); });
    float base = largest == minus_infinity() ? 0 : largest;
    float correction = power_of_two((s.largest[i] - base) * factor);
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
      float weight = power_of_two((s.scores[i][j] - base) * factor);
      p_tile[(threadIdx.x / 16 + 16 * i) * PITCH(HR_COLUMNS) + threadIdx.x % 16 + 16 * j] = weight;
      sum += weight;
    }
    s.largest[i] = largest;
    s.sum[i] = s.sum[i] * correction + sum;
#pragma unroll
    for (int n = 0; n < OUT; n++)
      s.out[i][n] *= correction;
  }
}

__device__ inline void multiply_values(state &s, const float *p_tile, const float *v_tile)
{
  struct alignas(WIDE * sizeof(float)) pack {
    float at[WIDE];
  };
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll 1
  for (int key = 0; key < HR_COLUMNS; key += 4) {
    float4 p[OWN];
#pragma unroll
    for (int i = 0; i < OWN; i++)
      p[i] = *(const float4 *)(p_tile + (y + 16 * i) * PITCH(HR_COLUMNS) + key);
#pragma unroll
    for (int n = 0; n < OUT; n += WIDE)
#pragma unroll
      for (int k = 0; k < 4; k++) {
        pack v = *(const pack *)(v_tile + (key + k) * HR_V + x * WIDE + n * 16);
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
          for (int e = 0; e < WIDE; e++)
            s.out[i][n + e] = fmaf(k == 0 ? p[i].x : k == 1 ? p[i].y : k == 2 ? p[i].z : p[i].w, v.at[e], s.out[i][n + e]);
      }
  }
}

/* Divides by the sum of weights and writes. A row without keys is 0, whatever its tiles made of NaN in V; one whose every
 * score is −∞ is NaN. */
__device__ inline void finish(const attention_call &call, const head_view &view, const state &s, int first_row)
{
  int x = threadIdx.x % 16;
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    int row = first_row + threadIdx.x / 16 + 16 * i;
    float sum = over_row(s.sum[i], [](float a, float b) { return a + b; });
    key_range keys = keys_of_row(call, view, row);
    if (row >= view.q_len)
      continue;
    bool nothing = keys.first >= keys.end;
    float inverse = 1.0f / sum;
#pragma unroll
    for (int n = 0; n < OUT; n++) {
      int column = x * WIDE + n / WIDE * 16 * WIDE + n % WIDE;
      if (column < call.v_dim)
        view.o[row * call.o_at.row + column] = nothing ? 0 : s.out[i][n] * inverse;
    }
    if (view.lse && x == 0)
      view.lse[row * call.lse_at.row] = (s.largest[i] * softmax_factor(call) + log2f(sum)) * LN_2;
  }
}

__device__ inline void begin(state &s)
{
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    s.largest[i] = minus_infinity();
    s.sum[i] = 0;
#pragma unroll
    for (int n = 0; n < OUT; n++)
      s.out[i][n] = 0;
  }
}

__device__ inline void fill_v(const attention_call &call, const head_view &view, float *v_tile, int tile)
{
  int first_key = tile * HR_COLUMNS;
  fill_tile<HR_COLUMNS, HR_V>(v_tile, HR_V, view.v + first_key * call.v_at.row, call.v_at.row, view.kv_len - first_key,
                              call.v_dim);
}

/* Operations on rows: softmax, norms, rotary embedding, activations, residual. Bound by memory: each input is read once and
 * the result written once, in accesses of 16 bytes where the row length allows it; arithmetic is in fp32.
 *
 *   block: blockDim.y rows of blockDim.x threads each (a power of two); thread t of a row owns the packs t, t + blockDim.x, …
 *   held:   the row stays in registers (16 elements a thread, so up to 16384 of a row), reductions through shuffles and
 *           one shared word a warp
 *   stream: rows that are longer, read again for each pass (softmax twice, norms three times)
 *
 * Every operation has the same parameters: up to three inputs, the result, and rows, columns, period, group as in
 * hr_rows. Entry points end in _vector and _long (16 bytes), _scalar (any length) and _stream (any length, no limit). */
#include "runtime/cuda/kernels/number.cuh"

#define HELD 16 /* elements of a thread */
#define WIDE (16 / (int)sizeof(element))
#define THREADS_MOST 1024
#define EPSILON 1e-5f
#define LOG2_E 1.4426950408889634f

typedef long long int64;

template <int WIDTH> struct alignas(WIDTH * sizeof(element)) pack {
  element at[WIDTH];
};

struct task {
  const element *a, *b, *c;
  element *out;
  int64 rows, columns, period, group;
};

__device__ inline float minus_infinity() { return __uint_as_float(0xFF800000u); }

struct add {
  __device__ float operator()(float x, float y) const { return x + y; }
};

struct larger {
  __device__ float operator()(float x, float y) const { return fmaxf(x, y); }
};

/* The same value in all threads of a row. All threads of the block come here. */
template <class OPERATION> __device__ float over_row(float value, OPERATION combine)
{
  __shared__ float partial[32];
  for (int distance = (blockDim.x < 32 ? blockDim.x : 32) / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  if (blockDim.x <= 32)
    return value;
  int warps = blockDim.x / 32, first = threadIdx.y * warps;
  __syncthreads(); /* the last use of partial is over */
  if (threadIdx.x % 32 == 0)
    partial[first + threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[first];
  for (int i = 1; i < warps; i++)
    value = combine(value, partial[first + i]);
  return value;
}

__device__ inline int64 row_of_thread() { return (int64)blockIdx.x * blockDim.y + threadIdx.y; }

/* Columns that a row of a causal softmax sees; period 0: all. */
__device__ inline int64 seen_by(const task &t, int64 row)
{
  return t.period > 0 ? row % t.period + t.columns - t.period + 1 : t.columns;
}

/* ---- rows in registers ---- */

template <int WIDTH> __device__ inline int column_of(int i)
{
  return (int)(threadIdx.x + i * blockDim.x) * WIDTH;
}

template <int WIDTH> __device__ inline void load_row(const element *row, int columns, bool there, float otherwise,
                                                           float (&v)[HELD])
{
#pragma unroll
  for (int i = 0; i < HELD / WIDTH; i++) {
    int column = column_of<WIDTH>(i);
    bool inside = there && column < columns;
    pack<WIDTH> p;
    if (inside)
      p = *(const pack<WIDTH> *)(row + column);
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
      v[i * WIDTH + j] = inside ? to_float(p.at[j]) : otherwise;
  }
}

template <int WIDTH, class VALUE> __device__ inline void store_row(element *row, int columns, bool there, VALUE value)
{
#pragma unroll
  for (int i = 0; i < HELD / WIDTH; i++) {
    int column = column_of<WIDTH>(i);
    if (!there || column >= columns)
      continue;
    pack<WIDTH> p;
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
      p.at[j] = from_float(value(i * WIDTH + j, column + j));
    *(pack<WIDTH> *)(row + column) = p;
  }
}

template <int WIDTH, bool CAUSAL> __device__ inline void softmax_held(const task &t)
{
  int64 row = row_of_thread();
  int columns = (int)t.columns, seen = CAUSAL ? (int)seen_by(t, row) : columns;
  bool there = row < t.rows;
  float v[HELD], most = minus_infinity(), sum = 0;
  load_row<WIDTH>(t.a + row * t.columns, columns, there, minus_infinity(), v);
#pragma unroll
  for (int i = 0; i < HELD; i++) {
    if (CAUSAL && column_of<WIDTH>(i / WIDTH) + i % WIDTH >= seen)
      v[i] = minus_infinity();
    most = fmaxf(most, v[i]);
  }
  most = over_row(most, larger());
#pragma unroll
  for (int i = 0; i < HELD; i++) {
    /* −∞ − −∞ is NaN, as it should be for what is seen. Without a mask a pack is seen whole or lies beyond the row. */
    int column = column_of<WIDTH>(i / WIDTH) + (CAUSAL ? i % WIDTH : 0);
    v[i] = column < seen ? exp2f((v[i] - most) * LOG2_E) : 0.0f;
    sum += v[i];
  }
  float scale = 1.0f / over_row(sum, add());
  store_row<WIDTH>(t.out + row * t.columns, columns, there,
                   [&](int i, int column) { return !CAUSAL || column < seen ? v[i] * scale : 0.0f; });
}

template <int WIDTH, bool CENTRED> __device__ inline void norm_held(const task &t)
{
  int64 row = row_of_thread();
  int columns = (int)t.columns;
  bool there = row < t.rows;
  float v[HELD], sum = 0, squares = 0;
  load_row<WIDTH>(t.a + row * t.columns, columns, there, 0.0f, v);
  float mean = 0;
  if (CENTRED) {
#pragma unroll
    for (int i = 0; i < HELD; i++)
      sum += v[i];
    mean = over_row(sum, add()) / (float)columns;
  }
#pragma unroll
  for (int i = 0; i < HELD; i++) {
    v[i] -= there && column_of<WIDTH>(i / WIDTH) < columns ? mean : 0.0f; /* what is beyond the row is 0, and stays so */
    squares += v[i] * v[i];
  }
  float scale = rsqrtf(over_row(squares, add()) / (float)t.columns + EPSILON);
#pragma unroll
  for (int i = 0; i < HELD / WIDTH; i++) {
    int column = column_of<WIDTH>(i);
    if (!there || column >= columns)
      continue;
    pack<WIDTH> weight = *(const pack<WIDTH> *)(t.b + column), bias = weight;
    if (CENTRED)
      bias = *(const pack<WIDTH> *)(t.c + column);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
      float result = v[i * WIDTH + j] * scale * to_float(weight.at[j]);
      weight.at[j] = from_float(CENTRED ? result + to_float(bias.at[j]) : result);
    }
    *(pack<WIDTH> *)(t.out + row * t.columns + column) = weight;
  }
}

/* ---- rows that are too long for that: one a block ---- */

__device__ inline void softmax_stream_row(const task &t)
{
  int64 row = row_of_thread(), seen = seen_by(t, row);
  if (row >= t.rows) /* a whole block: blockDim.y is 1 */
    return;
  const element *from = t.a + row * t.columns;
  float most = minus_infinity(), sum = 0;
  for (int64 column = threadIdx.x; column < seen; column += blockDim.x) {
    float value = to_float(from[column]);
    if (value == minus_infinity())
      continue;
    if (value > most) {
      sum *= exp2f((most - value) * LOG2_E);
      most = value;
    }
    sum += exp2f((value - most) * LOG2_E);
  }
  float whole = over_row(most, larger());
  sum = over_row(sum * exp2f((most - whole) * LOG2_E), add()); /* NaN where all are −∞ */
  float scale = 1.0f / sum;
  for (int64 column = threadIdx.x; column < t.columns; column += blockDim.x)
    t.out[row * t.columns + column] =
        from_float(column < seen ? exp2f((to_float(from[column]) - whole) * LOG2_E) * scale : 0.0f);
}

template <bool CENTRED> __device__ inline void norm_stream_row(const task &t)
{
  int64 row = row_of_thread();
  if (row >= t.rows)
    return;
  const element *from = t.a + row * t.columns;
  float sum = 0, squares = 0, mean = 0;
  if (CENTRED) {
    for (int64 column = threadIdx.x; column < t.columns; column += blockDim.x)
      sum += to_float(from[column]);
    mean = over_row(sum, add()) / (float)t.columns;
  }
  for (int64 column = threadIdx.x; column < t.columns; column += blockDim.x) {
    float value = to_float(from[column]) - mean;
    squares += value * value;
  }
  float scale = rsqrtf(over_row(squares, add()) / (float)t.columns + EPSILON);
  for (int64 column = threadIdx.x; column < t.columns; column += blockDim.x) {
    float result = (to_float(from[column]) - mean) * scale * to_float(t.b[column]);
    t.out[row * t.columns + column] = from_float(CENTRED ? result + to_float(t.c[column]) : result);
  }
}

/* ---- element by element ---- */

/* erff() is more arithmetic than an element of 16 bits takes to move, so that those have one that is off by 1.5e-7 at most.
 * Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. */
__device__ inline float error_function(float x)
{
  if (sizeof(element) == 4)
    return erff(x);
  float size = fabsf(x), t = __fdividef(1.0f, 1.0f + 0.3275911f * size);
  float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return copysignf(1.0f - sum * exp2f(-size * size * LOG2_E), x);
}

struct gelu_of {
  __device__ float operator()(float x, float) const
  {
    return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));
  }
};

struct swiglu_of {
  __device__ float operator()(float gate, float up) const { return gate / (1.0f + exp2f(-gate * LOG2_E)) * up; }
};

struct sum_of {
  __device__ float operator()(float x, float y) const { return x + y; }
};

template <int WIDTH, bool TWO, class VALUE> __device__ inline void each(const task &t, VALUE value)
{
  int64 packs = t.rows * t.columns / WIDTH, stride = (int64)gridDim.x * blockDim.x;
  for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < packs; i += stride) {
    pack<WIDTH> x = ((const pack<WIDTH> *)t.a)[i], y = x;
    if (TWO)
      y = ((const pack<WIDTH> *)t.b)[i];
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
      x.at[j] = from_float(value(to_float(x.at[j]), to_float(y.at[j])));
    ((pack<WIDTH> *)t.out)[i] = x;
  }
}

/* Columns i and i + columns/2 are turned by the angle whose cosine and sine are columns i and i + columns/2 of row
 * (row / group) % period of the table b. */
template <int WIDTH> __device__ inline void rotary_row(const task &t)
{
  int64 row = row_of_thread(), half = t.columns / 2;
  if (row >= t.rows)
    return;
  const element *from = t.a + row * t.columns, *table = t.b + row / t.group % t.period * t.columns;
  element *to = t.out + row * t.columns;
  for (int64 column = (int64)threadIdx.x * WIDTH; column < half; column += (int64)blockDim.x * WIDTH) {
    pack<WIDTH> x = *(const pack<WIDTH> *)(from + column), y = *(const pack<WIDTH> *)(from + half + column);
    pack<WIDTH> cosine = *(const pack<WIDTH> *)(table + column), sine = *(const pack<WIDTH> *)(table + half + column);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
      float u = to_float(x.at[j]), v = to_float(y.at[j]), c = to_float(cosine.at[j]), s = to_float(sine.at[j]);
      x.at[j] = from_float(u * c - v * s);
      y.at[j] = from_float(v * c + u * s);
    }
    *(pack<WIDTH> *)(to + column) = x;
    *(pack<WIDTH> *)(to + half + column) = y;
  }
}

/* Threads of a block at most, and blocks that a multiprocessor keeps: with 32 registers a thread it holds 2048 threads, and
 * while the rows of one block wait for their sums, others load. */
#define SMALL 512, 4 /* rows up to 8192 */
#define ROOMY 512, 3 /* the same for layer norm, which would spill: 75% of a copy instead of 64% (H200, 2026-11-21) */
#define FULL THREADS_MOST, 2
#define LOOSE THREADS_MOST, 1 /* more registers: packs of one element have 16 addresses to keep */

#define ENTRY(name, call, ...)                                                                                   \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                                                      \
      name(const element *a, const element *b, const element *c, element *out, int64 rows, int64 columns,        \
           int64 period, int64 group)                                                                            \
  {                                                                                                              \
    task t = {a, b, c, out, rows, columns, period, group};                                                       \
    call;                                                                                                        \
  }

#define HELD_ENTRIES(name, wide, narrow, ...) \
  ENTRY(name##_vector, wide, __VA_ARGS__)     \
  ENTRY(name##_long, wide, FULL)              \
  ENTRY(name##_scalar, narrow, LOOSE)

HELD_ENTRIES(softmax, (softmax_held<WIDE, false>(t)), (softmax_held<1, false>(t)), SMALL)
HELD_ENTRIES(softmax_causal, (softmax_held<WIDE, true>(t)), (softmax_held<1, true>(t)), SMALL)
HELD_ENTRIES(layer_norm, (norm_held<WIDE, true>(t)), (norm_held<1, true>(t)), ROOMY)
HELD_ENTRIES(rms_norm, (norm_held<WIDE, false>(t)), (norm_held<1, false>(t)), SMALL)
ENTRY(softmax_stream, softmax_stream_row(t), LOOSE)
ENTRY(layer_norm_stream, norm_stream_row<true>(t), LOOSE)
ENTRY(rms_norm_stream, norm_stream_row<false>(t), LOOSE)
ENTRY(rotary_vector, rotary_row<WIDE>(t), LOOSE)
ENTRY(rotary_scalar, rotary_row<1>(t), LOOSE)
ENTRY(gelu_vector, (each<WIDE, false>(t, gelu_of())), SMALL)
ENTRY(gelu_scalar, (each<1, false>(t, gelu_of())), SMALL)
ENTRY(swiglu_vector, (each<WIDE, true>(t, swiglu_of())), SMALL)
ENTRY(swiglu_scalar, (each<1, true>(t, swiglu_of())), SMALL)
ENTRY(residual_vector, (each<WIDE, true>(t, sum_of())), SMALL)
ENTRY(residual_scalar, (each<1, true>(t, sum_of())), SMALL)

/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations without a reduction: GELU, SwiGLU, residual, dropout, rotary embedding. Bound: memory, but for
 * GELU in 16 bits, which arithmetic bounds (88% of a copy; docs/notes/rowwise.md). */
#include "runtime/cuda/kernels/rowwise_pack.cuh"

#include "runtime/cuda/kernels/dropout.cuh"

/* erff() takes longer than the transfer of a 16-bit element, so that 16-bit dtypes use an approximation with an error
 * of 1.5e-7. Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. */
__device__ inline float error_function(float x)
{
  if (sizeof(element) == 4)
    return erff(x);
  float size = fabsf(x), t = __fdividef(1.0f, 1.0f + 0.3275911f * size);
  float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return copysignf(1.0f - sum * exp2_approx(-size * size * LOG2_E), x);
}

struct gelu_of {
  __device__ float operator()(float x, float) const
  {
    return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));
  }
};

struct swiglu_of {
  __device__ float operator()(float gate, float up) const
  {
    return gate / (1.0f + exp2f(-gate * LOG2_E)) * up;
  }
};

struct sum_of {
  __device__ float operator()(float x, float y) const
  {
    return x + y;
  }
};

/* Treats each tensor as one row. */
template <bool TWO, class VALUE> __device__ inline void each_element(const task &t, VALUE value)
{
  int64 count = t.rows * t.columns, stride = (int64)gridDim.x * blockDim.x * PACK_ELEMENTS;
  int64 at = ((int64)blockIdx.x * blockDim.x + threadIdx.x) * PACK_ELEMENTS - offset_of(t.out);
  for (; at < count; at += stride) {
    pack x = load_unaligned(t.a, at, count), y = x;
    if (TWO)
      y = load_unaligned(t.b, at, count);
    float v[PACK_ELEMENTS];
#pragma unroll
    for (int j = 0; j < PACK_ELEMENTS; j++)
      v[j] = value(x.at(j), y.at(j));
    store_pack(t.out, at, count, v);
  }
}

template <int WIDTH> struct alignas(WIDTH * sizeof(element)) part {
  element at[WIDTH];
};

/* Rotates columns i and i + columns/2 by the angle whose cosine and sine are columns i and i + columns/2 of row
 * (row / group) % period of the table b. */
template <int WIDTH> __device__ inline void rotary_row(const task &t, int64 row)
{
  typedef part<WIDTH> some;
  int64 half = t.columns / 2;
  const element *from = t.a + row * t.columns, *table = t.b + row / t.group % t.period * t.columns;
  element *to = t.out + row * t.columns;
  for (int64 column = (int64)threadIdx.x * WIDTH; column < half; column += (int64)blockDim.x * WIDTH) {
    some x = *(const some *)(from + column), y = *(const some *)(from + half + column);
    some cosine = *(const some *)(table + column), sine = *(const some *)(table + half + column);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
      float u = to_float(x.at[j]), v = to_float(y.at[j]), c = to_float(cosine.at[j]), s = to_float(sine.at[j]);
      x.at[j] = from_float(u * c - v * s);
      y.at[j] = from_float(v * c + u * s);
    }
    *(some *)(to + column) = x;
    *(some *)(to + half + column) = y;
  }
}

/* Accesses of 16 or 4 bytes or one element, as half a row and the addresses allow. */
__device__ inline void rotary_rows(const task &t)
{
  int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
  size_t bits = (size_t)t.a | (size_t)t.b | (size_t)t.out | (size_t)(t.columns / 2 * (int64)sizeof(element));
  if (row >= t.rows)
    return;
  if (bits % 16 == 0)
    rotary_row<16 / sizeof(element)>(t, row);
  else if (bits % 4 == 0)
    rotary_row<4 / sizeof(element)>(t, row);
  else
    rotary_row<1>(t, row);
}

#define ENTRY(name, call, ...)                                              \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name PARAMETERS \
  {                                                                         \
    task t = TASK;                                                          \
    call;                                                                   \
  }

ENTRY(gelu, (each_element<false>(t, gelu_of())), 256, 8)
ENTRY(swiglu, (each_element<true>(t, swiglu_of())), 256, 8)
ENTRY(residual, (each_element<true>(t, sum_of())), 256, 8)
ENTRY(dropout, drop_elements(t), 256, 6)
ENTRY(rotary, rotary_rows(t), 256, 5)

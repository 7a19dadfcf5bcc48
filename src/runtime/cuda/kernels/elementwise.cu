/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations without a reduction: activations, residual, dropout, rotary embedding, biases, copies, gates,
 * rows of a table and their sums. Bound: memory, but for GELU in 16 bits, which arithmetic bounds (88% of a copy;
 * docs/notes/rowwise.md). */
#include "runtime/cuda/kernels/rowwise_pack.cuh"

#include "runtime/cuda/kernels/activation.cuh"
#include "runtime/cuda/kernels/dropout.cuh"

struct sum_of {
  __device__ float operator()(float x, float y) const
  {
    return x + y;
  }
};

struct product_with {
  float factor;

  __device__ float operator()(float x, float) const
  {
    return x * factor;
  }
};

struct softcap_by {
  float factor;

  __device__ float operator()(float x, float) const
  {
    return factor * tanhf(x / factor);
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

/* A row of rotary: of its result the columns first … first + rotated are rotated, the others are copied. */
struct rotary_row {
  const element *from; /* of the rotated columns */
  const element *rest; /* of the others; column 0 of the row */
  const element *table;
  element *to;             /* column 0 */
  int64 first, begin, end; /* the copied columns are begin … end */
};

__device__ inline rotary_row row_of_rotary(const task &t, int64 row)
{
  const element *x = t.row_of_x(row), *table = t.b + row / t.group % t.period * t.rotated;
  return {x, x, table, t.row_of_y(row), 0, t.rotated, t.columns};
}

/* The rotated columns come from b, and the table is c. */
__device__ inline rotary_row row_of_join(const task &t, int64 row)
{
  const element *z = t.b + row / t.group * t.z_stride + row % t.group * t.z_row;
  const element *table = t.c + row / t.group % t.period * t.rotated;
  int64 before = t.columns - t.rotated;
  return {z, t.row_of_x(row), table, t.out + row * t.columns, before, 0, before};
}

template <int WIDTH> __device__ inline void copy_unrotated(const rotary_row &r)
{
  typedef part<WIDTH> some;
  for (int64 column = r.begin + (int64)threadIdx.x * WIDTH; column < r.end; column += (int64)blockDim.x * WIDTH)
    *(some *)(r.to + column) = *(const some *)(r.rest + column);
}

/* Rotates columns 2i and 2i + 1 by the angle of columns i and i + rotated/2 of the table's row. */
__device__ inline void rotate_neighbours(const rotary_row &r, int64 half)
{
  element *to = r.to + r.first;
  for (int64 i = threadIdx.x; i < half; i += blockDim.x) {
    float u = to_float(r.from[2 * i]), v = to_float(r.from[2 * i + 1]);
    float c = to_float(r.table[i]), s = to_float(r.table[half + i]);
    to[2 * i] = from_float(u * c - v * s);
    to[2 * i + 1] = from_float(v * c + u * s);
  }
  copy_unrotated<1>(r);
}

/* Rotates columns i and i + rotated/2 by the angle whose cosine and sine are columns i and i + rotated/2 of the table's
 * row. */
template <int WIDTH> __device__ inline void rotate_halves(const rotary_row &r, int64 half)
{
  typedef part<WIDTH> some;
  element *to = r.to + r.first;
  for (int64 column = (int64)threadIdx.x * WIDTH; column < half; column += (int64)blockDim.x * WIDTH) {
    some x = *(const some *)(r.from + column), y = *(const some *)(r.from + half + column);
    some cosine = *(const some *)(r.table + column), sine = *(const some *)(r.table + half + column);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
      float u = to_float(x.at[j]), v = to_float(y.at[j]), c = to_float(cosine.at[j]), s = to_float(sine.at[j]);
      x.at[j] = from_float(u * c - v * s);
      y.at[j] = from_float(v * c + u * s);
    }
    *(some *)(to + column) = x;
    *(some *)(to + half + column) = y;
  }
  copy_unrotated<WIDTH>(r);
}

/* Accesses of 16 or 4 bytes or one element, as half a row, distances and the addresses allow. */
template <class ROW_OF> __device__ inline void rotary_rows(const task &t, int64 distances, ROW_OF row_of)
{
  int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y, half = t.rotated / 2;
  size_t bits = (size_t)t.a | (size_t)t.b | (size_t)t.c | (size_t)t.out |
                (size_t)((half | t.columns | t.x_stride | t.y_stride | distances) * (int64)sizeof(element));
  if (row >= t.rows)
    return;
  rotary_row r = row_of(t, row);
  if (t.interleaved)
    rotate_neighbours(r, half);
  else if (bits % 16 == 0)
    rotate_halves<16 / sizeof(element)>(r, half);
  else if (bits % 4 == 0)
    rotate_halves<4 / sizeof(element)>(r, half);
  else
    rotate_halves<1>(r, half);
}

/* Rows of the result, one after another; value(row, column) is an element of it. */
template <class VALUE> __device__ inline void each_of_rows(const task &t, VALUE value)
{
  for (int64 row = blockIdx.x; row < t.rows; row += gridDim.x) {
    element *to = t.row_of_y(row);
    for (int64 column = threadIdx.x; column < t.columns; column += blockDim.x)
      to[column] = value(row, column);
  }
}

template <class ROW_OF> __device__ inline void move_rows(const task &t, const element *bias, ROW_OF row_of)
{
  each_of_rows(t, [&](int64 row, int64 column) {
    const element *from = row_of(row);
    return bias ? from_float(to_float(from[column]) + to_float(bias[column])) : from[column];
  });
}

__device__ inline float sigmoid(float x)
{
  return 1.0f / (1.0f + exp2f(-x * LOG2_E));
}

/* The share of a head's softmax that is not the sink's; as hr_rowwise_lse_at(). */
__device__ inline float share_beside_sink(const task &t, int64 row)
{
  const float *lse = (const float *)(const void *)t.b, *sinks = (const float *)(const void *)t.c;
  int64 head = row % t.group, query = row / t.group % t.period, sequence = row / t.group / t.period;
  return sigmoid(lse[(sequence * t.group + head) * t.period + query] - sinks[head]);
}

template <class SHARE> __device__ inline void share_rows(const task &t, SHARE share)
{
  each_of_rows(
      t, [&](int64 row, int64 column) { return from_float(to_float(t.a[row * t.columns + column]) * share(row)); });
}

/* Sums of rows of the table b: their numbers are in the place of x, their weights in that of the bias. */
__device__ inline void combine_rows(const task &t)
{
  each_of_rows(t, [&](int64 row, int64 column) {
    const int *numbers = (const int *)(const void *)t.a + row * t.group;
    const float *weights = (const float *)(const void *)t.c + row * t.group;
    float sum = 0;
    for (int64 term = 0; term < t.group; term++)
      sum += weights[term] * to_float(t.b[(int64)numbers[term] * t.columns + column]);
    return from_float(sum);
  });
}

__device__ inline void weight_rows(const task &t)
{
  each_of_rows(t, [&](int64 row, int64 column) {
    return from_float(to_float(t.a[row * t.columns + column]) * to_float(t.b[column]));
  });
}

/* The numbers of a gather are in the place of x. */
__device__ inline const element *row_of_table(const task &t, int64 row)
{
  return t.b + (int64)((const int *)(const void *)t.a)[row] * t.columns;
}

#define ENTRY(name, call, ...)                                              \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name PARAMETERS \
  {                                                                         \
    task t = TASK;                                                          \
    follow_kernel_before();                                                 \
    call;                                                                   \
  }

ENTRY(gelu, (each_element<false>(t, gelu_of())), 256, 8)
ENTRY(swiglu, (each_element<true>(t, swiglu_of())), 256, 8)
ENTRY(residual, (each_element<true>(t, sum_of())), 256, 8)
ENTRY(dropout, drop_elements(t), 256, 6)
ENTRY(rotary, rotary_rows(t, 0, row_of_rotary), 256, 5)
ENTRY(rotary_join, rotary_rows(t, t.x_row | t.z_row | t.z_stride, row_of_join), 256, 5)
ENTRY(gelu_tanh, (each_element<false>(t, gelu_tanh_of())), 256, 8)
ENTRY(relu, (each_element<false>(t, relu_of())), 256, 8)
ENTRY(relu2, (each_element<false>(t, relu2_of())), 256, 8)
ENTRY(geglu, (each_element<true>(t, geglu_of())), 256, 8)
ENTRY(geglu_tanh, (each_element<true>(t, geglu_tanh_of())), 256, 8)
ENTRY(scale, (each_element<false>(t, product_with{t.number})), 256, 8)
ENTRY(copy, move_rows(t, nullptr, [&](int64 row) { return t.row_of_x(row); }), 256, 8)
ENTRY(bias, move_rows(t, t.b, [&](int64 row) { return t.row_of_x(row); }), 256, 8)
ENTRY(gather, move_rows(t, nullptr, [&](int64 row) { return row_of_table(t, row); }), 256, 8)
ENTRY(softcap, (each_element<false>(t, softcap_by{t.number})), 256, 8)
ENTRY(swiglu_clamped, (each_element<true>(t, swiglu_clamped_by{t.number})), 256, 8)
ENTRY(weight, weight_rows(t), 256, 8)
ENTRY(gate, share_rows(t, [&](int64 row) { return sigmoid(to_float(t.b[row])); }), 256, 8)
ENTRY(sink, share_rows(t, [&](int64 row) { return share_beside_sink(t, row); }), 256, 8)
ENTRY(combine, combine_rows(t), 256, 8)

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

template <int WIDTH> __device__ inline void copy_columns(const rotary_row &r)
{
  typedef part<WIDTH> some;
  for (int64 column = r.begin + (int64)threadIdx.x * WIDTH; column < r.end; column += (int64)blockDim.x * WIDTH)
    *(some *)(r.to + column) = *(const some *)(r.rest + column);
}

/* Heads of 80 of which 20 are rotated have halves of 20 bytes, but 8 bytes to copy at a time. */
__device__ inline void copy_unrotated(const rotary_row &r)
{
  size_t bits =
      (size_t)(r.rest + r.begin) | (size_t)(r.to + r.begin) | (size_t)((r.end - r.begin) * (int64)sizeof(element));
  if (bits % 16 == 0)
    copy_columns<16 / sizeof(element)>(r);
  else if (bits % 8 == 0)
    copy_columns<8 / sizeof(element)>(r);
  else if (bits % 4 == 0)
    copy_columns<4 / sizeof(element)>(r);
  else
    copy_columns<1>(r);
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
  copy_unrotated(r);
}

/* ---- rows ---- */

#define ROWS_AHEAD 4 /* rows of a thread whose elements are loaded together */

/* Elements that a thread moves at once, in BYTES: 16, 4 or those of one. By words, as the compiler splits loads and
 * stores of structs of elements. */
template <int BYTES> struct piece {
  static const int WORDS = BYTES < 4 ? 1 : BYTES / 4, WIDTH = BYTES / (int)sizeof(element);
  unsigned word[WORDS];

  __device__ void load(const element *at)
  {
    if (BYTES == 16) {
      const uint4 v = *(const uint4 *)at;
      word[0] = v.x, word[WORDS > 1] = v.y, word[WORDS / 2] = v.z, word[WORDS - 1] = v.w;
    } else {
      word[0] = BYTES == 4 ? *(const unsigned *)at : bits_of(*at);
    }
  }
  __device__ void store(element *at) const
  {
    if (BYTES == 16)
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(at)), "r"(word[0]),
                   "r"(word[WORDS > 1]), "r"(word[WORDS / 2]), "r"(word[WORDS - 1])
                   : "memory");
    else if (BYTES == 4)
      *(unsigned *)at = word[0];
    else
      *at = from_float(value_in(word[0], 0));
  }
  __device__ float at(int i) const
  {
    return value_in(word[i / PER_WORD], i % PER_WORD);
  }
  __device__ void set(const float (&values)[WIDTH])
  {
    const float beside[2] = {values[0], 0};
#pragma unroll
    for (int i = 0; i < WORDS; i++)
      word[i] = word_of(BYTES < 4 ? beside : values + i * PER_WORD);
  }
};

/* How many bytes a thread moves at once, as `bits` and rows of the result allow. */
__device__ inline int access_bytes(const task &t, size_t bits)
{
  bits |= (size_t)t.out | (size_t)((t.columns | t.y_stride) * (int64)sizeof(element));
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : (int)sizeof(element);
}

/* Runs work.by<BYTES>(t). */
template <class WORK> __device__ inline void by_access(const task &t, size_t bits, WORK work)
{
  const int bytes = access_bytes(t, bits);
  if (bytes == 16)
    work.template by<16>(t);
  else if (bytes == 4)
    work.template by<4>(t);
  else
    work.template by<(int)sizeof(element)>(t);
}

/* Rows of row_of(row), a bias (NULL: none) added. */
template <class ROW_OF> struct moving {
  const element *bias;
  ROW_OF row_of;

  template <int BYTES> __device__ void add_bias(piece<BYTES> &x, int64 column) const
  {
    float v[piece<BYTES>::WIDTH];
#pragma unroll
    for (int j = 0; j < piece<BYTES>::WIDTH; j++)
      v[j] = x.at(j) + to_float(bias[column + j]);
    x.set(v);
  }

  /* from[i], or zeros for NULL, to to[i]; NULL: there is no such row. */
  template <int BYTES>
  __device__ void together(const task &t, const element *const (&from)[ROWS_AHEAD], element *const (&to)[ROWS_AHEAD])
  {
    constexpr int width = piece<BYTES>::WIDTH;
    for (int64 column = (int64)threadIdx.x * width; column < t.columns; column += (int64)blockDim.x * width) {
      piece<BYTES> x[ROWS_AHEAD] = {};
#pragma unroll
      for (int i = 0; i < ROWS_AHEAD; i++)
        if (from[i])
          x[i].load(from[i] + column);
#pragma unroll
      for (int i = 0; i < ROWS_AHEAD; i++) {
        if (bias)
          add_bias(x[i], column);
        if (to[i])
          x[i].store(to[i] + column);
      }
    }
  }

  template <int BYTES> __device__ void by(const task &t)
  {
    const int64 stride = (int64)gridDim.x * blockDim.y, begin = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    for (int64 first = begin; first < t.rows; first += ROWS_AHEAD * stride) {
      const element *from[ROWS_AHEAD];
      element *to[ROWS_AHEAD];
#pragma unroll
      for (int i = 0; i < ROWS_AHEAD; i++) {
        const int64 row = first + i * stride;
        from[i] = row < t.rows ? row_of(row) : nullptr;
        to[i] = row < t.rows ? t.row_of_y(row) : nullptr;
      }
      together<BYTES>(t, from, to);
    }
  }
};

template <class ROW_OF> __device__ inline void move_rows(const task &t, size_t bits, const element *bias, ROW_OF row_of)
{
  by_access(t, bits, moving<ROW_OF>{bias, row_of});
}

/* The address and strides of the rows of x. */
__device__ inline size_t bits_of_x(const task &t)
{
  return (size_t)t.a | (size_t)((t.x_stride | t.x_row) * (int64)sizeof(element));
}

/* Some elements of the result after another; make(row, column, v) makes as many. */
template <int BYTES, class MAKE> __device__ inline void each_of_rows(const task &t, MAKE make)
{
  constexpr int width = piece<BYTES>::WIDTH;
  const int64 stride = (int64)gridDim.x * blockDim.y;
  for (int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y; row < t.rows; row += stride) {
    for (int64 column = (int64)threadIdx.x * width; column < t.columns; column += (int64)blockDim.x * width) {
      float v[width];
      piece<BYTES> y;
      make(row, column, v);
      y.set(v);
      y.store(t.row_of_y(row) + column);
    }
  }
}

template <class VALUE> struct changing {
  VALUE value;

  template <int BYTES> __device__ void by(const task &t)
  {
    each_of_rows<BYTES>(t, [&](int64 row, int64 column, float(&v)[piece<BYTES>::WIDTH]) {
      piece<BYTES> x;
      x.load(t.a + row * t.columns + column);
#pragma unroll
      for (int j = 0; j < piece<BYTES>::WIDTH; j++)
        v[j] = value(row, column + j, x.at(j));
    });
  }
};

/* Each element of x by value(row, column, x). */
template <class VALUE> __device__ inline void change_rows(const task &t, VALUE value)
{
  by_access(t, (size_t)t.a, changing<VALUE>{value});
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
  change_rows(t, [&](int64 row, int64, float x) { return x * share(row); });
}

__device__ inline void weight_rows(const task &t)
{
  change_rows(t, [&](int64, int64 column, float x) { return x * to_float(t.b[column]); });
}

#define TERMS_AHEAD 4 /* of a sum, whose elements are loaded together */

/* Sums of rows of the table b: their numbers are in the place of x, their weights in that of the bias. A negative
 * number is no row. */
struct combining {
  template <int BYTES>
  __device__ static void add_terms(const task &t, int64 row, int64 column, int64 term,
                                   float (&sum)[piece<BYTES>::WIDTH])
  {
    const int *numbers = (const int *)(const void *)t.a + row * t.group;
    const float *weights = (const float *)(const void *)t.c + row * t.group;
    piece<BYTES> x[TERMS_AHEAD];
    int number[TERMS_AHEAD];
    float weight[TERMS_AHEAD];
#pragma unroll
    for (int i = 0; i < TERMS_AHEAD; i++)
      if (term + i < t.group)
        number[i] = numbers[term + i], weight[i] = weights[term + i];
#pragma unroll
    for (int i = 0; i < TERMS_AHEAD; i++)
      if (term + i < t.group && number[i] >= 0)
        x[i].load(t.b + (int64)number[i] * t.columns + column);
#pragma unroll
    for (int i = 0; i < TERMS_AHEAD; i++)
      if (term + i < t.group && number[i] >= 0) {
#pragma unroll
        for (int j = 0; j < piece<BYTES>::WIDTH; j++)
          sum[j] += weight[i] * x[i].at(j);
      }
  }

  template <int BYTES> __device__ void by(const task &t)
  {
    each_of_rows<BYTES>(t, [&](int64 row, int64 column, float(&sum)[piece<BYTES>::WIDTH]) {
#pragma unroll
      for (int j = 0; j < piece<BYTES>::WIDTH; j++)
        sum[j] = 0;
      for (int64 term = 0; term < t.group; term += TERMS_AHEAD)
        add_terms<BYTES>(t, row, column, term, sum);
    });
  }
};

/* The numbers of a gather are in the place of x. NULL for a negative one. */
__device__ inline const element *row_of_table(const task &t, int64 row)
{
  const int64 number = ((const int *)(const void *)t.a)[row];
  return number < 0 ? nullptr : t.b + number * t.columns;
}

__device__ inline void limit_rows(task &t)
{
  if (t.row_count && *(const int *)t.row_count < t.rows)
    t.rows = *(const int *)t.row_count;
}

#define ENTRY(name, call, ...)                                              \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name PARAMETERS \
  {                                                                         \
    task t = TASK;                                                          \
    follow_kernel_before();                                                 \
    limit_rows(t);                                                          \
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
ENTRY(copy, move_rows(t, bits_of_x(t), nullptr, [&](int64 row) { return t.row_of_x(row); }), 256, 4)
ENTRY(bias, move_rows(t, bits_of_x(t), t.b, [&](int64 row) { return t.row_of_x(row); }), 256, 4)
ENTRY(gather, move_rows(t, (size_t)t.b, nullptr, [&](int64 row) { return row_of_table(t, row); }), 256, 4)
ENTRY(softcap, (each_element<false>(t, softcap_by{t.number})), 256, 8)
ENTRY(swiglu_clamped, (each_element<true>(t, swiglu_clamped_by{t.number})), 256, 8)
ENTRY(weight, weight_rows(t), 256, 8)
ENTRY(gate, share_rows(t, [&](int64 row) { return sigmoid(to_float(t.b[row])); }), 256, 8)
ENTRY(sink, share_rows(t, [&](int64 row) { return share_beside_sink(t, row); }), 256, 8)
ENTRY(combine, by_access(t, (size_t)t.b, combining()), 256, 4)

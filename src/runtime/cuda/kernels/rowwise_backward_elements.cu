/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of activations and of the rotary embedding, and AdamW: element by element. Bound: memory.
 *
 *   gelu     dx = dy (Φ(x) + x φ(x))                          3 moves of each element; so the other activations
 *   swiglu   dgate = dy up s (1 + gate (1 − s)), dup = dy gate s, s = 1 / (1 + e^−gate)      5
 *   rotary   the forward rotation by the opposite angle       2
 *   adamw    include/headroom/rowwise.h; the weights, means and variances in fp32 are read and written, the gradient is
 *            read, before that for its norm once more, and the 16-bit weight is written: 30 bytes of a parameter */
#include "runtime/cuda/kernels/rowwise_pack.cuh"

#include "runtime/cuda/kernels/rowwise_backward_layout.h"
#include "runtime/cuda/kernels/rowwise_store.cuh"

#define CLIP_EPSILON 1e-6f
#define STATES 4 /* elements of a thread in adamw: 16 bytes of each state */

typedef hr_backward_rows_call backward_call;

/* ---- activations ---- */

/* Φ(x); e is e^(−x² / 2), which is that of φ, too. In 16 bits the error function is that of elementwise.cu. Source:
 * Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. */
__device__ inline float gelu_share(float x, float e)
{
  float size = fabsf(x) * 0.70710678118654752f, sum;
  if (sizeof(element) == 4) {
    sum = 1.0f - erff(size);
  } else {
    float t = __fdividef(1.0f, 1.0f + 0.3275911f * size);
    sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f)))) * e;
  }
  return 0.5f + copysignf(0.5f - 0.5f * sum, x);
}

__device__ inline float gelu_decay(float x)
{
  return exp2_approx(-x * x * 0.5f * LOG2_E);
}

/* Φ(x) + x φ(x). */
__device__ inline float gelu_slope(float x)
{
  const float e = gelu_decay(x);
  return gelu_share(x, e) + x * e * 0.3989422804014327f;
}

/* s of gelu_tanh, x s. */
__device__ inline float tanh_share(float x)
{
  return 1.0f / (1.0f + exp2f(-2.0f * LOG2_E * 0.7978845608f * (x + 0.044715f * x * x * x)));
}

__device__ inline float gelu_tanh_slope(float x)
{
  float s = tanh_share(x);
  return s + x * s * (1.0f - s) * (2.0f * 0.7978845608f * (1.0f + 3 * 0.044715f * x * x));
}

/* The gradient of an activation of x whose own is dy: slope(dy, x). */
template <class SLOPE> struct gradient_by {
  static constexpr int inputs = 2, outputs = 1;
  SLOPE slope;
  __device__ void operator()(float dy, float x, float, float &dx, float &) const
  {
    dx = slope(dy, x);
  }
};

template <class SLOPE> __device__ inline gradient_by<SLOPE> of_slope(SLOPE slope)
{
  return {slope};
}

/* Φ(x), from the slope without x φ(x). */
__device__ inline float gelu_share(float x)
{
  return gelu_slope(x) - x * exp2_approx(-x * x * 0.5f * LOG2_E) * 0.3989422804014327f;
}

template <bool EXACT> struct geglu_gradient {
  static constexpr int inputs = 3, outputs = 2;
  __device__ void operator()(float dy, float gate, float up, float &dgate, float &dup) const
  {
    dgate = dy * up * (EXACT ? gelu_slope(gate) : gelu_tanh_slope(gate));
    dup = dy * gate * (EXACT ? gelu_share(gate, gelu_decay(gate)) : tanh_share(gate));
  }
};

struct swiglu_gradient {
  static constexpr int inputs = 3, outputs = 2;
  __device__ void operator()(float dy, float gate, float up, float &dgate, float &dup) const
  {
    float s = 1.0f / (1.0f + exp2f(-gate * LOG2_E));
    dgate = dy * up * s * (1.0f + gate * (1.0f - s));
    dup = dy * gate * s;
  }
};

/* Treats each tensor as one row, whose packs are those of the first output. */
template <class GRADIENT> __device__ inline void each_gradient(const backward_call &t, GRADIENT gradient)
{
  const element *in[3] = {(const element *)t.inputs[0], (const element *)t.inputs[1], (const element *)t.inputs[2]};
  element *out[2] = {(element *)t.outputs[0], (element *)t.outputs[1]};
  int64 count = t.rows * t.columns, stride = (int64)gridDim.x * blockDim.x * PACK_ELEMENTS;
  int64 at = ((int64)blockIdx.x * blockDim.x + threadIdx.x) * PACK_ELEMENTS - offset_of(out[0]);
  for (; at < count; at += stride) {
    pack p[3];
#pragma unroll
    for (int i = 0; i < 3; i++)
      p[i] = i < GRADIENT::inputs ? load_unaligned(in[i], at, count) : pack(0, 0, 0, 0);
    float v[2][PACK_ELEMENTS];
#pragma unroll
    for (int j = 0; j < PACK_ELEMENTS; j++)
      gradient(p[0].at(j), p[1].at(j), p[2].at(j), v[0][j], v[1][j]);
    store_pack(out[0], at, count, v[0]);
    if (GRADIENT::outputs > 1)
      store_unaligned(out[1], at, count, v[1]);
  }
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) gelu_backward(const backward_call t)
{
  each_gradient(t, of_slope([](float dy, float x) { return dy * gelu_slope(x); }));
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) gelu_tanh_backward(const backward_call t)
{
  each_gradient(t, of_slope([](float dy, float x) { return dy * gelu_tanh_slope(x); }));
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) relu_backward(const backward_call t)
{
  each_gradient(t, of_slope([](float dy, float x) { return x <= 0 ? 0.0f : dy; }));
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) relu2_backward(const backward_call t)
{
  each_gradient(t, of_slope([](float dy, float x) { return x <= 0 ? 0.0f : 2.0f * dy * x; }));
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) softcap_backward(const backward_call t)
{
  each_gradient(t, of_slope([&](float dy, float x) {
                  float share = tanhf(x / t.factor);
                  return dy * (1.0f - share * share);
                }));
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) geglu_backward(const backward_call t)
{
  each_gradient(t, geglu_gradient<true>());
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) geglu_tanh_backward(const backward_call t)
{
  each_gradient(t, geglu_gradient<false>());
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) swiglu_backward(const backward_call t)
{
  each_gradient(t, swiglu_gradient());
}

/* ---- rows of a table ---- */

/* The next row of the same number behind `row`, or −1; a warp, which looks at 32 rows at a time. */
__device__ inline int next_of(const int *numbers, int64 row, int64 rows)
{
  for (int64 from = row + 1; from < rows; from += 32) {
    int64 at = from + threadIdx.x % 32;
    unsigned same = __ballot_sync(0xFFFFFFFFu, at < rows && numbers[at < rows ? at : row] == numbers[row]);
    if (same)
      return (int)(from + __ffs((int)same) - 1);
  }
  return -1;
}

__device__ inline bool occurs_before(const int *numbers, int64 row)
{
  for (int64 from = 0; from < row; from += 32) {
    int64 at = from + threadIdx.x % 32;
    if (__ballot_sync(0xFFFFFFFFu, at < row && numbers[at] == numbers[row]))
      return true;
  }
  return false;
}

/* Links the rows of each number, a warp to a row, and puts what the sums are added to into the table. */
extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) gather_links(const backward_call t)
{
  const int *numbers = (const int *)t.inputs[0];
  int *links = (int *)t.sums, *firsts = links + t.rows;
  const element *from = (const element *)t.inputs[2];
  element *to = (element *)t.outputs[0];
  int64 thread = (int64)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64)gridDim.x * blockDim.x;
  for (int64 row = thread / 32; row < t.rows; row += threads / 32) {
    int next = next_of(numbers, row, t.rows);
    bool first = !occurs_before(numbers, row);
    if (threadIdx.x % 32 == 0)
      links[row] = next, firsts[row] = first;
  }
  for (int64 at = thread; at < t.period * t.columns && (t.factor == 0 || from != to); at += threads)
    to[at] = t.factor == 0 ? from_float(0.0f) : from[at];
}

/* The block of a number's first row adds all of them up, in order. */
extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) gather_backward(const backward_call t)
{
  const int *numbers = (const int *)t.inputs[0], *links = (const int *)t.sums, *firsts = links + t.rows;
  const element *dy = (const element *)t.inputs[1];
  for (int64 row = blockIdx.x; row < t.rows; row += gridDim.x) {
    element *to = (element *)t.outputs[0] + numbers[row] * t.columns;
    for (int64 column = threadIdx.x; firsts[row] && column < t.columns; column += blockDim.x) {
      float sum = to_float(to[column]);
      for (int64 from = row; from >= 0; from = links[from])
        sum += to_float(dy[from * t.columns + column]);
      to[column] = from_float(sum);
    }
  }
}

/* ---- a block to a row ---- */

/* Adds up over the threads of the block, in one order; every thread gets the sum. */
__device__ inline float block_sum(float value)
{
  __shared__ float parts[HR_ELEMENT_THREADS / 32];
  float sum = 0;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = value;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < HR_ELEMENT_THREADS / 32; warp++)
    sum += parts[warp];
  return sum;
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) gather_sum(const backward_call t)
{
  const int *numbers = (const int *)t.inputs[0] + blockIdx.x * t.group;
  const element *table = (const element *)t.inputs[1];
  element *out = (element *)t.outputs[0] + blockIdx.x * t.columns;
  for (int64 column = threadIdx.x * PACK_ELEMENTS; column < t.columns; column += HR_ELEMENT_THREADS * PACK_ELEMENTS) {
    float sums[PACK_ELEMENTS] = {};
#pragma unroll 4
    for (int64 term = 0; term < t.group; term++) {
      if (numbers[term] < 0)
        continue;
      pack some = load_unaligned(table + numbers[term] * t.columns, column, t.columns);
#pragma unroll
      for (int i = 0; i < PACK_ELEMENTS; i++)
        sums[i] += some.at(i);
    }
    store_unaligned(out, column, t.columns, sums);
  }
}

/* Writes dx = dy factor; returns the sum of x dy. */
__device__ inline float scale_row(const element *dy, const element *x, float factor, element *dx, int64 columns)
{
  float sum = 0;
  for (int64 column = threadIdx.x * PACK_ELEMENTS; column < columns; column += HR_ELEMENT_THREADS * PACK_ELEMENTS) {
    pack d = load_unaligned(dy, column, columns), other = load_unaligned(x, column, columns);
    float scaled[PACK_ELEMENTS];
#pragma unroll
    for (int i = 0; i < PACK_ELEMENTS; i++) {
      scaled[i] = d.at(i) * factor;
      sum += d.at(i) * other.at(i);
    }
    store_unaligned(dx, column, columns, scaled);
  }
  return block_sum(sum);
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) combine_backward(const backward_call t)
{
  const int64 row = blockIdx.x, at = row * t.columns, number = ((const int *)t.inputs[0])[row];
  float sum = scale_row((const element *)t.inputs[1] + number * t.columns, (const element *)t.inputs[2] + at,
                        ((const float *)t.inputs[3])[row], (element *)t.outputs[0] + at, t.columns);
  if (threadIdx.x == 0)
    ((float *)t.outputs[1])[row] = sum;
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) gate_backward(const backward_call t)
{
  const int64 row = blockIdx.x, at = row * t.columns;
  float s = 1.0f / (1.0f + exp2f(-to_float(((const element *)t.inputs[2])[row]) * LOG2_E));
  float sum = scale_row((const element *)t.inputs[0] + at, (const element *)t.inputs[1] + at, s,
                        (element *)t.outputs[0] + at, t.columns);
  if (threadIdx.x == 0)
    ((element *)t.outputs[1])[row] = from_float(s * (1.0f - s) * sum);
}

/* ---- rotary ---- */

template <int WIDTH> struct alignas(WIDTH * sizeof(element)) part {
  element at[WIDTH];
};

template <int WIDTH> __device__ inline void rotate_back(const backward_call &t, int64 row)
{
  typedef part<WIDTH> some;
  int64 half = t.columns / 2;
  const element *dy = (const element *)t.inputs[0] + row * t.columns;
  const element *table = (const element *)t.inputs[1] + row / t.group % t.period * t.columns;
  element *dx = (element *)t.outputs[0] + row * t.columns;
  for (int64 column = (int64)threadIdx.x * WIDTH; column < half; column += (int64)blockDim.x * WIDTH) {
    some x = *(const some *)(dy + column), y = *(const some *)(dy + half + column);
    some cosine = *(const some *)(table + column), sine = *(const some *)(table + half + column);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
      float u = to_float(x.at[j]), v = to_float(y.at[j]), c = to_float(cosine.at[j]), s = to_float(sine.at[j]);
      x.at[j] = from_float(u * c + v * s);
      y.at[j] = from_float(v * c - u * s);
    }
    *(some *)(dx + column) = x;
    *(some *)(dx + half + column) = y;
  }
}

/* Accesses of 16 or 4 bytes or one element, as half a row and the addresses allow. */
extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 5) rotary_backward(const backward_call t)
{
  int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
  unsigned long long bits =
      t.inputs[0] | t.inputs[1] | t.outputs[0] | (unsigned long long)(t.columns / 2 * (int64)sizeof(element));
  if (row >= t.rows)
    return;
  if (bits % 16 == 0)
    rotate_back<16 / sizeof(element)>(t, row);
  else if (bits % 4 == 0)
    rotate_back<4 / sizeof(element)>(t, row);
  else
    rotate_back<1>(t, row);
}

/* ---- AdamW ---- */

/* The squares of the gradient that the block reads, in its first thread. */
__device__ inline float squares_of_block(const backward_call &t)
{
  const element *gradient = (const element *)t.inputs[0];
  int64 count = t.rows * t.columns, stride = (int64)gridDim.x * blockDim.x * PACK_ELEMENTS;
  int64 at = ((int64)blockIdx.x * blockDim.x + threadIdx.x) * PACK_ELEMENTS - offset_of(gradient);
  float sum = 0;
#pragma unroll 4
  for (; at < count; at += stride) {
    pack p = load_unaligned(gradient, at, count);
#pragma unroll
    for (int j = 0; j < PACK_ELEMENTS; j++)
      sum += p.at(j) * p.at(j);
  }
  return block_sum(sum);
}

extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 8) gradient_squares(const backward_call t)
{
  const float sum = squares_of_block(t);
  if (threadIdx.x == 0)
    ((float *)t.sums)[blockIdx.x] = sum;
}

/* The kernel adds a part of the gradient, with factor 1 to the parts before. */
extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 8) add_squares(const backward_call t)
{
  const float sum = squares_of_block(t);
  float *sums = (float *)t.sums;
  if (threadIdx.x == 0)
    sums[blockIdx.x] = t.factor > 0 ? sums[blockIdx.x] + sum : sum;
}

/* What gradients are scaled by: a NaN stays one. */
__device__ inline float clip_of(const backward_call &t)
{
  float sum = 0;
  if (t.max_norm <= 0)
    return 1;
  for (int64 block = threadIdx.x; block < t.blocks; block += blockDim.x)
    sum += ((const float *)t.sums)[block];
  float clip = t.max_norm / (sqrtf(block_sum(sum)) + CLIP_EPSILON);
  return clip > 1 ? 1.0f : clip;
}

struct adamw_state {
  float weight, mean, variance;
};

__device__ inline void take_step(const backward_call &t, float gradient, adamw_state &s)
{
  s.mean = t.beta1 * s.mean + t.rest1 * gradient;
  s.variance = t.beta2 * s.variance + t.rest2 * gradient * gradient;
  s.weight = s.weight * t.decay - t.rate * s.mean / (sqrtf(s.variance) * t.root + t.epsilon);
}

template <int WIDTH> struct alignas(WIDTH * sizeof(float)) floats {
  float at[WIDTH];
};

template <int WIDTH> __device__ inline void step_elements(const backward_call &t, float clip)
{
  typedef floats<WIDTH> some;
  int64 count = t.rows * t.columns, stride = (int64)gridDim.x * blockDim.x * WIDTH;
  for (int64 at = ((int64)blockIdx.x * blockDim.x + threadIdx.x) * WIDTH; at < count; at += stride) {
    part<WIDTH> gradient = *(const part<WIDTH> *)((const element *)t.inputs[0] + at), copy;
    some weight = *(const some *)((const float *)t.inputs[1] + at),
         mean = *(const some *)((const float *)t.inputs[2] + at),
         variance = *(const some *)((const float *)t.inputs[3] + at);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
      adamw_state s = {weight.at[j], mean.at[j], variance.at[j]};
      take_step(t, to_float(gradient.at[j]) * clip, s);
      weight.at[j] = s.weight, mean.at[j] = s.mean, variance.at[j] = s.variance;
      copy.at[j] = from_float(s.weight);
    }
    *(some *)((float *)t.outputs[0] + at) = weight;
    *(some *)((float *)t.outputs[1] + at) = mean;
    *(some *)((float *)t.outputs[2] + at) = variance;
    if (sizeof(element) < 4)
      *(part<WIDTH> *)((element *)t.outputs[3] + at) = copy;
  }
}

/* 16 bytes of each state at a time where the addresses and the number of elements allow it. */
extern "C" __global__ void __launch_bounds__(HR_ELEMENT_THREADS, 4) adamw(const backward_call t)
{
  unsigned long long states = t.inputs[1] | t.inputs[2] | t.inputs[3] | t.outputs[0] | t.outputs[1] | t.outputs[2];
  unsigned long long numbers = t.inputs[0] | (sizeof(element) < 4 ? t.outputs[3] : 0);
  float clip = clip_of(t);
  if (states % 16 == 0 && numbers % (STATES * sizeof(element)) == 0 && t.rows * t.columns % STATES == 0)
    step_elements<STATES>(t, clip);
  else
    step_elements<1>(t, clip);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm (HR_CENTRED = 1) and RMS norm (0) over rows.
 *
 *   y = (x − mean) / sqrt(mean of (x − mean)² + epsilon) weight + bias; the mean is 0 in RMS norm, which has no bias.
 *   Bound: memory; rowwise_registers.cuh has the tiles and figures. */
#if HR_STAGED_ROWS
#include "runtime/cuda/kernels/rowwise_staged.cuh"
#else
#include "runtime/cuda/kernels/rowwise_registers.cuh"
#endif

/* Weights are loaded one step ahead of their use: in long rows they come from the L2 (+2 to 4% of a copy). Not where
 * they have to be shifted, which needs the registers (−3%). */
#define PREFETCH (HR_ALIGNMENT == HR_ROWS_ALIGNED || HR_SHIFTED)

struct row_stats {
  float count, mean, squares; /* squares of x − mean */
};

/* Sum of squared differences from the mean of all elements, by that from the mean of some. */
__device__ inline float squares_from(float mean, const row_stats &f)
{
  return HR_CENTRED ? f.squares + f.count * ((f.mean - mean) * (f.mean - mean)) : f.squares;
}

/* Mean and squares of a thread's values in one pass: one of the values is subtracted from all, so that the difference
 * of the sums loses no more than the row's squares times their number and an epsilon. */
__device__ inline void find_stats(row_group &x, row_stats (&own)[ROWS])
{
  float from[ROWS] = {}, sum[ROWS] = {}, squares[ROWS] = {};
  int count = 0;
#pragma unroll
  for (int j = 0; j < ROWS && HR_CENTRED; j++)
    from[j] = x.any_value(j);
  x.for_each([&](int j, float value) {
    value -= from[j];
    sum[j] += value;
    squares[j] += value * value;
    if (j == 0)
      count++;
  });
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    own[j] = {0, 0, squares[j]};
    if (HR_CENTRED && count > 0) {
      float part = __fdividef(sum[j], (float)count);
      own[j] = {(float)count, from[j] + part, squares[j] - sum[j] * part};
    }
  }
}

__device__ inline row_stats warp_reduce(const row_stats &f)
{
  float count = COLUMNS, mean = 0;
  if (HR_CENTRED) {
    if (WARP_COUNT > 1)
      count = warp_reduce(f.count, sum_op());
    mean = count > 0 ? warp_reduce(f.count * f.mean, sum_op()) / count : 0.0f;
  }
  return {count, mean, warp_reduce(squares_from(mean, f), sum_op())};
}

__device__ inline void norm(row_group &x, const task &t)
{
  unit weight = {}, bias = {};
  auto fetch = [&](int i) {
    if (!x.has(i))
      return;
    weight = x.weight_unit(t.b, i);
    if (HR_CENTRED)
      bias = x.weight_unit(t.c, i);
  };
  row_stats own[ROWS];
  find_stats(x, own);
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    own[j] = warp_reduce(own[j]);
  if (PREFETCH)
    fetch(x.has(0) ? 0 : 1);
  warp_stats<row_stats> all = exchange(own);
  float mean[ROWS] = {}, scale[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    if (HR_CENTRED)
      mean[j] = all.reduce(j, sum_op(), [](const row_stats &f) { return f.count * f.mean; }) * (1.0f / COLUMNS);
    float squares = all.reduce(j, sum_op(), [&](const row_stats &f) { return squares_from(mean[j], f); });
    scale[j] = rsqrtf(squares * (1.0f / COLUMNS) + t.number);
  }
  x.for_each_unit(COLUMNS, [&](const unit(&p)[ROWS], int i) {
    if (!PREFETCH)
      fetch(i);
    unit w = weight, c = bias;
    if (PREFETCH)
      fetch(i + 1);
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
      float values[UNIT];
#pragma unroll
      for (int k = 0; k < UNIT; k++) {
        values[k] = (p[j].at(k) - mean[j]) * scale[j] * w.at(k);
        if (HR_CENTRED)
          values[k] += c.at(k);
      }
      x.store(i, j, values);
    }
  });
}

ROWWISE_KERNEL(norm_rows, norm)

#if HR_SHIFTED
/* Copies the vectors b and c to out, once for every offset that a row may have in a pack: [vector, offset,
 * SHIFTED_COLUMNS], padded with zeros. */
extern "C" __global__ void shift_vectors PARAMETERS
{
  int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x, copy_elements = PACK_ELEMENTS * (int64)SHIFTED_COLUMNS;
  if (at >= (1 + HR_CENTRED) * copy_elements)
    return;
  int64 column = at % SHIFTED_COLUMNS - at % copy_elements / SHIFTED_COLUMNS;
  const element *vector = at < copy_elements ? b : c;
  out[at] = column >= 0 && column < COLUMNS ? vector[column] : from_float(0.0f);
}
#endif

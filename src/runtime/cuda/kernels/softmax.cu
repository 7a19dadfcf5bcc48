/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax over rows, with or without a causal mask.
 *
 *   y = 2^((x − max) log2 e) / sum. Packs stay in registers in their dtype, so that every exponential is computed
 *   twice; as floats
 *   they would take twice the registers. Bound: memory; rowwise_registers.cuh has the tiles and figures. */
#if HR_STAGED_ROWS
#include "runtime/cuda/kernels/rowwise_staged.cuh"
#else
#include "runtime/cuda/kernels/rowwise_registers.cuh"
#endif

struct row_stats {
  float most, sum; /* sum of 2^((x − most) log2 e) */
};

__device__ inline void softmax(row_group &x, const task &)
{
  float most[ROWS], from[ROWS], sum[ROWS] = {}, scale[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    most[j] = minus_infinity();
  x.largest(most);
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    most[j] = warp_reduce(most[j], max_op());
    from[j] = most[j] == minus_infinity() ? 0.0f : most[j];
  }
  x.for_each([&](int j, float &value) {
    float exponential = exp2_approx((value - from[j]) * LOG2_E);
    sum[j] += exponential;
    if (KEEPS_FLOATS)
      value = exponential;
  });
  row_stats own[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    own[j] = {most[j], warp_reduce(sum[j], sum_op())};
  warp_stats<row_stats> all = exchange(own);
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    most[j] = all.reduce(j, max_op(), [](const row_stats &f) { return f.most; });
    scale[j] = 1.0f / all.reduce(j, sum_op(),
                                 [&](const row_stats &f) { return f.sum * exp2_approx((f.most - most[j]) * LOG2_E); });
  }
  x.for_each_unit(COLUMNS, [&](const unit(&p)[ROWS], int i) {
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
      float values[UNIT];
#pragma unroll
      for (int k = 0; k < UNIT; k++)
        values[k] = (KEEPS_FLOATS ? p[j].at(k) : exp2_approx((p[j].at(k) - most[j]) * LOG2_E)) * scale[j];
      x.store(i, j, values);
    }
  });
}

ROWWISE_KERNEL(softmax_rows, softmax)

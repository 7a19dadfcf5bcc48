/* Softmax over rows, with or without a causal mask.
 *
 *   y = 2^((x − max) log2 e) / sum. In the registers is x as it was loaded, so that every exponential is computed twice: it
 *   would take twice the registers as a float. */
#if HR_CHUNK
#include "runtime/cuda/kernels/staged.cuh"
#else
#include "runtime/cuda/kernels/row.cuh"
#endif

__device__ inline void softmax(team &x, const task &)
{
  float most[ROWS], sum[ROWS] = {};
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    most[j] = minus_infinity();
  x.each([&](int j, float value) { most[j] = fmaxf(most[j], value); });
  over_row<0>(most, larger());
  x.each([&](int j, float value) { sum[j] += power_of_2((value - most[j]) * LOG2_E); });
  over_row<1>(sum, add());
  float scale[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    scale[j] = 1.0f / sum[j];
  x.each_unit(COLUMNS, [&](const unit(&p)[ROWS], int i) {
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
      float values[UNIT];
#pragma unroll
      for (int k = 0; k < UNIT; k++)
        values[k] = power_of_2((p[j].at(k) - most[j]) * LOG2_E) * scale[j];
      x.store(i, j, values);
    }
  });
}

ROW_ENTRY(softmax_rows, softmax)

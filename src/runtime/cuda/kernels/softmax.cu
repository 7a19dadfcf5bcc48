/* Softmax over rows, with or without a causal mask.
 *
 *   y = 2^((x − max) log2 e) / sum. Packs stay in the registers as they were loaded, so that every exponential is computed
 *   twice: it would take twice the registers as a float. */
#if HR_CHUNK
#include "runtime/cuda/kernels/staged.cuh"
#else
#include "runtime/cuda/kernels/row.cuh"
#endif

struct found {
  float most, sum; /* sum of 2^((x − most) log2 e) */
};

__device__ inline void softmax(team &x, const task &)
{
  float most[ROWS], from[ROWS], sum[ROWS] = {}, scale[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    most[j] = minus_infinity();
  x.largest(most);
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    most[j] = over_warp(most[j], larger());
    from[j] = most[j] == minus_infinity() ? 0.0f : most[j];
  }
  x.each([&](int j, float &value) {
    float exponential = power_of_2((value - from[j]) * LOG2_E);
    sum[j] += exponential;
    if (KEEPS_FLOATS)
      value = exponential;
  });
  found own[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    own[j] = {most[j], over_warp(sum[j], add())};
  found_by_warps<found> all = gather(own);
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    most[j] = all.over(j, larger(), [](const found &f) { return f.most; });
    scale[j] = 1.0f / all.over(j, add(), [&](const found &f) { return f.sum * power_of_2((f.most - most[j]) * LOG2_E); });
  }
  x.each_unit(COLUMNS, [&](const unit(&p)[ROWS], int i) {
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
      float values[UNIT];
#pragma unroll
      for (int k = 0; k < UNIT; k++)
        values[k] = (KEEPS_FLOATS ? p[j].at(k) : power_of_2((p[j].at(k) - most[j]) * LOG2_E)) * scale[j];
      x.store(i, j, values);
    }
  });
}

ROW_ENTRY(softmax_rows, softmax)

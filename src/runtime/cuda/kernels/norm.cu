/* Layer norm (HR_CENTRED = 1) and RMS norm (0) over rows.
 *
 *   y = (x − mean) / sqrt(mean of (x − mean)² + 1e-5) weight + bias; the mean is 0 in RMS norm, which has no bias. The
 *   squares are summed after the mean is known: the difference of two sums loses what a large mean leaves. */
#if HR_CHUNK
#include "runtime/cuda/kernels/staged.cuh"
#else
#include "runtime/cuda/kernels/row.cuh"
#endif

#define EPSILON 1e-5f
/* Weights are fetched a step ahead of their use: in long rows they come from the L2 (+2 to 4% of a copy). Not where they must
 * be shifted, which takes the registers (−3%). */
#define AHEAD (HR_LIE == 0)

__device__ inline void norm(team &x, const task &t)
{
  float mean[ROWS] = {}, squares[ROWS] = {};
  if (HR_CENTRED) {
    x.each([&](int j, float value) { mean[j] += value; });
    over_row<0>(mean, add());
#pragma unroll
    for (int j = 0; j < ROWS; j++)
      mean[j] *= 1.0f / COLUMNS;
  }
  x.each([&](int j, float value) { squares[j] += (value - mean[j]) * (value - mean[j]); });
  unit weight = {}, bias = {};
  auto fetch = [&](int i) {
    if (!x.has(i))
      return;
    weight = x.shared_unit(t.b, i);
    if (HR_CENTRED)
      bias = x.shared_unit(t.c, i);
  };
  if (AHEAD)
    fetch(0);
  over_row<HR_CENTRED>(squares, add());
  float scale[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    scale[j] = rsqrtf(squares[j] * (1.0f / COLUMNS) + EPSILON);
  x.each_unit(COLUMNS, [&](const unit(&p)[ROWS], int i) {
    if (!AHEAD)
      fetch(i);
    unit w = weight, c = bias;
    if (AHEAD)
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

ROW_ENTRY(norm_rows, norm)

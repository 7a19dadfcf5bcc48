/* Layer norm (HR_CENTRED = 1) and RMS norm (0) over rows.
 *
 *   y = (x − mean) / sqrt(mean of (x − mean)² + 1e-5) weight + bias; the mean is 0 in RMS norm, which has no bias. */
#if HR_CHUNK
#include "runtime/cuda/kernels/staged.cuh"
#else
#include "runtime/cuda/kernels/row.cuh"
#endif

#define EPSILON 1e-5f
/* Weights are fetched a step ahead of their use: in long rows they come from the L2 (+2 to 4% of a copy). Not where they must
 * be shifted, which takes the registers (−3%). */
#define AHEAD (HR_LIE == 0 || HR_SHIFTED)

struct found {
  float count, mean, squares; /* squares of x − mean */
};

/* Squares from the mean of all, by those from a mean of some. */
__device__ inline float squares_from(float mean, const found &f)
{
  return HR_CENTRED ? f.squares + f.count * ((f.mean - mean) * (f.mean - mean)) : f.squares;
}

/* Of the values that a thread has, in one pass: it takes one of them from all, so that the difference of the sums loses no
 * more than the row's squares times their number and an epsilon. */
__device__ inline void find(team &x, found (&own)[ROWS])
{
  float from[ROWS] = {}, sum[ROWS] = {}, squares[ROWS] = {};
  int count = 0;
#pragma unroll
  for (int j = 0; j < ROWS && HR_CENTRED; j++)
    from[j] = x.sample(j);
  x.each([&](int j, float value) {
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

__device__ inline found over_warp(const found &f)
{
  float count = COLUMNS, mean = 0;
  if (HR_CENTRED) {
    if (PARTS > 1)
      count = over_warp(f.count, add());
    mean = count > 0 ? over_warp(f.count * f.mean, add()) / count : 0.0f;
  }
  return {count, mean, over_warp(squares_from(mean, f), add())};
}

__device__ inline void norm(team &x, const task &t)
{
  unit weight = {}, bias = {};
  auto fetch = [&](int i) {
    if (!x.has(i))
      return;
    weight = x.shared_unit(t.b, i);
    if (HR_CENTRED)
      bias = x.shared_unit(t.c, i);
  };
  found own[ROWS];
  find(x, own);
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    own[j] = over_warp(own[j]);
  if (AHEAD)
    fetch(x.has(0) ? 0 : 1);
  found_by_warps<found> all = gather(own);
  float mean[ROWS] = {}, scale[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    if (HR_CENTRED)
      mean[j] = all.over(j, add(), [](const found &f) { return f.count * f.mean; }) * (1.0f / COLUMNS);
    float squares = all.over(j, add(), [&](const found &f) { return squares_from(mean[j], f); });
    scale[j] = rsqrtf(squares * (1.0f / COLUMNS) + EPSILON);
  }
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

#if HR_SHIFTED
/* The vectors b and c to out, as rows that begin anywhere in a pack have them: [vector, offset, SHIFTED_COLUMNS], zeros
 * around. */
extern "C" __global__ void shift_vectors PARAMETERS
{
  int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x, each = WIDE * (int64)SHIFTED_COLUMNS;
  if (at >= (1 + HR_CENTRED) * each)
    return;
  int64 column = at % SHIFTED_COLUMNS - at % each / SHIFTED_COLUMNS;
  const element *vector = at < each ? b : c;
  out[at] = column >= 0 && column < COLUMNS ? vector[column] : from_float(0.0f);
}
#endif

/* Layer norm and RMS norm over rows.
 *
 *   y = (x − mean) / sqrt(mean of (x − mean)² + 1e-5) weight + bias; the mean is 0 in RMS norm, which has no bias. The
 *   squares are summed after the mean is known: the difference of two sums loses what a large mean leaves. */
#include "runtime/cuda/kernels/row.cuh"

#define EPSILON 1e-5f

template <int BLOCKS, bool CENTRED, class ROW> __device__ inline void norm(ROW &x, const task &t)
{
  typedef typename ROW::index index;
  float sum = 0, squares = 0, mean = 0;
  if (CENTRED) {
    x.each(x.columns, [&](const kept &k, index) {
#pragma unroll
      for (int j = 0; j < WIDE; j++)
        sum += k.at(j);
    });
    mean = over_row<BLOCKS, 0>(sum, add()) / (float)t.columns;
  }
  x.each(x.columns, [&](const kept &k, index column) {
    if (!CENTRED || (column >= 0 && column + WIDE <= x.columns)) {
#pragma unroll
      for (int j = 0; j < WIDE; j++)
        squares += (k.at(j) - mean) * (k.at(j) - mean);
    } else { /* the mean away from what is not of the row would count */
      for (int j = 0; j < WIDE; j++)
        squares += column + j < 0 || column + j >= x.columns ? 0.0f : (k.at(j) - mean) * (k.at(j) - mean);
    }
  });
  float scale = rsqrtf(over_row<BLOCKS, CENTRED ? 1 : 0>(squares, add()) / (float)t.columns + EPSILON);
  int weight_off = offset_of(t.b - x.lead), bias_off = CENTRED ? offset_of(t.c - x.lead) : 0;
  x.each(x.columns, [&](const kept &k, index column) {
    kept weight = load_shared(t.b, column, x.columns, weight_off), bias = weight;
    if (CENTRED)
      bias = load_shared(t.c, column, x.columns, bias_off);
    float v[WIDE];
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
      v[j] = (k.at(j) - mean) * scale * weight.at(j);
      if (CENTRED)
        v[j] += bias.at(j);
    }
    store_pack(x.to, column, x.columns, v);
  });
}

template <int BLOCKS, class ROW> __device__ inline void layer_norm(ROW &x, const task &t) { norm<BLOCKS, true>(x, t); }
template <int BLOCKS, class ROW> __device__ inline void rms_norm(ROW &x, const task &t) { norm<BLOCKS, false>(x, t); }

ROW_ENTRIES(layer_norm, layer_norm, 0)
ROW_ENTRIES(rms_norm, rms_norm, 0)

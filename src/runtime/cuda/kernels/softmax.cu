/* Softmax over rows, with or without a causal mask.
 *
 *   y = 2^((x − max) log2 e) / sum. In the registers is x as it was loaded, so that every exponential is computed twice: it
 *   would take twice the registers as a float. */
#include "runtime/cuda/kernels/row.cuh"

template <int BLOCKS, class ROW> __device__ inline void softmax(ROW &x, const task &)
{
  typedef typename ROW::index index;
  float most = minus_infinity(), sum = 0;
  x.each(x.seen, [&](const kept &k, index) {
#pragma unroll
    for (int j = 0; j < WIDE; j++)
      most = fmaxf(most, k.at(j));
  });
  most = over_row<BLOCKS, 0>(most, larger());
  x.each(x.seen, [&](const kept &k, index) {
#pragma unroll
    for (int j = 0; j < WIDE; j++)
      sum += power_of_2((k.at(j) - most) * LOG2_E);
  });
  float scale = 1.0f / over_row<BLOCKS, 1>(sum, add());
  x.each(x.columns, [&](const kept &k, index column) {
    float v[WIDE];
#pragma unroll
    for (int j = 0; j < WIDE; j++)
      v[j] = power_of_2((k.at(j) - most) * LOG2_E) * scale;
    if (column + WIDE > x.seen) { /* 0 also where the row is NaN */
#pragma unroll
      for (int j = 0; j < WIDE; j++)
        v[j] = column + j < x.seen ? v[j] : 0.0f;
    }
    store_pack(x.to, column, x.columns, v);
  });
}

ROW_ENTRIES(softmax, softmax, MINUS_INFINITY_WORD)

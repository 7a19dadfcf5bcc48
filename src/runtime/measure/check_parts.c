/* SPDX-License-Identifier: Apache-2.0 */
/* What checks of several operations share. */
#include "base/checked.h"
#include "runtime/measure/checks.h"
#include "shape/number.h"

hr_sample hr_sample_of_rows(int64_t rows, int64_t length, int64_t products, size_t scratch)
{
  int64_t count = hr_min64(HR_CHECKED_ROWS_MAX, hr_max64(1, HR_CHECKED_PRODUCTS_MAX / products));
  return (hr_sample){
      .rows = rows, .length = length, .count = hr_min64(count, rows), .ranges = 1, .width = length, .scratch = scratch};
}

int64_t hr_query_start(hr_strides strides, int64_t q_len, int64_t q_heads, int64_t row)
{
  int64_t query = row / q_heads % q_len, batch = row / q_heads / q_len;
  return batch * strides.batch + query * strides.row + row % q_heads * strides.head;
}

void hr_make_scales(hr_kv_format format, uint64_t seed, size_t count, float *to)
{
  float unit = format == HR_KV_INT8 ? 1.0f / 127 : 1;
  hr_numbers_uniform(HR_FP32, seed, 0, count, to);
  for (size_t i = 0; i < count; i++)
    to[i] = unit * (1 + to[i] / 2);
}

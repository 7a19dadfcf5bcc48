/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/q8.h"

#include "shape/number.h"

#include <math.h>
#include <string.h>

int64_t hr_q8_bytes(int64_t rows, int64_t columns)
{
  return rows * hr_q8_blocks(columns) * (HR_Q8_BLOCK + (int64_t)sizeof(uint16_t));
}

/* llama.cpp's quantize_row_q8_0_ref() (ggml-quants.c) divides by the scale before it is rounded to fp16, too. */
static void quantize_block(const float *from, int64_t count, int8_t *values, uint16_t *scale)
{
  float most = 0, all = 0;
  for (int64_t i = 0; i < count; i++) {
    most = fmaxf(most, fabsf(from[i]));
    all += 0 * from[i]; /* NaN if one is not finite */
  }
  const float step = most / 127 + all;
  const float factor = step > 0 && isfinite(step) ? 1 / step : 0;
  memset(values, 0, HR_Q8_BLOCK);
  for (int64_t i = 0; i < count && factor > 0 && isfinite(factor); i++)
    values[i] = (int8_t)roundf(from[i] * factor);
  hr_number_store(HR_FP16, scale, 0, (double)step);
}

void hr_q8_quantize(const float *from, int64_t first, int64_t count, const hr_q8_matrix *to)
{
  const int64_t blocks = hr_q8_blocks(to->columns);
  int8_t *values = (int8_t *)(uintptr_t)hr_q8_values(to);
  uint16_t *scales = (uint16_t *)(uintptr_t)hr_q8_scales(to);
  for (int64_t i = 0; i < count * blocks; i++) {
    const int64_t column = i % blocks * HR_Q8_BLOCK, left = to->columns - column, at = first * blocks + i;
    quantize_block(from + i / blocks * to->columns + column, left < HR_Q8_BLOCK ? left : HR_Q8_BLOCK,
                   values + at * HR_Q8_BLOCK, scales + at);
  }
}

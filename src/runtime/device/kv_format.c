/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/kv_format.h"

#include "shape/number.h"

#include <math.h>

#define FP8_MAX 448.0f
#define LARGEST_INT8 127.0f
#define SCALE_MIN 0x1p-126f /* the smallest normal number */
#define CHUNK 64            /* elements that are divided at a time */

void hr_kv_elements_load(hr_kv_format format, hr_dtype dtype, const void *from, size_t first, size_t count, double *to)
{
  if (format == HR_KV_INT8) {
    for (size_t i = 0; i < count; i++)
      to[i] = (double)((const int8_t *)from)[first + i];
    return;
  }
  hr_numbers_load(format == HR_KV_FP8 ? HR_FP8_E4M3 : dtype, from, first, count, to);
}

float hr_kv_row_scale(hr_kv_format format, const float *row, size_t count)
{
  float most = 0, sum = 0;
  for (size_t i = 0; i < count; i++) {
    float size = fabsf(row[i]);
    most = size > most ? size : most;
    sum += size * 0; /* 0, or NaN because of a NaN or an infinity */
  }
  float scale = most / (format == HR_KV_INT8 ? LARGEST_INT8 : FP8_MAX);
  return sum != 0 ? (float)NAN : scale < SCALE_MIN ? 1 : scale;
}

/* Rounded to nearest, ties to even, by the processor's default mode. */
static int8_t to_int8(float value)
{
  float cut = value > LARGEST_INT8 ? LARGEST_INT8 : value < -LARGEST_INT8 ? -LARGEST_INT8 : value;
  return (int8_t)(isnan(cut) ? 0 : (int)nearbyintf(cut));
}

void hr_kv_quantize(hr_kv_format format, const float *row, size_t count, float scale, void *to)
{
  float divided[CHUNK];
  for (size_t first = 0; first < count; first += CHUNK) {
    size_t some = count - first < CHUNK ? count - first : CHUNK;
    for (size_t i = 0; i < some; i++)
      divided[i] = row[first + i] / scale;
    if (format == HR_KV_FP8)
      hr_floats_store(HR_FP8_E4M3, to, first, some, divided);
    for (size_t i = 0; i < some && format == HR_KV_INT8; i++)
      ((int8_t *)to)[first + i] = to_int8(divided[i]);
  }
}

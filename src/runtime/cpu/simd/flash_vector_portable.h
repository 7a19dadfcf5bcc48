/* Four floats in plain C that compilers turn into whatever the processor has; the same names as in
 * flash_vector_avx512.h. */
#ifndef HR_RUNTIME_CPU_SIMD_FLASH_VECTOR_PORTABLE_H
#define HR_RUNTIME_CPU_SIMD_FLASH_VECTOR_PORTABLE_H

#include "runtime/device/number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 4

typedef float vector __attribute__((vector_size(4 * LANES)));

#define EACH_LANE for (int i = 0; i < LANES; i++)

static inline vector vector_load(const float *from)
{
  vector x;
  memcpy(&x, from, sizeof x);
  return x;
}

static inline void vector_store(float *to, vector x)
{
  memcpy(to, &x, sizeof x);
}

static inline vector vector_set(float x)
{
  return (vector){x, x, x, x};
}

/** a · b + c; rounded once where the compiler has an instruction for it. */
static inline vector vector_multiply_add(vector a, vector b, vector c)
{
  return a * b + c;
}

/** The larger; b where a is NaN. */
static inline vector vector_larger(vector a, vector b)
{
  EACH_LANE b[i] = a[i] > b[i] ? a[i] : b[i];
  return b;
}

/** The smaller; b where a is NaN. */
static inline vector vector_smaller(vector a, vector b)
{
  EACH_LANE b[i] = a[i] < b[i] ? a[i] : b[i];
  return b;
}

/** Where x < limit `then`, elsewhere `otherwise`. */
static inline vector vector_if_less(vector x, vector limit, vector then, vector otherwise)
{
  EACH_LANE x[i] = x[i] < limit[i] ? then[i] : otherwise[i];
  return x;
}

static inline float vector_largest(vector x)
{
  float largest = x[0];
  EACH_LANE largest = x[i] > largest ? x[i] : largest;
  return largest;
}

static inline float vector_sum(vector x)
{
  return (x[0] + x[1]) + (x[2] + x[3]);
}

/** 0, 1, 2 … */
static inline vector vector_count(void)
{
  return (vector){0, 1, 2, 3};
}

/** The lanes from `first` to `end` - 1; −inf in the others. */
static inline vector vector_between(vector x, int first, int end)
{
  EACH_LANE x[i] = i >= first && i < end ? x[i] : -(float)INFINITY;
  return x;
}

/* Where 2^x is a normal number: below −126 vector_scale() gives 0, above 127.99 it gives +inf. NaN becomes a number
 * here, so that no conversion meets it. */
static inline float in_range(float x)
{
  float y = x > -126.0F ? x : -126.0F;
  return y < 127.99F ? y : 127.99F;
}

/* The largest whole number that is not above x, −126 ≤ x < 128. */
static inline int whole_below(float x)
{
  return (int)(x + 128.0F) - 128;
}

/** x as f + n, n whole and 0 ≤ f ≤ 1: returns f; vector_scale(y, x) is y · 2^n, NaN where x is. */
static inline vector vector_fraction(vector x)
{
  EACH_LANE
  {
    float y = in_range(x[i]);
    x[i] = y - (float)whole_below(y);
  }
  return x;
}

static inline vector vector_scale(vector y, vector x)
{
  EACH_LANE
  {
    uint32_t bits = (uint32_t)(whole_below(in_range(x[i])) + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    float scaled = x[i] < -126.0F ? 0 : x[i] > 127.99F ? (float)INFINITY : y[i] * power;
    y[i] = x[i] != x[i] ? x[i] : scaled;
  }
  return y;
}

static inline vector vector_load_bf16(const uint16_t *from)
{
  vector x;
  EACH_LANE
  {
    uint32_t bits = (uint32_t)from[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    x[i] = value;
  }
  return x;
}

static inline vector vector_load_fp16(const uint16_t *from)
{
  vector x;
  EACH_LANE x[i] = (float)hr_number_load(HR_FP16, from, (size_t)i);
  return x;
}

static inline void vector_store_bf16(uint16_t *to, vector x)
{
  EACH_LANE hr_number_store(HR_BF16, to, (size_t)i, (double)x[i]);
}

static inline void vector_store_fp16(uint16_t *to, vector x)
{
  EACH_LANE hr_number_store(HR_FP16, to, (size_t)i, (double)x[i]);
}

/** Rows become columns. */
static inline void vector_transpose(vector r[LANES])
{
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < i; j++) {
      float swapped = r[i][j];
      r[i][j] = r[j][i];
      r[j][i] = swapped;
    }
}

#endif

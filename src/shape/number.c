/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/number.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

/* Formats narrower than float: sign, exponent, mantissa from the top bit down. */
typedef struct narrow_format {
  int exponent_bits, mantissa_bits;
  bool infinities; /* the largest exponent is for infinities and NaN; false: only all bits set is NaN */
  double largest;
} narrow_format;

static const narrow_format narrow_formats[HR_DTYPE_COUNT] = {
    [HR_FP16] = {5, 10, true, 65504.0},
    [HR_BF16] = {8, 7, true, 0x1.FEp127},
    [HR_FP8_E4M3] = {4, 3, false, 448.0},
};

/* ilogb() and ldexp() for normal doubles; the C library's take most of the time of encode(). */
static int exponent_of(double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (int)(bits >> 52 & 0x7FF) - 1023;
}

static double power_of_two(int exponent)
{
  uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static unsigned encode(const narrow_format *format, double value)
{
  int exponent_max = (1 << format->exponent_bits) - 1, bias = exponent_max >> 1;
  unsigned sign = signbit(value) ? 1u << (format->exponent_bits + format->mantissa_bits) : 0;
  unsigned nan_bits = (1u << (format->exponent_bits + format->mantissa_bits)) - 1;
  unsigned infinity_bits = (unsigned)exponent_max << format->mantissa_bits;
  double size = fabs(value);
  if (isnan(value) || (isinf(value) && !format->infinities))
    return sign | nan_bits;
  int exponent = 1 - bias; /* of subnormal numbers */
  if (!isinf(size) && exponent_of(size) > exponent)
    exponent = exponent_of(size);
  double quantum = power_of_two(exponent - format->mantissa_bits);
  double steps = isinf(size) ? 0 : size / quantum + 0x1p52 - 0x1p52; /* to the nearest integer, ties to even */
  if (isinf(size) || steps * quantum > format->largest) {
    if (format->infinities)
      return sign | infinity_bits;
    return sign | encode(format, format->largest);
  }
  /* steps ≤ 2^(mantissa_bits + 1): a carry out of the mantissa increments the exponent. */
  unsigned mantissa = (unsigned)steps;
  if (mantissa < 1u << format->mantissa_bits)
    return sign | mantissa;
  return sign | (((unsigned)(exponent + bias - 1) << format->mantissa_bits) + mantissa);
}

static float float_of(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float bf16_to_float(uint16_t bits)
{
  return float_of((uint32_t)bits << 16);
}

/* With exponent and mantissa shifted to float's positions the value is too small by the difference of the biases, for
 * subnormal numbers, too. There is no branch, so that the compiler vectorizes the loop over a row. */
static float fp16_to_float(uint16_t bits)
{
  uint32_t size = (bits & 0x7FFFu) << 13, sign = (bits & 0x8000u) << 16;
  float finite = float_of(sign | size) * 0x1p112F, special = float_of(sign | size | 0x7F800000u);
  return size < 0x7C00u << 13 ? finite : special; /* infinity and NaN have the largest exponent */
}

static float fp8_to_float(uint8_t bits)
{
  uint32_t size = (bits & 0x7Fu) << 20, sign = (bits & 0x80u) << 24;
  return size < 0x7Fu << 20 ? float_of(sign | size) * 0x1p120F : (float)NAN;
}

void hr_numbers_load(hr_dtype dtype, const void *from, size_t first, size_t count, double *to)
{
  switch (dtype) {
  case HR_FP64: memcpy(to, (const double *)from + first, count * sizeof *to); break;
  case HR_FP32:
  case HR_TF32:
    for (size_t i = 0; i < count; i++)
      to[i] = (double)((const float *)from)[first + i];
    break;
  case HR_BF16:
    for (size_t i = 0; i < count; i++)
      to[i] = (double)bf16_to_float(((const uint16_t *)from)[first + i]);
    break;
  case HR_FP16:
    for (size_t i = 0; i < count; i++)
      to[i] = (double)fp16_to_float(((const uint16_t *)from)[first + i]);
    break;
  case HR_FP8_E4M3:
    for (size_t i = 0; i < count; i++)
      to[i] = (double)fp8_to_float(((const uint8_t *)from)[first + i]);
    break;
  case HR_DTYPE_COUNT: break;
  }
}

double hr_number_load(hr_dtype dtype, const void *from, size_t index)
{
  double value = (double)NAN;
  hr_numbers_load(dtype, from, index, 1, &value);
  return value;
}

void hr_number_store(hr_dtype dtype, void *to, size_t index, double value)
{
  switch (dtype) {
  case HR_FP64: ((double *)to)[index] = value; break;
  case HR_FP32:
  case HR_TF32: ((float *)to)[index] = (float)value; break;
  case HR_FP16:
  case HR_BF16: ((uint16_t *)to)[index] = (uint16_t)encode(&narrow_formats[dtype], value); break;
  case HR_FP8_E4M3: ((uint8_t *)to)[index] = (uint8_t)encode(&narrow_formats[dtype], value); break;
  case HR_DTYPE_COUNT: break;
  }
}

static uint32_t bits_of(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint16_t float_to_bf16(float value)
{
  uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static uint16_t float_to_fp16(float value)
{
  uint32_t sign = bits_of(value) >> 16 & 0x8000u, size = bits_of(value) & 0x7FFFFFFFu;
  if (size >= 0x47800000u) /* 65536; infinity, NaN */
    return (uint16_t)(sign | (size > 0x7F800000u ? 0x7E00u : 0x7C00u));
  if (size < 0x38800000u) /* 2^-14: adding 1/2 rounds to a multiple of 2^-24, the smallest step */
    return (uint16_t)(sign | (bits_of(float_of(size) + 0.5f) - bits_of(0.5f)));
  return (uint16_t)(sign | (size - (112u << 23) + 0xFFF + (size >> 13 & 1)) >> 13);
}

/* Infinities become NaN, larger numbers 448. */
static uint8_t float_to_fp8(float value)
{
  uint32_t sign = bits_of(value) >> 24 & 0x80u, size = bits_of(value) & 0x7FFFFFFFu;
  if (size >= 0x7F800000u)
    return (uint8_t)(sign | 0x7F);
  if (size < 0x3C800000u) /* 2^-6: adding 2^14 rounds to a multiple of 2^-9, the smallest step */
    return (uint8_t)(sign | (bits_of(float_of(size) + 0x1p14f) - bits_of(0x1p14f)));
  uint32_t rounded = (size - (120u << 23) + 0x7FFFF + (size >> 20 & 1)) >> 20;
  return (uint8_t)(sign | (rounded < 0x7E ? rounded : 0x7E));
}

void hr_floats_store(hr_dtype dtype, void *to, size_t first, size_t count, const float *from)
{
  switch (dtype) {
  case HR_FP32:
  case HR_TF32: memcpy((float *)to + first, from, count * sizeof *from); break;
  case HR_BF16:
    for (size_t i = 0; i < count; i++)
      ((uint16_t *)to)[first + i] = float_to_bf16(from[i]);
    break;
  case HR_FP16:
    for (size_t i = 0; i < count; i++)
      ((uint16_t *)to)[first + i] = float_to_fp16(from[i]);
    break;
  case HR_FP8_E4M3:
    for (size_t i = 0; i < count; i++)
      ((uint8_t *)to)[first + i] = float_to_fp8(from[i]);
    break;
  default:
    for (size_t i = 0; i < count; i++)
      hr_number_store(dtype, to, first + i, (double)from[i]);
  }
}

/* Mantissa bits, and the exponent of the smallest normal number. */
static const struct {
  int mantissa_bits, exponent_min;
} precisions[HR_DTYPE_COUNT] = {[HR_FP64] = {52, -1022}, [HR_FP32] = {23, -126}, [HR_TF32] = {23, -126},
                                [HR_FP16] = {10, -14},   [HR_BF16] = {7, -126},  [HR_FP8_E4M3] = {3, -6}};

double hr_dtype_saturate(hr_dtype dtype, double value)
{
  double most = narrow_formats[HR_FP8_E4M3].largest;
  return dtype == HR_FP8_E4M3 && fabs(value) > most ? copysign(most, value) : value;
}

double hr_dtype_rounding(hr_dtype dtype)
{
  return (unsigned)dtype < HR_DTYPE_COUNT ? ldexp(0.5, -precisions[dtype].mantissa_bits) : 0;
}

double hr_dtype_rounding_error(hr_dtype dtype, double value)
{
  double normal = (unsigned)dtype < HR_DTYPE_COUNT ? ldexp(1.0, precisions[dtype].exponent_min) : 0;
  return hr_dtype_rounding(dtype) * fmax(fabs(value), normal);
}

/* 25 random bits including the sign: exact in a float, so that every dtype rounds the same number. */
static float uniform(uint32_t half)
{
  return (float)((int32_t)half >> 7) * 0x1p-24f;
}

/* Elements first … first + count − 1. */
static void make_uniform(uint64_t key, size_t first, size_t count, float *values)
{
  for (size_t i = 0; i < count;) {
    size_t index = first + i;
    uint64_t bits = hr_mix_bits((key + index / 2) * HR_RANDOM_STEP); /* a hash of the counter */
    if (index % 2 == 0)
      values[i++] = uniform((uint32_t)bits);
    if (i < count)
      values[i++] = uniform((uint32_t)(bits >> 32));
  }
}

uint64_t hr_numbers_key(uint64_t seed)
{
  return hr_mix_bits((seed ^ 0xD1B54A32D192ED03u) * HR_RANDOM_STEP);
}

void hr_numbers_uniform(hr_dtype dtype, uint64_t seed, size_t first, size_t count, void *to)
{
  uint64_t key = hr_numbers_key(seed);
  float values[256];
  for (size_t i = 0, some; i < count; i += some) {
    some = count - i < sizeof values / sizeof *values ? count - i : sizeof values / sizeof *values;
    make_uniform(key, first + i, some, values);
    hr_floats_store(dtype, to, i, some, values);
  }
}

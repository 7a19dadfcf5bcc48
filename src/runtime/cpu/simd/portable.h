/* SPDX-License-Identifier: Apache-2.0 */
/* simd.h's primitives in the compiler's vector extension: 4 lanes of any processor. Included by simd.h. */

HR_INLINE uint32_t simd_bits(simd_u32 mask)
{
  simd_u32 bits = mask & (simd_u32){1, 2, 4, 8};
  return bits[0] | bits[1] | bits[2] | bits[3];
}

HR_INLINE simd_f32 simd_select(simd_u32 mask, simd_f32 a, simd_f32 b)
{
  return (simd_f32)((mask & (simd_u32)a) | (~mask & (simd_u32)b));
}

/* Rounded once where the compiler has an instruction for it. */
HR_INLINE simd_f32 simd_fma(simd_f32 a, simd_f32 b, simd_f32 c)
{
  return a * b + c;
}

HR_INLINE simd_f32 simd_max(simd_f32 a, simd_f32 b)
{
  return simd_select((simd_u32)(a > b), a, b);
}

HR_INLINE simd_f32 simd_min(simd_f32 a, simd_f32 b)
{
  return simd_select((simd_u32)(a < b), a, b);
}

/* The shift is so large that the sum has no bits behind the point. */
HR_INLINE simd_f32 simd_round(simd_f32 x)
{
  const float shift = 12582912.0f; /* 1.5 · 2^23 */
  return (x + shift) - shift;
}

/* Conversion to integers cuts off towards 0. x + 128 may round up to a whole number, so that x − floor(x) may be
 * −2^-17. */
HR_INLINE simd_f32 simd_floor(simd_f32 x)
{
  return __builtin_convertvector(__builtin_convertvector(x + 128.0f, simd_i32) - 128, simd_f32);
}

HR_INLINE simd_f32 simd_sqrt(simd_f32 x)
{
  return (simd_f32){sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3])};
}

HR_INLINE float simd_reduce_add(simd_f32 x)
{
  return (x[0] + x[2]) + (x[1] + x[3]);
}

HR_INLINE void simd_reduce_add_four(const simd_f32 x[4], float *to)
{
  for (int i = 0; i < 4; i++)
    to[i] = simd_reduce_add(x[i]);
}

HR_INLINE float simd_reduce_max(simd_f32 x)
{
  float most = x[0];
  for (int i = 1; i < SIMD_LANES; i++)
    most = x[i] > most ? x[i] : most;
  return most;
}

/* The exponent moves by 127 − 15; what is below the normal numbers becomes so by a multiplication. */
HR_INLINE simd_f32 simd_f32_from_fp16(simd_u16 x)
{
  simd_u32 h = __builtin_convertvector(x, simd_u32), magnitude = (h & 0x7fff) << 13, sign = (h & 0x8000) << 16;
  simd_f32 value = (simd_f32)magnitude * 0x1p112f;
  simd_u32 special = (simd_u32)(magnitude >= 0x0f800000u); /* infinite or NaN: exponent 31 becomes 255 */
  return (simd_f32)((simd_u32)simd_select(special, (simd_f32)(magnitude | 0x7f800000u), value) | sign);
}

/* Rounds once: a normal number by what it loses of its significand, a smaller one by adding what leaves multiples of
 * 2^-24. */
HR_INLINE simd_u16 simd_fp16_from_f32(simd_f32 x)
{
  simd_u32 bits = (simd_u32)x, sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffffu;
  simd_u32 normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000u) >> 13;
  simd_u32 small = (simd_u32)((simd_f32)magnitude + 0.5f) - 0x3f000000u; /* the last place of 0.5 is 2^-24 */
  simd_u32 is_small = (simd_u32)(magnitude < 0x38800000u), is_large = (simd_u32)(magnitude >= 0x477ff000u),
           is_nan = (simd_u32)(magnitude > 0x7f800000u);
  simd_u32 h = (is_small & small) | (~is_small & normal);
  h = (is_large & 0x7c00) | (~is_large & h);
  h |= is_nan & 0x0200;
  return __builtin_convertvector(h | sign, simd_u16);
}

HR_INLINE void simd_stream(void *to, simd_f32 x)
{
  simd_store(to, x);
}

HR_INLINE void simd_stream_u16(void *to, simd_u16 x)
{
  simd_store_u16(to, x);
}

HR_INLINE void simd_stream_fence(void)
{
}

HR_INLINE void simd_transpose(simd_f32 r[SIMD_LANES])
{
  for (int i = 0; i < SIMD_LANES; i++)
    for (int j = 0; j < i; j++) {
      float swapped = r[i][j];
      r[i][j] = r[j][i];
      r[j][i] = swapped;
    }
}

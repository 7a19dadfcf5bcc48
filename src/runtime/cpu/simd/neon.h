/* SPDX-License-Identifier: Apache-2.0 */
/* simd.h's primitives in NEON: 4 lanes. Included by simd.h. fp16 is converted by instructions of every aarch64 core;
 * fp16 and bf16 arithmetic are not used. */
#include <arm_neon.h>

HR_INLINE simd_f32 simd_fma(simd_f32 a, simd_f32 b, simd_f32 c)
{
  return vfmaq_f32(c, a, b);
}

/** SIMD_LANES floats whose lanes, by constant index, are factors of FMAs (fmla by element). Without the empty assembly
 *  gcc 12 loads them through integer registers, lane by lane. */
HR_INLINE simd_f32 simd_load_factors(const void *from)
{
  simd_f32 x = simd_load(from);
  __asm__("" : "+w"(x));
  return x;
}

HR_INLINE uint32_t simd_bits(simd_u32 mask)
{
  return vaddvq_u32(mask & (simd_u32){1, 2, 4, 8});
}

HR_INLINE simd_f32 simd_select(simd_u32 mask, simd_f32 a, simd_f32 b)
{
  return vbslq_f32(mask, a, b);
}

/* fmax gives NaN where either is one, fmaxnm the number: neither is "the second". */
HR_INLINE simd_f32 simd_max(simd_f32 a, simd_f32 b)
{
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}

HR_INLINE simd_f32 simd_min(simd_f32 a, simd_f32 b)
{
  return vbslq_f32(vcltq_f32(a, b), a, b);
}

HR_INLINE simd_f32 simd_round(simd_f32 x)
{
  return vrndnq_f32(x);
}

HR_INLINE simd_f32 simd_floor(simd_f32 x)
{
  return vrndmq_f32(x);
}

HR_INLINE simd_f32 simd_sqrt(simd_f32 x)
{
  return vsqrtq_f32(x);
}

HR_INLINE float simd_reduce_add(simd_f32 x)
{
  return vaddvq_f32(x);
}

HR_INLINE void simd_reduce_add_four(const simd_f32 x[4], float *to)
{
  vst1q_f32(to, vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3])));
}

HR_INLINE float simd_reduce_max(simd_f32 x)
{
  return vmaxnmvq_f32(x);
}

HR_INLINE simd_f32 simd_f32_from_fp16(simd_u16 x)
{
  return vcvt_f32_f16((float16x4_t)x);
}

HR_INLINE simd_u16 simd_fp16_from_f32(simd_f32 x)
{
  return (simd_u16)vcvt_f16_f32(x);
}

/* Cores detect runs of whole lines by themselves and stop reading them first; stnp is a hint that most ignore. */
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
  float32x4x2_t even = vtrnq_f32(r[0], r[1]), odd = vtrnq_f32(r[2], r[3]);
  r[0] = vcombine_f32(vget_low_f32(even.val[0]), vget_low_f32(odd.val[0]));
  r[1] = vcombine_f32(vget_low_f32(even.val[1]), vget_low_f32(odd.val[1]));
  r[2] = vcombine_f32(vget_high_f32(even.val[0]), vget_high_f32(odd.val[0]));
  r[3] = vcombine_f32(vget_high_f32(even.val[1]), vget_high_f32(odd.val[1]));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments of quantized caches for decode_split.cu: elements of one byte become fp16, which has all values of fp8
 * (E4M3) and int8, and mma.sync multiplies fp16 whatever the format of Q and O.
 *
 *   K: ldmatrix gives a thread 4 neighbouring dims of a key, of 16: dims 4c … 4c + 3 of thread c = t % 4. They are
 *   columns
 *      2c, 2c + 1, 2c + 8 and 2c + 9 of the operands, for Q as well, so that no element moves.
 *   V: ldmatrix.trans gives 2 dims of 2 keys. The even dims of 16 are one tile of O, the odd ones the next, so that a
 *      thread's columns of both tiles are dims 4c … 4c + 3.
 *   Q: bf16 is scaled by a power of 2 for each row, so that its largest value is below 2^15; factors of the scores.
 *   scales: those of K multiply the scores; those of V multiply O, or with a scale per key the weights, times P_FACTOR,
 *      so that small ones are not denormal in fp16. */

#define Q_LARGEST 15 /* values of Q are below 2^15 */
#ifdef HR_CACHE_INT8
#define P_FACTOR 64.0f
#else
#define P_FACTOR 256.0f
#endif

/* ---- bytes to fp16 ---- */

#ifdef HR_CACHE_INT8
/* 1024 + 128 + the element, with the bits of the byte as mantissa, minus 1152. */
template <int FIRST, int SECOND> __device__ inline unsigned halves_at(unsigned bytes)
{
  unsigned both = __byte_perm(bytes ^ 0x80808080u, 0x64646464u, FIRST | 0x40 | SECOND << 8 | 0x4000), halves;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(both), "r"(0x64806480u));
  return halves;
}
#else
#include "runtime/cuda/kernels/fp8.cuh"

template <int FIRST, int SECOND> __device__ inline unsigned halves_at(unsigned bytes)
{
  return halves_of((unsigned short)__byte_perm(bytes, 0, FIRST | SECOND << 4));
}
#endif

/* ---- Q ---- */

/* Two elements of Q, `word` in its own format. */
__device__ inline float2 floats_of(unsigned word)
{
  return make_float2(value_in(word, 0), value_in(word, 1));
}

/* Scales the fragments of a thread's row of Q to fp16. Returns the factor that its scores need. */
__device__ inline float scale_q(unsigned (&q)[QK_STEPS][4], int half)
{
#ifdef HR_DTYPE_fp16
  return 1;
#else
  float most = 0;
#pragma unroll
  for (int i = 0; i < 2 * QK_STEPS; i++) {
    float2 x = floats_of(q[i / 2][half + i % 2 * 2]);
    most = fmaxf(most, fmaxf(fabsf(x.x), fabsf(x.y)));
  }
  most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
  most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
  /* 2^(Q_LARGEST − 1 − exponent), in two steps where that is no normal number; 1 for zeros and infinities */
  int exponent = (int)(__float_as_uint(most) >> 23) - 127, up = Q_LARGEST - 1 - exponent;
  bool usual = exponent > -127 && exponent < 128;
  float first = usual ? __uint_as_float((unsigned)(up / 2 + 127) << 23) : 1.0f;
  float second = usual ? __uint_as_float((unsigned)(up - up / 2 + 127) << 23) : 1.0f;
#pragma unroll
  for (int i = 0; i < 2 * QK_STEPS; i++) {
    unsigned &word = q[i / 2][half + i % 2 * 2];
    float2 x = floats_of(word);
    word = pack_pair(x.x * first * second, x.y * first * second);
  }
  return usual ? 1 / first / second : 1.0f;
#endif
}

/* ---- operands ---- */

/* Adds K · Q of a step of 16 dims for 16 keys; `low`, `high`: of keys 0–7 and 8–15. */
__device__ inline void mma_keys(float (&found)[2][4], const unsigned (&q)[4], unsigned low, unsigned high)
{
  mma_sync(found[0], q, halves_at<0, 1>(low), halves_at<2, 3>(low));
  mma_sync(found[1], q, halves_at<0, 1>(high), halves_at<2, 3>(high));
}

/* ---- products ---- */

/* The products of all rows and a head's keys; `from`: this lane's row of K. */
__device__ inline void multiply_head(const warp_state &s, unsigned from, float (&found)[2][4])
{
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < QK_STEPS; step += 2) {
    unsigned k[4];
    ldmatrix_x4(k, tile_chunk(from, lane, step + lane / 8 % 2));
    mma_keys(found, s.q[step], k[0], k[2]);
    if (step + 1 < QK_STEPS)
      mma_keys(found, s.q[step + 1], k[1], k[3]);
  }
}

/* The scale of number i of a thread's scores, without that of the key. */
__device__ inline float score_scale(const warp_state &s, const char *stage, int head, int i)
{
  float factor = s.score_factor[i % 4 / 2];
  return TOKEN_SCALES ? factor * k_scales_of(stage)[head * KEYS + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] : factor;
}

/* Weights times the scales of a V head; keys that a row does not see stay 0, whatever their scale. */
__device__ inline void scale_weights(const char *stage, int head, const float (&weights)[2][4], unsigned (&p)[4])
{
  const float *scales = v_scales_of(stage) + head * KEYS + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; i++) { /* the low and the high keys of each half */
    const float *w = &weights[i / 2][i % 2 * 2];
    float low = w[0] == 0 ? 0 : w[0] * P_FACTOR * scales[i / 2 * 8];
    float high = w[1] == 0 ? 0 : w[1] * P_FACTOR * scales[i / 2 * 8 + 1];
    p[i] = i % 2 < HALVES ? pack_pair(low, high) : 0;
  }
}

/* O of two tiles, the even and the odd dims of a 16-byte chunk. */
__device__ inline void add_chunk(warp_state &s, int n, int head, const unsigned (&p)[4], unsigned low, unsigned high)
{
  add_rows(s, n, head, p, halves_at<0, 2>(low), halves_at<0, 2>(high));
  add_rows(s, n + 1, head, p, halves_at<1, 3>(low), halves_at<1, 3>(high));
}

__device__ inline void mma_pv(warp_state &s, const char *stage, const float (&weights)[2][4], unsigned (&p)[4])
{
  int lane = threadIdx.x % 32;
  unsigned from = tile_row<HR_V>(stage + V_AT, lane % 16), chunk = lane / 16;
#pragma unroll
  for (int head = 0; head < HR_V_HEADS; head++, from += V_SIZE) {
    if (!of_tile(s, head))
      continue;
    if (TOKEN_SCALES)
      scale_weights(stage, head, weights, p);
#pragma unroll
    for (int n = 0; n < O_TILES; n += 4) {
      unsigned v[4];
      ldmatrix_x4_trans(v, tile_chunk(from, lane, n / 2 + chunk));
      add_chunk(s, n, head, p, v[0], v[1]);
      if (n + 2 < O_TILES)
        add_chunk(s, n + 2, head, p, v[2], v[3]);
    }
  }
}

/* What an instruction reaches at most. Sums of products stretch a value and shrink it again, x = t x + c and x = (x − c) / t
 * by turns, in as many registers as there are: independent of each other, and neither settling nor growing, so that bits
 * keep changing as they do in a model's products.
 *
 * Exponentials are 2^x as an attention kernel needs it: n = round(x), a polynomial of degree 5 in x − n on [-1/2, 1/2],
 * scaled by 2^n; relative error below 2.4e-7 (tests/unit/test_cpu_ceilings.c). Each takes the last one's negative result, so
 * that 2^-x runs on in (0, 1]. */
#include "runtime/cpu/loops.h"

#include <string.h>

#define STRETCH 1.37f
#define ADDED 0.61f
#define SHRINK (1 / STRETCH)
#define TAKEN (-ADDED / STRETCH)

/* 2^f on [-1/2, 1/2]: the polynomial of degree 5 with the least relative error (Remez), 7.5e-8 before its coefficients are rounded. */
#define EXP2_0 1.0f
#define EXP2_1 0.693146944f
#define EXP2_2 0.240221202f
#define EXP2_3 0.0555071309f
#define EXP2_4 0.00967554096f
#define EXP2_5 0.00132764725f

/* Values of (0, 1) to begin with, different in each place. */
static void begin(float *values, int count)
{
  for (int i = 0; i < count; i++)
    values[i] = (float)((i * 37 + 11) % 101) / 101.0f;
}

static float sum_of(const float *values, int count)
{
  float sum = 0;
  for (int i = 0; i < count; i++)
    sum += values[i];
  return sum;
}

/* ---- plain C: vectors of 4, which every 64-bit processor has ---- */

typedef float four __attribute__((vector_size(16), may_alias));
typedef int32_t four_integers __attribute__((vector_size(16)));

static inline four load_c(const float *from)
{
  four values;
  memcpy(&values, from, sizeof values);
  return values;
}

static inline void store_c(float *to, four values)
{
  memcpy(to, &values, sizeof values);
}

#define SUMS_C 11 /* of 16 registers: four are constants */

static float products_c(int64_t steps)
{
  four x[SUMS_C];
  const four stretch = {STRETCH, STRETCH, STRETCH, STRETCH}, added = {ADDED, ADDED, ADDED, ADDED};
  const four shrink = {SHRINK, SHRINK, SHRINK, SHRINK}, taken = {TAKEN, TAKEN, TAKEN, TAKEN};
  float values[4 * SUMS_C];
  begin(values, 4 * SUMS_C);
#pragma GCC unroll 11
  for (int i = 0; i < SUMS_C; i++)
    x[i] = load_c(values + 4 * i);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 11
    for (int i = 0; i < SUMS_C; i++)
      x[i] = x[i] * stretch + added;
#pragma GCC unroll 11
    for (int i = 0; i < SUMS_C; i++)
      x[i] = x[i] * shrink + taken;
  }
#pragma GCC unroll 11
  for (int i = 0; i < SUMS_C; i++)
    store_c(values + 4 * i, x[i]);
  return sum_of(values, 4 * SUMS_C);
}

#define CHAINS_C 4

/* Rounding by adding and taking away 1.5 · 2^23, at which floats are whole numbers; below −126 the scale is that of
 * −126, as products with a probability that small are 0 in any format. */
static four exp2_c(four x)
{
  const four magic = {0x1.8p23f, 0x1.8p23f, 0x1.8p23f, 0x1.8p23f};
  four shifted = x + magic, n = shifted - magic, f = x - n;
  four_integers exponent;
  memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent << 23) + 0x3F800000;
  four scale;
  memcpy(&scale, &exponent, sizeof scale);
  return (((((f * EXP2_5 + EXP2_4) * f + EXP2_3) * f + EXP2_2) * f + EXP2_1) * f + EXP2_0) * scale;
}

static float exponentials_c(int64_t steps)
{
  four x[CHAINS_C];
  float values[4 * CHAINS_C];
  begin(values, 4 * CHAINS_C);
#pragma GCC unroll 4
  for (int i = 0; i < CHAINS_C; i++)
    x[i] = load_c(values + 4 * i);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 4
    for (int i = 0; i < CHAINS_C; i++)
      x[i] = exp2_c(-x[i]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < CHAINS_C; i++)
    store_c(values + 4 * i, x[i]);
  return sum_of(values, 4 * CHAINS_C);
}

static uint64_t read_c(const void *from, size_t bytes)
{
  typedef uint64_t two __attribute__((vector_size(16)));
  const two *at = from;
  two mixed[4] = {{0}};
  for (size_t i = 0; i < bytes / sizeof *at; i += 4) {
    for (int k = 0; k < 4; k++)
      mixed[k] ^= at[i + (size_t)k];
  }
  two all = mixed[0] ^ mixed[1] ^ mixed[2] ^ mixed[3];
  return all[0] ^ all[1];
}

#if defined(__x86_64__)

#include <immintrin.h>

/* ---- AVX2 with FMA ---- */

#define SUMS_AVX2 12 /* of 16 registers: four are constants */

__attribute__((target("avx2,fma"))) static float products_avx2(int64_t steps)
{
  __m256 x[SUMS_AVX2];
  const __m256 stretch = _mm256_set1_ps(STRETCH), added = _mm256_set1_ps(ADDED);
  const __m256 shrink = _mm256_set1_ps(SHRINK), taken = _mm256_set1_ps(TAKEN);
  float values[8 * SUMS_AVX2];
  begin(values, 8 * SUMS_AVX2);
#pragma GCC unroll 12
  for (int i = 0; i < SUMS_AVX2; i++)
    x[i] = _mm256_loadu_ps(values + 8 * i);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 12
    for (int i = 0; i < SUMS_AVX2; i++)
      x[i] = _mm256_fmadd_ps(x[i], stretch, added);
#pragma GCC unroll 12
    for (int i = 0; i < SUMS_AVX2; i++)
      x[i] = _mm256_fmadd_ps(x[i], shrink, taken);
  }
#pragma GCC unroll 12
  for (int i = 0; i < SUMS_AVX2; i++)
    _mm256_storeu_ps(values + 8 * i, x[i]);
  return sum_of(values, 8 * SUMS_AVX2);
}

#define CHAINS_AVX2 6

__attribute__((target("avx2,fma"))) static inline __m256 exp2_avx2(__m256 x)
{
  __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm256_sub_ps(x, n);
  __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(EXP2_5), f, _mm256_set1_ps(EXP2_4));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(EXP2_3));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(EXP2_2));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(EXP2_1));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(EXP2_0));
  __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
}

__attribute__((target("avx2,fma"))) static float exponentials_avx2(int64_t steps)
{
  __m256 x[CHAINS_AVX2];
  const __m256 sign = _mm256_set1_ps(-0.0f);
  float values[8 * CHAINS_AVX2];
  begin(values, 8 * CHAINS_AVX2);
#pragma GCC unroll 6
  for (int i = 0; i < CHAINS_AVX2; i++)
    x[i] = _mm256_loadu_ps(values + 8 * i);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 6
    for (int i = 0; i < CHAINS_AVX2; i++)
      x[i] = exp2_avx2(_mm256_xor_ps(x[i], sign));
  }
#pragma GCC unroll 6
  for (int i = 0; i < CHAINS_AVX2; i++)
    _mm256_storeu_ps(values + 8 * i, x[i]);
  return sum_of(values, 8 * CHAINS_AVX2);
}

__attribute__((target("avx2"))) static uint64_t read_avx2(const void *from, size_t bytes)
{
  const __m256i *at = from;
  __m256i a = _mm256_setzero_si256(), b = a;
  for (size_t i = 0; i < bytes / sizeof *at; i += 2) {
    a = _mm256_xor_si256(a, _mm256_load_si256(at + i));
    b = _mm256_xor_si256(b, _mm256_load_si256(at + i + 1));
  }
  uint64_t words[4];
  _mm256_storeu_si256((__m256i *)words, _mm256_xor_si256(a, b));
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

/* ---- AVX-512 ---- */

#define SUMS_AVX512 24 /* of 32 registers: four are constants */

__attribute__((target("avx512f"))) static float products_avx512(int64_t steps)
{
  __m512 x[SUMS_AVX512];
  const __m512 stretch = _mm512_set1_ps(STRETCH), added = _mm512_set1_ps(ADDED);
  const __m512 shrink = _mm512_set1_ps(SHRINK), taken = _mm512_set1_ps(TAKEN);
  float values[16 * SUMS_AVX512];
  begin(values, 16 * SUMS_AVX512);
#pragma GCC unroll 24
  for (int i = 0; i < SUMS_AVX512; i++)
    x[i] = _mm512_loadu_ps(values + 16 * i);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
    for (int i = 0; i < SUMS_AVX512; i++)
      x[i] = _mm512_fmadd_ps(x[i], stretch, added);
#pragma GCC unroll 24
    for (int i = 0; i < SUMS_AVX512; i++)
      x[i] = _mm512_fmadd_ps(x[i], shrink, taken);
  }
#pragma GCC unroll 24
  for (int i = 0; i < SUMS_AVX512; i++)
    _mm512_storeu_ps(values + 16 * i, x[i]);
  return sum_of(values, 16 * SUMS_AVX512);
}

#define CHAINS_AVX512 12

__attribute__((target("avx512f"))) static inline __m512 exp2_avx512(__m512 x)
{
  __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(x, n);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(EXP2_5), f, _mm512_set1_ps(EXP2_4));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(EXP2_3));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(EXP2_2));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(EXP2_1));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(EXP2_0));
  return _mm512_scalef_ps(p, n);
}

__attribute__((target("avx512f"))) static float exponentials_avx512(int64_t steps)
{
  __m512 x[CHAINS_AVX512];
  float values[16 * CHAINS_AVX512];
  begin(values, 16 * CHAINS_AVX512);
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS_AVX512; i++)
    x[i] = _mm512_loadu_ps(values + 16 * i);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS_AVX512; i++)
      x[i] = exp2_avx512(_mm512_sub_ps(_mm512_setzero_ps(), x[i]));
  }
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS_AVX512; i++)
    _mm512_storeu_ps(values + 16 * i, x[i]);
  return sum_of(values, 16 * CHAINS_AVX512);
}

__attribute__((target("avx512f"))) static uint64_t read_avx512(const void *from, size_t bytes)
{
  const __m512i *at = from;
  __m512i mixed = _mm512_setzero_si512();
  for (size_t i = 0; i < bytes / sizeof *at; i++)
    mixed = _mm512_xor_si512(mixed, _mm512_load_si512(at + i));
  uint64_t words[8], all = 0;
  _mm512_storeu_si512(words, mixed);
  for (int i = 0; i < 8; i++)
    all ^= words[i];
  return all;
}

/* ---- AVX-512 BF16: pairs of bf16 into fp32 ---- */

#define SUMS_BF16 24

/* Pairs of bf16 of about `value`, of either sign, so that sums stay near 0. */
static void begin_bf16(uint16_t *values, int count)
{
  for (int i = 0; i < count; i++) {
    float value = (float)((i * 37 + 11) % 101 - 50) / 50.0f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    values[i] = (uint16_t)(bits >> 16);
  }
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) static float products_bf16(int64_t steps)
{
  __m512 sums[SUMS_BF16];
  uint16_t values[4 * 32];
  __m512bh a[2], b[2];
  begin_bf16(values, 4 * 32);
  memcpy(a, values, sizeof a);
  memcpy(b, values + 2 * 32, sizeof b);
#pragma GCC unroll 24
  for (int i = 0; i < SUMS_BF16; i++) /* each other than the next, or the compiler computes only some */
    sums[i] = _mm512_set1_ps((float)i);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
    for (int i = 0; i < SUMS_BF16; i++)
      sums[i] = _mm512_dpbf16_ps(sums[i], a[i % 2], b[i / 2 % 2]);
  }
  __m512 all = _mm512_setzero_ps();
#pragma GCC unroll 24
  for (int i = 0; i < SUMS_BF16; i++)
    all = _mm512_add_ps(all, sums[i]);
  float result[16];
  _mm512_storeu_ps(result, all);
  return sum_of(result, 16);
}

/* ---- AMX: tiles of 16 rows of 64 bytes ---- */

/* Source of the layout: Intel's Software Developer's Manual, LDTILECFG. */
typedef struct tile_shapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_shapes;

/* Sums in tiles 0 to 3 of rows of A in 4 and 5 and columns of B in 6 and 7, as a product of 32 × 32 keeps them; four,
 * because the next may begin after 16 cycles, but has its result after 52. Sums begin anew after 64 steps. */
__attribute__((target("amx-tile,amx-bf16"))) static float products_amx(int64_t steps)
{
  tile_shapes shapes = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shapes.row_bytes[i] = 64;
    shapes.rows[i] = 16;
  }
  uint16_t values[2 * 16 * 32];
  float sums[4 * 16 * 16];
  begin_bf16(values, 2 * 16 * 32);
  _tile_loadconfig(&shapes);
  _tile_loadd(4, values, 64);
  _tile_loadd(5, values + 16 * 32, 64);
  _tile_loadd(6, values + 16 * 32, 64);
  _tile_loadd(7, values, 64);
  for (int64_t step = 0; step < steps; step++) {
    if (step % 64 == 0) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 1 * 16 * 16, 64);
  _tile_stored(2, sums + 2 * 16 * 16, 64);
  _tile_stored(3, sums + 3 * 16 * 16, 64);
  _tile_release();
  return sum_of(sums, 4 * 16 * 16);
}

#endif

#define PRODUCT(dtype, needs, name, run, count)              \
  {                                                          \
    HR_CEILING_PRODUCT, dtype, needs, name, run, count, NULL \
  }
#define EXP(needs, name, run, count)                       \
  {                                                        \
    HR_CEILING_EXP, HR_FP32, needs, name, run, count, NULL \
  }
#define READ(needs, name, read)                          \
  {                                                      \
    HR_CEILING_READ, HR_FP32, needs, name, NULL, 0, read \
  }

#if defined(__x86_64__)
#define X86(...) __VA_ARGS__,
#else
#define X86(...)
#endif

static const hr_cpu_loop loops[] = {
    PRODUCT(HR_FP32, NULL, "mul, add of 4 floats", products_c, 2 * 2.0 * 4 * SUMS_C),
    X86(PRODUCT(HR_FP32, "avx2", "vfmadd213ps ymm", products_avx2, 2 * 2.0 * 8 * SUMS_AVX2))
        X86(PRODUCT(HR_FP32, "avx512", "vfmadd213ps zmm", products_avx512, 2 * 2.0 * 16 * SUMS_AVX512))
            X86(PRODUCT(HR_BF16, "avx512_bf16", "vdpbf16ps zmm", products_bf16, 2 * 2.0 * 16 * SUMS_BF16))
                X86(PRODUCT(HR_BF16, "amx_bf16", "tdpbf16ps", products_amx, 4 * 2.0 * 16 * 16 * 32))
                    EXP(NULL, "degree 5, 4 floats", exponentials_c, 4 * CHAINS_C),
    X86(EXP("avx2", "degree 5, ymm", exponentials_avx2, 8 * CHAINS_AVX2))
        X86(EXP("avx512", "degree 5, zmm", exponentials_avx512, 16 * CHAINS_AVX512))
            READ(NULL, "16 byte loads", read_c),
    X86(READ("avx2", "32 byte loads", read_avx2)) X86(READ("avx512", "64 byte loads", read_avx512))};

const hr_cpu_loop *hr_cpu_loops(size_t *count)
{
  *count = sizeof loops / sizeof *loops;
  return loops;
}

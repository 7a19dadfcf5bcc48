/* Template: packing, powers of two and finishing of rows, for one kind of vector. Included after a flash_vector_*.h by
 * a version, which defines before
 *   CHUNK, STEP     keys of a chunk and of a step
 *   PANEL           lanes of a panel, in vectors
 *   PAIR            elements in a word: 1, all widened to fp32, or 2, bf16 as it is; then
 *                   flash_vector_bf16.h is included before
 *   DEGREE          of the polynomial for 2^f: 4 or 6
 *
 * 2^x = 2^n · p(f), n = floor(x), f = x − n in [0, 1). p is minimax in relative error with p(0) = 1; fitted by Remez'
 * algorithm, the coefficients then rounded to fp32. Relative error of the polynomial alone, and measured with all that
 * it is evaluated by, over [−126, 0] (tests/unit/test_flash.c has it):
 *   degree 6: 2.0e-9, 1.1 ulp of fp32, 1.5 where multiply-adds are not fused
 *   degree 4: 2.9e-6, 0.001 ulp of bf16, which such weights are rounded to
 */
#include "base/checked.h"
#include "runtime/cpu/flash/flash.h"

#include <string.h>

#define PANEL_LANES (PANEL * LANES)

typedef float word __attribute__((may_alias)); /* fp32 or a pair of bf16, moved about as it is */

static inline __attribute__((always_inline)) vector power_of_two_by(const float *coefficients, int degree, vector x)
{
  vector f = vector_fraction(x), y = vector_set(coefficients[degree - 1]);
#pragma GCC unroll 6
  for (int i = degree - 2; i >= 0; i--)
    y = vector_multiply_add(y, f, vector_set(coefficients[i]));
  return vector_scale(vector_multiply_add(y, f, vector_set(1)), x);
}

static inline vector exact_power_of_two(vector x)
{
  static const float degree_6[] = {0x1.62e42cp-1F, 0x1.ebfd58p-3F,  0x1.c68912p-5F,
                                   0x1.3d0b92p-7F, 0x1.46d64ep-10F, 0x1.c54174p-13F};
  return power_of_two_by(degree_6, 6, x);
}

/* Of the weights. */
static inline vector power_of_two(vector x)
{
#if DEGREE == 6
  return exact_power_of_two(x);
#else
  static const float degree_4[] = {0x1.62d6c6p-1F, 0x1.ee2450p-3F, 0x1.abf868p-5F, 0x1.b7f730p-7F};
  return power_of_two_by(degree_4, 4, x);
#endif
}

static void powers_of_two(float *x, int count)
{
  for (int i = 0; i < count; i += LANES) {
    float lanes[LANES] = {0};
    size_t bytes = sizeof(float) * (size_t)(count - i < LANES ? count - i : LANES);
    memcpy(lanes, x + i, bytes);
    vector_store(lanes, power_of_two(vector_load(lanes)));
    memcpy(x + i, lanes, bytes);
  }
}

/* The first `count` elements from an address, as words; zeros behind them. */
static inline vector load_words(hr_dtype dtype, const void *from, int64_t count)
{
  char bytes[4 * LANES];
  const void *at = from;
  if (count < (int64_t)LANES * PAIR) {
    memset(bytes, 0, sizeof bytes);
    if (count > 0)
      memcpy(bytes, from, (size_t)count * hr_dtype_bytes(dtype));
    at = bytes;
  }
#if PAIR == 1
  if (dtype == HR_BF16)
    return vector_load_bf16(at);
  if (dtype == HR_FP16)
    return vector_load_fp16(at);
#else
  (void)dtype;
#endif
  return vector_load(at);
}

/* x with all signs turned. */
static inline vector negated(vector x)
{
  uint32_t bits[LANES];
  vector_store((float *)(word *)bits, x);
  for (int i = 0; i < LANES; i++)
    bits[i] ^= PAIR == 2 ? 0x80008000U : 0x80000000U;
  return vector_load((const float *)(const word *)bits);
}

static void store_words(void *to, vector x, int64_t words)
{
  char bytes[4 * LANES];
  if (words >= LANES) {
    vector_store(to, x);
    return;
  }
  vector_store((float *)(void *)bytes, x);
  memcpy(to, bytes, (size_t)words * 4);
}

static void pack_q(hr_dtype dtype, const void *from, int64_t dim, bool negate, void *to, int64_t depth)
{
  size_t bytes = hr_dtype_bytes(dtype);
  for (int64_t w = 0; w < depth; w += LANES) {
    vector x = load_words(dtype, (const char *)from + (size_t)(w * PAIR) * bytes, dim - w * PAIR);
    if (negate)
      x = negated(x);
    store_words((char *)to + 4 * w, x, depth - w);
  }
}

/* LANES keys by LANES words of each, transposed. */
static inline void pack_k_block(hr_dtype dtype, const char *from, int64_t stride, int keys, int64_t dim,
                                int64_t word_at, word *to, int64_t depth)
{
  vector rows[LANES];
  size_t bytes = hr_dtype_bytes(dtype);
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    rows[i] = i < keys ? load_words(dtype, from + i * stride + (size_t)(word_at * PAIR) * bytes, dim - word_at * PAIR)
                       : vector_set(0);
  vector_transpose(rows);
  int words = (int)hr_min64(LANES, depth - word_at);
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    if (i < words)
      vector_store((float *)to + (word_at + i) * PANEL_LANES, rows[i]);
}

/* Prefetches the keys after a vector of them. */
static inline void prefetch_keys(const char *from, int64_t stride, int key, int keys, int64_t bytes)
{
  int end = key + 2 * LANES < keys ? key + 2 * LANES : keys;
  for (int i = key + LANES; i < end; i++)
    hr_flash_prefetch(from + i * stride, stride, bytes);
}

static void pack_k(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to, int64_t depth)
{
  for (int key = 0; key < keys; key += LANES) {
    prefetch_keys(from, stride, key, keys, dim * (int64_t)hr_dtype_bytes(dtype));
    word *block = (word *)to + (key / PANEL_LANES) * depth * PANEL_LANES + key % PANEL_LANES;
    for (int64_t w = 0; w < depth; w += LANES)
      pack_k_block(dtype, (const char *)from + key * stride, stride, keys - key, dim, w, block, depth);
  }
}

#if PAIR == 1
static void pack_v(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to)
{
  size_t bytes = hr_dtype_bytes(dtype);
  int padded = (int)hr_ceil_div(keys, KEY_GROUP) * KEY_GROUP;
  for (int64_t d = 0; d < dim; d += LANES) {
    float *panel = (float *)to + (d / PANEL_LANES) * CHUNK * PANEL_LANES + d % PANEL_LANES;
    const char *at = (const char *)from + (size_t)d * bytes;
    for (int key = 0; key < keys; key++)
      vector_store(panel + key * PANEL_LANES, load_words(dtype, at + key * stride, dim - d));
    for (int key = keys; key < padded; key++)
      vector_store(panel + key * PANEL_LANES, vector_set(0));
  }
}
#else
/* Word [j][d] has keys 2j and 2j + 1: the elements of both rows in turn. `key`: of the first row. */
static inline void pack_pairs(hr_dtype dtype, const char *from, int64_t stride, int key, int keys, int64_t dim,
                              float *to)
{
  const char *even_row = from + key * stride, *odd_row = even_row + stride;
  for (int64_t d = 0; d < dim; d += (int64_t)LANES * 2) {
    vector even = key < keys ? load_words(dtype, even_row + 2 * d, dim - d) : vector_set(0);
    vector odd = key + 1 < keys ? load_words(dtype, odd_row + 2 * d, dim - d) : vector_set(0);
    for (int half = 0; half < 2 && d + half * LANES < dim; half++) {
      int64_t column = d + half * LANES;
      float *panel = to + (column / PANEL_LANES) * (CHUNK / 2) * PANEL_LANES + column % PANEL_LANES;
      vector_store(panel + key / 2 * PANEL_LANES, half ? vector_pair_high(even, odd) : vector_pair_low(even, odd));
    }
  }
}

/* Row by row, because a row's columns lie together and rows may lie pages apart. */
static void pack_v(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to)
{
  int padded = (int)hr_ceil_div(keys, KEY_GROUP) * KEY_GROUP;
  for (int key = 0; key < padded; key += 2) {
    if (key % LANES == 0)
      prefetch_keys(from, stride, key, keys, 2 * dim);
    pack_pairs(dtype, from, stride, key, keys, dim, to);
  }
}
#endif

/* tanh(y): near 0 the odd polynomial y + y³ p(y²), interpolated at Chebyshev's points, relative error 1.7e-8;
 * elsewhere 1 − 2 / (e^2y + 1), which beyond ±16 is ±1 in fp32. NaN stays, being the second operand. */
static inline vector tanh_of(vector y)
{
  const float c[] = {-0x1.555552p-2F, 0x1.110e1cp-3F, -0x1.b9258ap-5F, 0x1.58048ep-6F, -0x1.8f8de4p-8F};
  y = vector_larger(vector_set(-16), vector_smaller(vector_set(16), y));
  vector square = y * y, p = vector_set(c[4]);
  for (int i = 3; i >= 0; i--)
    p = vector_multiply_add(p, square, vector_set(c[i]));
  vector e = exact_power_of_two(y * vector_set(2.8853900817779268F)); /* 2 / ln 2 */
  vector far = vector_set(1) - vector_set(2) / (e + vector_set(1));
  return vector_if_less(square, vector_set(0.625F * 0.625F), vector_multiply_add(y * square, p, y), far);
}

static void adjust_scores(const hr_flash_step *step, int row, float *s, int from, int to)
{
  const hr_flash_scores *scores = step->scores;
  for (int j = from; j < to; j += LANES) {
    vector x = vector_load(s + j - from);
    if (scores->softcap > 0)
      x = tanh_of(x * vector_set(scores->softcap_scale)) * vector_set(scores->softcap);
    else
      x = x * vector_set(scores->scale);
    if (scores->alibi) {
      vector distance = vector_count() + vector_set((float)(j - step->position[row]));
      x = vector_multiply_add(vector_set(step->slopes[row]), distance, x);
    }
    vector_store(s + j - from, x);
  }
}

static inline void store_values(hr_dtype dtype, void *to, vector x)
{
#if PAIR == 2
  (void)dtype;
  vector_store_pairs(to, x);
#else
  if (dtype == HR_BF16)
    vector_store_bf16(to, x);
  else if (dtype == HR_FP16)
    vector_store_fp16(to, x);
  else
    vector_store(to, x);
#endif
}

static float finish(const float *o, const float *total, int64_t dim, hr_dtype dtype, void *to)
{
  float sum = vector_sum(vector_load(total));
  vector share = vector_set(1 / sum);
  size_t bytes = hr_dtype_bytes(dtype);
  int64_t d = 0;
  for (; d + LANES <= dim; d += LANES)
    store_values(dtype, (char *)to + (size_t)d * bytes, vector_load(o + d) * share);
  if (d < dim) {
    char last[4 * LANES];
    store_values(dtype, last, vector_load(o + d) * share);
    memcpy((char *)to + (size_t)d * bytes, last, (size_t)(dim - d) * bytes);
  }
  return sum;
}

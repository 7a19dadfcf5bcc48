/* SPDX-License-Identifier: Apache-2.0 */
/* Template: online softmax of a step whose scores are all computed. Included after rows_body.h. */

/* Weights of a row, in the format of P. */
#if PAIR == 1
typedef float weight;
#define WEIGHTS(step) ((step)->s)
#define store_weights simd_store
#else
typedef uint16_t weight;
#define WEIGHTS(step) ((uint16_t *)(step)->p)
#define store_weights simd_store_bf16
#endif

/* The keys that a row sees, and the vectors that hold them; from == to: none. */
typedef struct visible_range {
  int first, end; /* keys */
  int from, to;   /* whole vectors */
} visible_range;

static inline visible_range visible_keys(const hr_flash_step *step, int row)
{
  visible_range k = {.first = step->first[row] > 0 ? step->first[row] : 0,
                     .end = step->end[row] < step->keys ? step->end[row] : step->keys};
  if (k.first >= k.end)
    return (visible_range){0, 0, 0, 0};
  k.from = k.first / SIMD_LANES * SIMD_LANES;
  k.to = (k.end + SIMD_LANES - 1) / SIMD_LANES * SIMD_LANES;
  return k;
}

/* Whether every row sees every key of the step, and scores are what the GEMM gives. Of the last keys the first row sees
 * fewest, of the first keys the last row. */
static inline bool is_plain(const hr_flash_step *step)
{
  return step->end[0] >= step->keys && step->first[step->rows - 1] <= 0 && !step->scores->scaled_first;
}

/* Applies soft cap and ALiBi, and sets masked keys to −inf in the vectors that hold a visible key. */
static inline void modify_scores(const hr_flash_step *step, int row, visible_range k)
{
  float *s = step->s + row * STEP;
  if (step->scores->scaled_first)
    adjust_scores(step, row, s + k.from, k.from, k.to);
  if (k.first > k.from)
    simd_store(s + k.from, hide_outside(simd_load(s + k.from), k.first - k.from, SIMD_LANES));
  if (k.end < k.to)
    simd_store(s + k.to - SIMD_LANES, hide_outside(simd_load(s + k.to - SIMD_LANES), 0, k.end - k.to + SIMD_LANES));
}

/* Lane by lane: the largest scores of a row's vectors. A NaN does not count. */
static inline simd_f32 lane_max(const float *s, int from, int to)
{
  simd_f32 a = simd_set1(-__builtin_inff()), b = a, c = a, d = a;
  int j = from;
  for (; j + 4 * SIMD_LANES <= to; j += 4 * SIMD_LANES) {
    a = simd_max(simd_load(s + j), a);
    b = simd_max(simd_load(s + j + SIMD_LANES), b);
    c = simd_max(simd_load(s + j + 2 * SIMD_LANES), c);
    d = simd_max(simd_load(s + j + 3 * SIMD_LANES), d);
  }
  for (; j < to; j += SIMD_LANES)
    a = simd_max(simd_load(s + j), a);
  return simd_max(simd_max(a, b), simd_max(c, d));
}

/* The largest score of each row; a lane is a row. −inf of rows that see no key of the step, and behind the last row.
 * `most` has those of a plain step, lane by lane. */
static inline simd_f32 row_max(const hr_flash_step *step, int first_row, bool plain, const row_lanes *most)
{
  simd_f32 rows[SIMD_LANES];
#pragma GCC unroll 1
  for (int i = 0; i < SIMD_LANES; i++) {
    int row = first_row + i;
    rows[i] = simd_set1(-__builtin_inff());
    if (row >= step->rows)
      continue;
    if (plain) {
      rows[i] = simd_load(most[row]);
      continue;
    }
    visible_range k = visible_keys(step, row);
    modify_scores(step, row, k);
    rows[i] = lane_max(step->s + row * STEP, k.from, k.to);
  }
  simd_transpose(rows);
#pragma GCC unroll 4
  for (int n = SIMD_LANES / 2; n > 0; n /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
      rows[i] = simd_max(rows[i], rows[i + n]);
  return rows[0];
}

/* For SIMD_LANES rows: the base (the largest score so far), the factor that rescales o and l, and the shift added to a
 * score: −base, but NaN where it is +inf once scaled, and 0 where it is −inf, so that all weights are 0. factor and
 * shift have room for whole vectors, base has not. */
static inline void update_max(const hr_flash_step *step, int row, bool plain, const row_lanes *most)
{
  int64_t rows = hr_min64(step->rows - row, SIMD_LANES);
  simd_f32 infinite = simd_set1(__builtin_inff()), before = load_partial(HR_FP32, step->base + row, rows);
  simd_f32 base = simd_max(row_max(step, row, plain, most), before), scaled = base * step->scores->unit;
  simd_f32 factor = simd_exp2((before - base) * step->scores->to_log2);
  simd_store(step->factor + row, simd_select(simd_less(before, base), factor, simd_set1(1)));
  simd_f32 shift = simd_select(simd_less(scaled, infinite), -base, simd_set1(__builtin_nanf("")));
  simd_store(step->shift + row, simd_select(simd_less(-infinite, scaled), shift, simd_set1(0)));
  store_words(step->base + row, base, rows);
}

/* Weights and their sum of `keys` keys. Vectors without a visible key are not read: their weights are 0. */
static inline __attribute__((always_inline)) void compute_weights(const hr_flash_step *step, int row, visible_range k,
                                                                  const int keys)
{
  const float *s = step->s + row * STEP;
  weight *weights = WEIGHTS(step) + row * STEP;
  float *sums = step->total + row * HR_FLASH_LANES_MAX;
  const simd_exponent exponent = weight_exponent(step->scores);
  simd_f32 shift = simd_set1(step->shift[row]), none = simd_set1(0);
  simd_f32 total = simd_load(sums) * simd_set1(step->factor[row]), other = none;
  int j = 0;
  for (; j < k.from; j += SIMD_LANES)
    store_weights(weights + j, none);
  for (; j + 2 * SIMD_LANES <= k.to; j += 2 * SIMD_LANES) {
    simd_f32 p = WEIGHT_EXP2(&exponent, simd_load(s + j) + shift);
    simd_f32 q = WEIGHT_EXP2(&exponent, simd_load(s + j + SIMD_LANES) + shift);
    store_weights(weights + j, p);
    store_weights(weights + j + SIMD_LANES, q);
    total = total + p;
    other = other + q;
  }
  for (; j < k.to; j += SIMD_LANES) {
    simd_f32 p = WEIGHT_EXP2(&exponent, simd_load(s + j) + shift);
    store_weights(weights + j, p);
    total = total + p;
  }
  for (; j < keys; j += SIMD_LANES)
    store_weights(weights + j, none);
  simd_store(sums, total + other);
}

static inline void softmax(const hr_flash_step *step, const row_lanes *most)
{
  const bool plain = is_plain(step);
  for (int row = 0; row < step->rows; row += SIMD_LANES)
    update_max(step, row, plain, most);
  if (plain && step->keys == STEP) /* with constants the loops have no ends to handle */
    for (int row = 0; row < step->rows; row++)
      compute_weights(step, row, (visible_range){0, STEP, 0, STEP}, STEP);
  else
    for (int row = 0; row < step->rows; row++)
      compute_weights(step, row, visible_keys(step, row), step->keys);
}

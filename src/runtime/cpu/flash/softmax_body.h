/* Template: softmax of a step's rows, all scores of the step being there; included after flash_rows.h. */

static inline void store_weights(const hr_flash_step *step, int row, int key, simd_f32 p)
{
#if PAIR == 1
  simd_store(step->s + row * STEP + key, p);
#else
  simd_store_bf16((uint16_t *)step->p + row * STEP + key, p);
#endif
}

/* Vectors of keys that a row sees some of; from == to: none. */
typedef struct seen {
  int first, end; /* keys */
  int from, to;   /* whole vectors */
} seen;

static inline seen seen_by(const hr_flash_step *step, int row)
{
  seen k = {.first = step->first[row] > 0 ? step->first[row] : 0,
            .end = step->end[row] < step->keys ? step->end[row] : step->keys};
  if (k.first >= k.end)
    return (seen){0, 0, 0, 0};
  k.from = k.first / SIMD_LANES * SIMD_LANES;
  k.to = (k.end + SIMD_LANES - 1) / SIMD_LANES * SIMD_LANES;
  return k;
}

/* Scores as they are weighed: with cap, biases, and −inf for keys that are not seen in the vectors of those that
 * are. */
static inline void finish_scores(const hr_flash_step *step, int row, seen k)
{
  float *s = step->s + row * STEP;
  if (step->scores->softcap > 0 || step->scores->alibi)
    adjust_scores(step, row, s + k.from, k.from, k.to);
  if (k.first > k.from)
    simd_store(s + k.from, hide_outside(simd_load(s + k.from), k.first - k.from, SIMD_LANES));
  if (k.end < k.to)
    simd_store(s + k.to - SIMD_LANES, hide_outside(simd_load(s + k.to - SIMD_LANES), 0, k.end - k.to + SIMD_LANES));
}

static inline float largest_of(const float *s, int from, int to)
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
  return simd_reduce_max(simd_max(simd_max(a, b), simd_max(c, d)));
}

/* The base, the factor for o and l, and what is added to a scaled score: −base, but 0 while no score is above −inf. */
static inline void raise_largest(const hr_flash_step *step, int row)
{
  seen k = seen_by(step, row);
  step->factor[row] = 1;
  step->shift[row] = 0;
  if (k.from == k.to)
    return;
  finish_scores(step, row, k);
  float before = step->base[row], largest = largest_of(step->s + row * STEP, k.from, k.to) * step->scores->to_log2;
  if (largest > before) {
    float factor[SIMD_LANES];
    simd_store(factor, simd_exp2(simd_set1(before - largest)));
    step->factor[row] = factor[0];
    step->base[row] = largest;
  }
  step->shift[row] = step->base[row] == -__builtin_inff() ? 0 : -step->base[row];
}

/* Weights and their sum. Vectors of keys that the row does not see are not looked at: they weigh 0. */
static inline void weigh(const hr_flash_step *step, int row)
{
  seen k = seen_by(step, row);
  const float *s = step->s + row * STEP;
  float *sums = step->total + row * HR_FLASH_LANES_MAX;
  simd_f32 scale = simd_set1(step->scores->to_log2), add = simd_set1(step->shift[row]), none = simd_set1(0);
  simd_f32 total = simd_load(sums) * simd_set1(step->factor[row]), other = none;
  int j = 0;
  for (; j < k.from; j += SIMD_LANES)
    store_weights(step, row, j, none);
  for (; j + 2 * SIMD_LANES <= k.to; j += 2 * SIMD_LANES) {
    simd_f32 p = WEIGHT_EXP2(simd_fma(simd_load(s + j), scale, add));
    simd_f32 q = WEIGHT_EXP2(simd_fma(simd_load(s + j + SIMD_LANES), scale, add));
    store_weights(step, row, j, p);
    store_weights(step, row, j + SIMD_LANES, q);
    total = total + p;
    other = other + q;
  }
  for (; j < k.to; j += SIMD_LANES) {
    simd_f32 p = WEIGHT_EXP2(simd_fma(simd_load(s + j), scale, add));
    store_weights(step, row, j, p);
    total = total + p;
  }
  for (; j < step->keys; j += SIMD_LANES)
    store_weights(step, row, j, none);
  simd_store(sums, total + other);
}

/* Scores become weights. All rows' largest come first: each ends in one number that the row's weights wait for. */
static inline void softmax(const hr_flash_step *step)
{
  for (int row = 0; row < step->rows; row++)
    raise_largest(step, row);
  for (int row = 0; row < step->rows; row++)
    weigh(step, row);
}

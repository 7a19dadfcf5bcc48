/* Template: softmax of a step's rows, all scores of the step being there; included after flash_rows.h. */

static inline void store_weights(const hr_flash_step *step, int row, int key, vector p)
{
#if PAIR == 1
  vector_store(step->s + row * STEP + key, p);
#else
  vector_store_pairs((uint16_t *)step->p + row * STEP + key, p);
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
  k.from = k.first / LANES * LANES;
  k.to = (k.end + LANES - 1) / LANES * LANES;
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
    vector_store(s + k.from, vector_between(vector_load(s + k.from), k.first - k.from, LANES));
  if (k.end < k.to)
    vector_store(s + k.to - LANES, vector_between(vector_load(s + k.to - LANES), 0, k.end - k.to + LANES));
}

static inline float largest_of(const float *s, int from, int to)
{
  vector a = vector_set(-__builtin_inff()), b = a, c = a, d = a;
  int j = from;
  for (; j + 4 * LANES <= to; j += 4 * LANES) {
    a = vector_larger(vector_load(s + j), a);
    b = vector_larger(vector_load(s + j + LANES), b);
    c = vector_larger(vector_load(s + j + 2 * LANES), c);
    d = vector_larger(vector_load(s + j + 3 * LANES), d);
  }
  for (; j < to; j += LANES)
    a = vector_larger(vector_load(s + j), a);
  return vector_largest(vector_larger(vector_larger(a, b), vector_larger(c, d)));
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
    float factor[LANES];
    vector_store(factor, exact_power_of_two(vector_set(before - largest)));
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
  vector scale = vector_set(step->scores->to_log2), add = vector_set(step->shift[row]), none = vector_set(0);
  vector total = vector_load(sums) * vector_set(step->factor[row]), other = none;
  int j = 0;
  for (; j < k.from; j += LANES)
    store_weights(step, row, j, none);
  for (; j + 2 * LANES <= k.to; j += 2 * LANES) {
    vector p = power_of_two(vector_multiply_add(vector_load(s + j), scale, add));
    vector q = power_of_two(vector_multiply_add(vector_load(s + j + LANES), scale, add));
    store_weights(step, row, j, p);
    store_weights(step, row, j + LANES, q);
    total = total + p;
    other = other + q;
  }
  for (; j < k.to; j += LANES) {
    vector p = power_of_two(vector_multiply_add(vector_load(s + j), scale, add));
    store_weights(step, row, j, p);
    total = total + p;
  }
  for (; j < step->keys; j += LANES)
    store_weights(step, row, j, none);
  vector_store(sums, total + other);
}

/* Scores become weights. All rows' largest come first: each ends in one number that the row's weights wait for. */
static inline void softmax(const hr_flash_step *step)
{
  for (int row = 0; row < step->rows; row++)
    raise_largest(step, row);
  for (int row = 0; row < step->rows; row++)
    weigh(step, row);
}

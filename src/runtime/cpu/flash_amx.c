/* Flash attention, bf16 by AMX; softmax in fp32 by AVX-512.
 *
 *   tiles: 0 1 2 3 sums of 32 rows by 32 columns, 4 5 rows of Q or P, 6 7 columns of K or V: four loads to four products,
 *   8 cycles each to 16. Tile of rows: 32; a step has 512 keys, whose scores are made and weighed 64 at a time; o is
 *   loaded and stored once a step. A tile of rows meets K and V once, and loads them past the first-level cache, so that
 *   there Q, scores and weights stay: what is stored beside tile products costs most where its line has gone.
 *   A row's base is 2^8 above the largest score that it was set by, and rises again only when a score is above it: by
 *   whole powers of 2, which change no bit of what has been summed. So o is hardly ever scaled.
 *
 * Ceilings of a core of an Intel Xeon with AMX (a virtual one, November 2026): a tile product every 7.0 to 7.4 ns,
 * which is 16 cycles of its clock while tiles are at work, an exponential every 0.145 ns: 0.37 ns a score at head size
 * 128. Nanoseconds a score (1024 keys; causal; head size 64), by turns on three quiet cores: this 0.63, 0.77, 0.46; of
 * what was tried and lost: K and V through the first-level cache 0.67, 0.82, 0.48, and so with scores 128 keys at a
 * time 0.72, 32 keys 0.68, steps of 256 keys 0.69; then with tiles of 64 rows 0.73, 0.88, 0.51, of 48 0.86, of 16
 * 0.99; tiles of 64 rows by 16 columns 0.74 to 0.77; with weights among the products 0.69, 0.85, 0.51; two buffers of
 * scores 0.72; Q in tiles 0.72; pages of 2 MiB change nothing. */
#include "runtime/cpu/flash.h"

#if defined(__x86_64__)

#include "runtime/cpu/tiles.h"
#include "runtime/cpu/vector_avx512.h"
#include "runtime/cpu/vector_bf16.h"

#define CHUNK 512
#define STEP 512
#define PART 64 /* keys whose scores are there at a time */
#define TILE_ROWS 32
#define DEGREE 4
#define PANEL 2
#define PAIR 2
#define KEY_GROUP 32
#include "runtime/cpu/flash_rows.h"

#include <float.h>
#include <math.h>

#define BLOCK 32             /* rows and columns of the sums that the tiles hold at a time */
#define S_STRIDE (PART + 32) /* floats, of a row of scores; a power of 2 is slower */
#define P_STRIDE (STEP + 32) /* bf16, of a row of weights */
#define SPARE 8              /* what an exponent of 2 may grow by before the base rises again */

/* ---- softmax ---- */

/* While there is no score above −inf, the shift is such that any such score is one too large. */
static void set_shift(const hr_flash_step *step, int row)
{
  step->shift[row] = step->base[row] < -FLT_MAX ? FLT_MAX : -step->base[row];
}

/* A row's base rises to a whole number, so that what has been weighed is scaled by a power of 2, which is exact. */
static __attribute__((noinline)) void raise_base(hr_flash_step *step, int row, int key, float largest)
{
  float before = step->base[row], base = ceilf(largest * step->scores->to_log2) + SPARE;
  if (!(base > before))
    return;
  float factor = before - base < -126 ? 0 : ldexpf(1, (int)(before - base));
  float *total = step->total + row * HR_FLASH_LANES_MAX;
  uint16_t *weights = (uint16_t *)step->p + row * P_STRIDE;
  vector_store(total, vector_load(total) * vector_set(factor));
  for (int at = 0; at < key; at += LANES)
    vector_store_pairs(weights + at, vector_load_bf16(weights + at) * vector_set(factor));
  step->factor[row] *= factor;
  step->scaled = true;
  step->base[row] = base;
  set_shift(step, row);
}

/* Keys of a part of a step. */
static inline int keys_from(const hr_flash_step *step, int key)
{
  return step->keys - key < PART ? step->keys - key : PART;
}

/* Caps, biases, and −inf for keys that the row does not see. */
static __attribute__((noinline)) void finish_scores(const hr_flash_step *step, int row, int key, float *s)
{
  int first = step->first[row] - key, end = step->end[row] - key, keys = keys_from(step, key);
  if (step->scores->softcap > 0 || step->scores->alibi)
    adjust_scores(step, row, s, key, key + keys);
  for (int j = 0; j < keys; j += LANES)
    if (first > j || end < j + LANES)
      vector_store(s + j, vector_between(vector_load(s + j), first - j, end - j));
}

static inline __attribute__((always_inline)) vector largest_of(const float *s, int keys)
{
  vector a = vector_load(s), b = vector_load(s + LANES);
  for (int j = BLOCK; j < keys; j += BLOCK) {
    a = vector_larger(vector_load(s + j), a);
    b = vector_larger(vector_load(s + j + LANES), b);
  }
  return vector_larger(a, b);
}

static inline __attribute__((always_inline)) void weigh_row(hr_flash_step *step, int row, int key, int keys,
                                                            vector scale, bool adjust)
{
  float *s = step->s + row * S_STRIDE, *sums = step->total + row * HR_FLASH_LANES_MAX;
  uint16_t *weights = (uint16_t *)step->p + row * P_STRIDE + key;
  if (key == 0) {
    step->factor[row] = 1;
    set_shift(step, row);
  }
  if (adjust || step->first[row] > key || step->end[row] < key + keys)
    finish_scores(step, row, key, s);
  vector most = largest_of(s, keys);
  if (vector_any_above_zero(vector_multiply_add(most, scale, vector_set(step->shift[row]))))
    raise_base(step, row, key, vector_largest(most));
  vector add = vector_set(step->shift[row]), total = vector_load(sums), other = vector_set(0);
  for (int j = 0; j < keys; j += BLOCK) {
    vector p = power_of_two(vector_multiply_add(vector_load(s + j), scale, add));
    vector q = power_of_two(vector_multiply_add(vector_load(s + j + LANES), scale, add));
    vector_store_two(weights + j, p, q);
    total = total + p;
    other = other + q;
  }
  vector_store(sums, total + other);
}

static void weigh(hr_flash_step *step, int key)
{
  vector scale = vector_set(step->scores->to_log2);
  bool adjust = step->scores->softcap > 0 || step->scores->alibi;
  int keys = keys_from(step, key);
  if (key == 0)
    step->scaled = false;
  if (keys == PART)
    for (int row = 0; row < step->rows; row++)
      weigh_row(step, row, key, PART, scale, adjust);
  else
    for (int row = 0; row < step->rows; row++)
      weigh_row(step, row, key, keys, scale, adjust);
}

static void scale_sums(const hr_flash_step *step)
{
  for (int row = 0; row < step->rows && step->scaled && !step->fresh; row++) {
    float *o = step->o + row * step->values;
    for (int64_t d = 0; d < step->values; d += LANES)
      vector_store(o + d, vector_load(o + d) * vector_set(step->factor[row]));
  }
}

/* ---- products: tiles 0 1 and 2 3 are sums of 32 rows by 32 columns, 4 and 5 the rows' A, 6 and 7 the columns' B ---- */

/* Tiles of `rows` rows, up to 32: of the second 16 of them 2, 3 and 5, of the first 0, 1 and 4. */
static void configure(int rows)
{
  tile_palette palette = {.palette = 1};
  for (int tile = 0; tile < 8; tile++) {
    bool second = tile == 2 || tile == 3 || tile == 5;
    int left = second ? rows - 16 : rows;
    palette.row_bytes[tile] = 64;
    palette.rows[tile] = (uint8_t)(tile >= 6 || left > 16 ? 16 : left > 0 ? left : 1);
  }
  tile_configure(&palette);
}

/* C = A B, or C += A B, for up to 32 rows and 32 or 16 columns. Strides in bytes; of B it is that of a panel. */
typedef struct product {
  const char *a, *b;
  char *c;
  int64_t a_stride, c_stride;
  int groups; /* of 16 words of depth */
  bool add, two_columns;
} product;

#define B_STRIDE ((int64_t)4 * PANEL_LANES)

static inline __attribute__((always_inline)) void load_operands(bool two_rows, bool two_columns, const char *a,
                                                                int64_t a_stride, const char *b)
{
  tile_load_once(6, b, B_STRIDE);
  tile_load(4, a, a_stride);
  if (two_columns)
    tile_load_once(7, b + 64, B_STRIDE);
  if (two_rows)
    tile_load(5, a + 16 * a_stride, a_stride);
}

static inline __attribute__((always_inline)) void begin_sums(bool two_rows, bool two_columns, const product *p)
{
  if (!p->add) {
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    return;
  }
  tile_load(0, p->c, p->c_stride);
  if (two_columns)
    tile_load(1, p->c + 64, p->c_stride);
  if (two_rows)
    tile_load(2, p->c + 16 * p->c_stride, p->c_stride);
  if (two_rows && two_columns)
    tile_load(3, p->c + 16 * p->c_stride + 64, p->c_stride);
}

static inline __attribute__((always_inline)) void store_sums(bool two_rows, bool two_columns, const product *p)
{
  tile_store(0, p->c, p->c_stride);
  if (two_columns)
    tile_store(1, p->c + 64, p->c_stride);
  if (two_rows)
    tile_store(2, p->c + 16 * p->c_stride, p->c_stride);
  if (two_rows && two_columns)
    tile_store(3, p->c + 16 * p->c_stride + 64, p->c_stride);
}

static inline __attribute__((always_inline)) void multiply(bool two_rows, bool two_columns, const product *p)
{
  const char *a = p->a, *b = p->b;
  begin_sums(two_rows, two_columns, p);
#pragma GCC unroll 1
  for (int group = 0; group < p->groups; group++) {
    load_operands(two_rows, two_columns, a, p->a_stride, b);
    tile_multiply(0, 4, 6);
    if (two_columns)
      tile_multiply(1, 4, 7);
    if (two_rows)
      tile_multiply(2, 5, 6);
    if (two_rows && two_columns)
      tile_multiply(3, 5, 7);
    a += 64;
    b += 16 * B_STRIDE;
  }
  store_sums(two_rows, two_columns, p);
}

static product score_product(const hr_flash_step *step, int key)
{
  int64_t a_stride = 4 * step->depth;
  return (product){.a = step->q,
                   .b = (const char *)step->k + 4 * (step->first_key + key) * step->depth,
                   .c = (char *)(step->s + key % PART),
                   .a_stride = a_stride,
                   .c_stride = 4 * S_STRIDE,
                   .groups = (int)(step->depth / 16),
                   .two_columns = true};
}

static product value_product(const hr_flash_step *step, int64_t d)
{
  return (product){.a = step->p,
                   .b = (const char *)step->v + 4 * (d * (CHUNK / 2) + step->first_key / 2 * PANEL_LANES),
                   .c = (char *)(step->o + d),
                   .a_stride = 2 * P_STRIDE,
                   .c_stride = 4 * step->values,
                   .groups = step->keys / BLOCK,
                   .add = !step->fresh,
                   .two_columns = step->values - d > 16};
}

static inline __attribute__((always_inline)) void multiply_scores(bool two_rows, const hr_flash_step *step, int key)
{
  for (int end = key + keys_from(step, key); key < end; key += BLOCK) {
    product p = score_product(step, key);
    multiply(two_rows, true, &p);
  }
}

static inline __attribute__((always_inline)) void multiply_values(bool two_rows, const hr_flash_step *step)
{
  for (int64_t d = 0; d < step->values; d += BLOCK) {
    product p = value_product(step, d);
    if (p.two_columns)
      multiply(two_rows, true, &p);
    else
      multiply(two_rows, false, &p);
  }
}

/* The scores of `next` from a key on, if there is a next, and the values of `step`, if there is a step. Tiles must not
 * reach beyond the last row, which is followed by another tile's rows. */
static void multiply_all(const hr_flash_step *step, const hr_flash_step *next, int key)
{
  int rows = (step ? step : next)->rows;
  if (rows < BLOCK)
    configure(rows);
  if (next)
    rows > 16 ? multiply_scores(true, next, key) : multiply_scores(false, next, key);
  if (step)
    rows > 16 ? multiply_values(true, step) : multiply_values(false, step);
  if (rows < BLOCK)
    configure(BLOCK);
}

/* Scores from a key on, and their weights, part by part, so that scores stay in the first-level cache. */
static void weigh_from(hr_flash_step *step, int key)
{
  for (; key < step->keys; key += PART) {
    multiply_all(NULL, step, key);
    weigh(step, key);
  }
}

static void begin(hr_flash_step *step)
{
  weigh_from(step, 0);
}

/* Tiles and vectors change places as seldom as that allows: each waits for what the other has under way. */
static void attend(hr_flash_step *step, hr_flash_step *next)
{
  scale_sums(step);
  if (next && next->rows == step->rows) {
    multiply_all(step, next, 0);
    weigh(next, 0);
    weigh_from(next, PART);
    return;
  }
  multiply_all(step, NULL, 0);
  if (next)
    begin(next);
}

static void enter(void)
{
  configure(BLOCK);
}

const hr_flash_version hr_flash_amx = {.lanes = PANEL_LANES,
                                       .key_group = KEY_GROUP,
                                       .value_group = 16,
                                       .pair = PAIR,
                                       .depth_group = 16,
                                       .tile_rows = TILE_ROWS,
                                       .chunk = CHUNK,
                                       .step = STEP,
                                       .score_floats = TILE_ROWS * S_STRIDE,
                                       .weights = TILE_ROWS * P_STRIDE,
                                       .pack_rows = 40,
                                       .pack_q = pack_q,
                                       .pack_k = pack_k,
                                       .pack_v = pack_v,
                                       .attend = attend,
                                       .begin = begin,
                                       .finish = finish,
                                       .exp2 = powers_of_two,
                                       .enter = enter,
                                       .leave = tile_release};

#endif

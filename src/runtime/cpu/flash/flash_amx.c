/* Flash attention, bf16 by AMX; softmax in fp32 by AVX-512.
 *
 *   tiles: 0 1 2 3 sums of 32 rows by 32 columns, 4 5 rows of Q or P, 6 7 columns of K or V: four loads to four
 *   products, 8 cycles each to 16. Tile of rows: 32; a step has 512 keys, whose scores are made 64 at a time, and
 *   beside them, row by row, the weights of the 64 before; o is loaded and stored once a step. A tile of rows meets K
 *   and V once, and loads them past the first-level cache, so that there Q, scores and weights stay: what is stored
 *   beside tile products costs most where its line has gone. A row's base is 2^8 above the largest score that it was
 *   set by, and rises again only when a score is above it: by whole powers of 2, which change no bit of what has been
 *   summed. So o is hardly ever scaled.
 *
 * Ceilings of a core of an Intel Xeon with AMX (a virtual one, November 2026): a tile product every 7.2 ns, which is
 * 16 cycles of its clock while tiles are at work, an exponential every 0.142 ns: 0.37 ns a score at head size 128.
 * Nanoseconds a score (1024 keys; causal; head size 64), by turns on three quiet cores: this 0.59, 0.73, 0.44, which
 * is 62, 49 and 56% of the two one after the other. Lost: weights and scores by turns 0.61, 0.75, 0.45 (a change from
 * tiles to vectors and back costs some 600 cycles, whatever they do), so with scores 128 or 256 keys at a time 0.64,
 * 512 0.66, with a tile product now and then among the weights 0.63 to 0.68, steps of 256 keys 0.65, of 128 0.72;
 * weights beside the products with V, too, 0.67; beside 128 keys' scores 0.65, 32 keys' 0.63; sums stored among the
 * first products of the next block 0.63; looking for overflow after the exponentials 0.60; Q in tiles, larger chunks
 * the same. All through the first-level cache and by turns 0.64, then with tiles of 64 rows 0.71, of 48 0.83, of 64 by
 * 16 columns 0.72 to 0.75.
 *
 * Those are rows of a head side by side. Heads side by side in each token's row ([batch, length, heads, dim], the
 * default) cost more, as the processor does not foresee rows that lie kilobytes apart. Prefetching them
 * (flash.h) is 1.04 to 1.15 times as fast there on one thread, in the median 1.06 times on two. Lost, in
 * times as fast as without, by turns, medians of 20 calls on one and two threads: prefetching a tile's Q and O among
 * the weights, Q taken and O given tile by tile, 0.96 at 1024 keys, and for the next chunk's K and V, too, 0.92; the
 * last weights of a step beside the next one's scores even where parts are odd or short 1.00; a row's first base
 * without the general way 1.00; scores in blocks of 32 rows by 16 columns, so that sums are stored while the next
 * block's begin, 0.98, the same with V 0.94; scores, or scores and weights, in the order of tiles 1.00; chunks of
 * 1024 keys 0.98; a polynomial of degree 3 1.00. */
#include "runtime/cpu/flash/flash.h"

#if defined(__x86_64__)

#include "runtime/cpu/simd/amx_tiles.h"

#define CHUNK 512
#define STEP 512
#define PART 64 /* keys whose scores are there at a time */
#define TILE_ROWS 32
#define WEIGHT_EXP2 simd_exp2_for_bf16
#define PANEL 2
#define PAIR 2
#define KEY_GROUP 32
#include "runtime/cpu/flash/rows_body.h"

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
  simd_store(total, simd_load(total) * simd_set1(factor));
  for (int at = 0; at < key; at += SIMD_LANES)
    simd_store_bf16(weights + at, simd_f32_from_bf16(simd_load_u16(weights + at)) * simd_set1(factor));
  step->factor[row] *= factor;
  step->scaled = true;
  step->base[row] = base;
  set_shift(step, row);
}

/* Where the scores of a part of a step are: of two parts one after the other, the first being weighed still. */
static inline float *scores_of(const hr_flash_step *step, int key)
{
  return step->s + key / PART % 2 * TILE_ROWS * S_STRIDE;
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
  for (int j = 0; j < keys; j += SIMD_LANES)
    if (first > j || end < j + SIMD_LANES)
      simd_store(s + j, hide_outside(simd_load(s + j), first - j, end - j));
}

static inline __attribute__((always_inline)) simd_f32 largest_of(const float *s, int keys)
{
  simd_f32 a = simd_load(s), b = simd_load(s + SIMD_LANES);
  for (int j = BLOCK; j < keys; j += BLOCK) {
    a = simd_max(simd_load(s + j), a);
    b = simd_max(simd_load(s + j + SIMD_LANES), b);
  }
  return simd_max(a, b);
}

static inline __attribute__((always_inline)) void weigh_row(hr_flash_step *step, int row, int key, int keys,
                                                            simd_f32 scale, bool adjust)
{
  float *s = scores_of(step, key) + row * S_STRIDE, *sums = step->total + row * HR_FLASH_LANES_MAX;
  uint16_t *weights = (uint16_t *)step->p + row * P_STRIDE + key;
  if (key == 0) {
    step->factor[row] = 1;
    set_shift(step, row);
  }
  if (adjust || step->first[row] > key || step->end[row] < key + keys)
    finish_scores(step, row, key, s);
  simd_f32 most = largest_of(s, keys);
  if (simd_less(simd_set1(0), simd_fma(most, scale, simd_set1(step->shift[row]))) != 0)
    raise_base(step, row, key, simd_reduce_max(most));
  simd_f32 add = simd_set1(step->shift[row]), total = simd_load(sums), other = simd_set1(0);
  for (int j = 0; j < keys; j += BLOCK) {
    simd_f32 p = WEIGHT_EXP2(simd_fma(simd_load(s + j), scale, add));
    simd_f32 q = WEIGHT_EXP2(simd_fma(simd_load(s + j + SIMD_LANES), scale, add));
    simd_store_bf16_two(weights + j, p, q);
    total = total + p;
    other = other + q;
  }
  simd_store(sums, total + other);
}

/* The rows of a part that have no weights yet. */
typedef struct weighing {
  hr_flash_step *step;
  int key, keys, row, rows;
  bool adjust;
  simd_f32 scale;
} weighing;

/* Of the first part that has none; no step, no rows. */
static weighing begin_weighing(hr_flash_step *step)
{
  if (!step || step->weighed >= step->keys)
    return (weighing){0};
  if (step->weighed == 0)
    step->scaled = false;
  return (weighing){.step = step,
                    .key = step->weighed,
                    .keys = keys_from(step, step->weighed),
                    .rows = step->rows,
                    .adjust = step->scores->softcap > 0 || step->scores->alibi,
                    .scale = simd_set1(step->scores->to_log2)};
}

static void finish_weighing(weighing *w)
{
  if (w->keys == PART)
    for (; w->row < w->rows; w->row++)
      weigh_row(w->step, w->row, w->key, PART, w->scale, w->adjust);
  for (; w->row < w->rows; w->row++)
    weigh_row(w->step, w->row, w->key, w->keys, w->scale, w->adjust);
  if (w->step)
    w->step->weighed = w->key + w->keys;
}

static void scale_sums(const hr_flash_step *step)
{
  for (int row = 0; row < step->rows && step->scaled && !step->fresh; row++) {
    float *o = step->o + row * step->values;
    for (int64_t d = 0; d < step->values; d += SIMD_LANES)
      simd_store(o + d, simd_load(o + d) * simd_set1(step->factor[row]));
  }
}

/* ---- products ---- */

/* Tiles 0 1 and 2 3 are sums of 32 rows by 32 columns, 4 and 5 the rows' A, 6 and 7 the columns' B. */

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

static inline __attribute__((always_inline)) void weigh_beside(weighing *w)
{
  if (w && w->row < w->rows)
    weigh_row(w->step, w->row++, w->key, PART, w->scale, w->adjust);
}

/* `beside`: whole parts' weights, a row after each tile product; or NULL. */
static inline __attribute__((always_inline)) void multiply(bool two_rows, bool two_columns, const product *p,
                                                           weighing *beside)
{
  const char *a = p->a, *b = p->b;
  begin_sums(two_rows, two_columns, p);
#pragma GCC unroll 1
  for (int group = 0; group < p->groups; group++) {
    load_operands(two_rows, two_columns, a, p->a_stride, b);
    tile_multiply(0, 4, 6);
    weigh_beside(beside);
    if (two_columns)
      tile_multiply(1, 4, 7);
    weigh_beside(beside);
    if (two_rows)
      tile_multiply(2, 5, 6);
    weigh_beside(beside);
    if (two_rows && two_columns)
      tile_multiply(3, 5, 7);
    weigh_beside(beside);
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
                   .c = (char *)(scores_of(step, key) + key % PART),
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

/* Tiles must not reach beyond the last row, which is followed by another tile's rows. */
static void multiply_score_block(const hr_flash_step *step, int key, weighing *w)
{
  product p = score_product(step, key);
  if (step->rows == BLOCK && w->keys == PART && w->row < w->rows)
    multiply(true, true, &p, w);
  else if (step->rows > 16)
    multiply(true, true, &p, NULL);
  else
    multiply(false, true, &p, NULL);
}

static void multiply_value_block(const hr_flash_step *step, int64_t d)
{
  product p = value_product(step, d);
  if (step->rows > 16 && p.two_columns)
    multiply(true, true, &p, NULL);
  else if (step->rows > 16)
    multiply(true, false, &p, NULL);
  else if (p.two_columns)
    multiply(false, true, &p, NULL);
  else
    multiply(false, false, &p, NULL);
}

static void multiply_values(const hr_flash_step *step)
{
  if (step->rows < BLOCK)
    configure(step->rows);
  for (int64_t d = 0; d < step->values; d += BLOCK)
    multiply_value_block(step, d);
  if (step->rows < BLOCK)
    configure(BLOCK);
}

/* The scores of a part, and beside them the weights of the part before, of this step or of the one before. */
static void make_scores(const hr_flash_step *step, int key, hr_flash_step *weighed)
{
  weighing w = begin_weighing(weighed);
  if (step->rows < BLOCK)
    configure(step->rows);
  for (int end = key + keys_from(step, key); key < end; key += BLOCK)
    multiply_score_block(step, key, &w);
  if (step->rows < BLOCK)
    configure(BLOCK);
  finish_weighing(&w);
}

/* From the second part on; the last part's weights are left for later. */
static void make_other_scores(hr_flash_step *step)
{
  for (int key = PART; key < step->keys; key += PART)
    make_scores(step, key, step);
}

static void begin(hr_flash_step *step)
{
  make_scores(step, 0, NULL);
  make_other_scores(step);
}

/* The first scores of `next` take the place of the last but one of `step`, if that has an even number of parts. */
static void attend(hr_flash_step *step, hr_flash_step *next)
{
  bool early = next && (step->keys + PART - 1) / PART % 2 == 0;
  if (early)
    make_scores(next, 0, step);
  weighing rest = begin_weighing(step);
  finish_weighing(&rest);
  scale_sums(step);
  multiply_values(step);
  if (next && !early)
    make_scores(next, 0, NULL);
  if (next)
    make_other_scores(next);
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
                                       .score_floats = 2 * TILE_ROWS * S_STRIDE,
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

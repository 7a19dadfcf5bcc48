/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention, bf16 by AMX; softmax in fp32 by AVX-512.
 *
 *   AMX tiles: 0 1   accumulators, 32 rows     4   Q or P, 16 rows      6 7   K or V, 16 columns each
 *              2 3   × 32 columns              5   16 more rows
 *              four loads (8 cycles each) for four tile products (16 cycles each)
 *   Q tile:    32 rows × 512 keys, 34 KiB of weights; scores of 2 × 64 keys, 24 KiB
 *
 * Scores are computed 64 keys at a time (a part). Between the tile products of a part, AVX-512 computes the weights of
 * the part before, row by row. o is loaded and stored once a step. K and V are loaded past L1 (tileloaddt1), so that Q,
 * scores and weights stay there: stores between tile products cost most where their line has left L1.
 *
 * A row's base rises only when a score exceeds it by a factor of 2^8, and o is rescaled by whole powers of 2, which are
 * exact; so that happens seldom.
 *
 * Bound: tile products and exponentials, one after the other: 0.37 ns a score at head size 128 (a core of a virtual
 * Intel Xeon with AMX, November 2026: a tile product every 7.2 ns, an exponential every 0.142 ns). Reached at 1024
 * keys: 0.59 ns (62%); causal 0.73 (49%); head size 64 0.44 (56%). Rows that lie kilobytes apart, as in [batch,
 * length, heads, dim], are prefetched (flash.h): 1.04 to 1.15 times as fast on one thread.
 *
 * Log of what was tried: docs/notes/attention-cpu.md. */
#include "runtime/cpu/flash/flash.h"

#if defined(__x86_64__)

#include "runtime/cpu/simd/amx_tiles.h"

#define CHUNK 512
#define STEP 512
#define PART 64 /* keys whose scores are computed at a time */
#define TILE_ROWS 32
#define WEIGHT_EXP2 simd_exp2_weight_for_bf16
#define PANEL 2
#define PAIR 2
#define KEY_GROUP 32
#include "runtime/cpu/flash/rows_body.h"

#include <float.h>
#include <math.h>

#define BLOCK 32             /* rows and columns of the accumulators in tiles 0 to 3 */
#define S_STRIDE (PART + 32) /* floats, of a row of scores; a power of 2 is slower (cache sets) */
#define P_STRIDE (STEP + 32) /* bf16, of a row of weights */
#define SPARE 8              /* a score may exceed the one that set the base by 2^SPARE */
#define FUSED_MAX 0x1p22F    /* beyond, an exponent is rounded so much that a difference of scores must come first */

/* ---- softmax ---- */

/* A row's base is the score that set it. */
static bool is_large(const hr_flash_scores *scores, float base)
{
  return !(fabsf(base * scores->to_log2) <= FUSED_MAX);
}

/* The exponent whose weight is 1: a whole number, so that earlier weights are rescaled by a power of 2, exactly, and so
 * far above the base that a score may exceed it by 2^SPARE. A large base has no room for that. */
static double unit_exponent(const hr_flash_scores *scores, float base)
{
  if (is_large(scores, base))
    return (double)base * (double)scores->to_log2 - (double)scores->add;
  return (double)(ceilf(base * scores->to_log2) + SPARE - scores->add);
}

static double unit_logarithm(const hr_flash_scores *scores, float base)
{
  if (is_large(scores, base))
    return hr_flash_unit_logarithm(scores, base);
  return unit_exponent(scores, base) * 0.6931471805599453;
}

/* The shift of a large base, also of none, makes any score call raise_base(). A row with a score of +inf is NaN. */
static void set_shift(const hr_flash_step *step, int row)
{
  float base = step->base[row];
  step->shift[row] = base * step->scores->unit > FLT_MAX ? NAN
                     : is_large(step->scores, base)      ? INFINITY
                                                         : -(float)unit_exponent(step->scores, base);
}

/* Scores of a row with a large base to exponents of weights. */
static __attribute__((noinline)) void subtract_base(const hr_flash_step *step, int row, float *s, int keys)
{
  const hr_flash_scores *scores = step->scores;
  float base = step->base[row] < -FLT_MAX ? 0 : step->base[row];
  for (int j = 0; j < keys; j++)
    s[j] = (s[j] - base) * scores->to_log2 + scores->add;
}

/* Raises a row's base. */
static __attribute__((noinline)) void raise_base(hr_flash_step *step, int row, int key, float largest)
{
  double rise = unit_exponent(step->scores, largest) - unit_exponent(step->scores, step->base[row]);
  if (!(rise > 0))
    return;
  float factor = rise > 126 ? 0 : (float)exp2(-rise);
  float *total = step->total + row * HR_FLASH_LANES_MAX;
  uint16_t *weights = (uint16_t *)step->p + row * P_STRIDE;
  simd_store(total, simd_load(total) * simd_set1(factor));
  for (int at = 0; at < key; at += SIMD_LANES)
    simd_store_bf16(weights + at, simd_f32_from_bf16(simd_load_u16(weights + at)) * simd_set1(factor));
  step->factor[row] *= factor;
  step->rescaled = true;
  step->base[row] = largest;
  set_shift(step, row);
}

/* The scores of a part, in one of two buffers: the weights of one part are computed with the scores of the next. */
static inline float *scores_of(const hr_flash_step *step, int key)
{
  return step->s + key / PART % 2 * TILE_ROWS * S_STRIDE;
}

/* Keys of a part of a step. */
static inline int keys_from(const hr_flash_step *step, int key)
{
  return step->keys - key < PART ? step->keys - key : PART;
}

/* Soft cap, ALiBi, and −inf for masked keys. */
static __attribute__((noinline)) void modify_scores(const hr_flash_step *step, int row, int key, float *s)
{
  int first = step->first[row] - key, end = step->end[row] - key, keys = keys_from(step, key);
  if (step->scores->scaled_first)
    adjust_scores(step, row, s, key, key + keys);
  for (int j = 0; j < keys; j += SIMD_LANES)
    if (first > j || end < j + SIMD_LANES)
      simd_store(s + j, hide_outside(simd_load(s + j), first - j, end - j));
}

static inline __attribute__((always_inline)) simd_f32 row_max(const float *s, int keys)
{
  simd_f32 a = simd_load(s), b = simd_load(s + SIMD_LANES);
  for (int j = BLOCK; j < keys; j += BLOCK) {
    a = simd_max(simd_load(s + j), a);
    b = simd_max(simd_load(s + j + SIMD_LANES), b);
  }
  return simd_max(a, b);
}

static inline __attribute__((always_inline)) void compute_weights(hr_flash_step *step, int row, int key, int keys,
                                                                  simd_f32 scale, bool adjust)
{
  float *s = scores_of(step, key) + row * S_STRIDE, *sums = step->total + row * HR_FLASH_LANES_MAX;
  uint16_t *weights = (uint16_t *)step->p + row * P_STRIDE + key;
  if (key == 0) {
    step->factor[row] = 1;
    set_shift(step, row);
  }
  if (adjust || step->first[row] > key || step->end[row] < key + keys)
    modify_scores(step, row, key, s);
  simd_f32 most = row_max(s, keys);
  if (simd_less(simd_set1(step->scores->add), simd_fma(most, scale, simd_set1(step->shift[row]))) != 0)
    raise_base(step, row, key, simd_reduce_max(most));
  simd_exponent exponent = {.scale = scale, .add = simd_set1(step->shift[row])};
  simd_f32 total = simd_load(sums), other = simd_set1(0);
  if (step->shift[row] == INFINITY) {
    subtract_base(step, row, s, keys);
    exponent = (simd_exponent){.scale = simd_set1(1), .add = simd_set1(0)};
  }
  for (int j = 0; j < keys; j += BLOCK) {
    simd_f32 p = WEIGHT_EXP2(&exponent, simd_load(s + j));
    simd_f32 q = WEIGHT_EXP2(&exponent, simd_load(s + j + SIMD_LANES));
    simd_store_bf16_two(weights + j, p, q);
    total = total + p;
    other = other + q;
  }
  simd_store(sums, total + other);
}

/* Rows of a part whose weights are not computed yet. */
typedef struct weights_job {
  hr_flash_step *step;
  int key, keys, row, rows;
  bool adjust;
  simd_f32 scale;
} weights_job;

/* The first part without weights; no rows if there is none, or no step. */
static weights_job begin_weights(hr_flash_step *step)
{
  if (!step || step->weights_done >= step->keys)
    return (weights_job){0};
  if (step->weights_done == 0)
    step->rescaled = false;
  return (weights_job){.step = step,
                       .key = step->weights_done,
                       .keys = keys_from(step, step->weights_done),
                       .rows = step->rows,
                       .adjust = step->scores->scaled_first,
                       .scale = simd_set1(step->scores->to_log2)};
}

static void finish_weights(weights_job *w)
{
  if (w->keys == PART)
    for (; w->row < w->rows; w->row++)
      compute_weights(w->step, w->row, w->key, PART, w->scale, w->adjust);
  for (; w->row < w->rows; w->row++)
    compute_weights(w->step, w->row, w->key, w->keys, w->scale, w->adjust);
  if (w->step)
    w->step->weights_done = w->key + w->keys;
}

static void rescale_output(const hr_flash_step *step)
{
  for (int row = 0; row < step->rows && step->rescaled && !step->fresh; row++) {
    float *o = step->o + row * step->values;
    for (int64_t d = 0; d < step->values; d += SIMD_LANES)
      simd_store(o + d, simd_load(o + d) * simd_set1(step->factor[row]));
  }
}

/* ---- GEMMs ---- */

/* Configures tiles for up to 32 rows: tiles 0, 1 and 4 have the first 16 of them, 2, 3 and 5 the others. */
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

/* C = A B, or C += A B, for up to 32 rows and 32 or 16 columns. Strides in bytes; B's is a panel's. */
typedef struct gemm_call {
  const char *a, *b;
  char *c;
  int64_t a_stride, c_stride;
  int groups; /* of 16 words of depth */
  bool add, two_columns;
} gemm_call;

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

static inline __attribute__((always_inline)) void load_accumulators(bool two_rows, bool two_columns, const gemm_call *p)
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

static inline __attribute__((always_inline)) void store_accumulators(bool two_rows, bool two_columns,
                                                                     const gemm_call *p)
{
  tile_store(0, p->c, p->c_stride);
  if (two_columns)
    tile_store(1, p->c + 64, p->c_stride);
  if (two_rows)
    tile_store(2, p->c + 16 * p->c_stride, p->c_stride);
  if (two_rows && two_columns)
    tile_store(3, p->c + 16 * p->c_stride + 64, p->c_stride);
}

static inline __attribute__((always_inline)) void next_row_of_weights(weights_job *w)
{
  if (w && w->row < w->rows)
    compute_weights(w->step, w->row++, w->key, PART, w->scale, w->adjust);
}

/* `job`: the weights of a whole part, one row after each tile product; or NULL. */
static inline __attribute__((always_inline)) void gemm_tiles(bool two_rows, bool two_columns, const gemm_call *p,
                                                             weights_job *job)
{
  const char *a = p->a, *b = p->b;
  load_accumulators(two_rows, two_columns, p);
#pragma GCC unroll 1
  for (int group = 0; group < p->groups; group++) {
    load_operands(two_rows, two_columns, a, p->a_stride, b);
    tile_dpbf16ps(0, 4, 6);
    next_row_of_weights(job);
    if (two_columns)
      tile_dpbf16ps(1, 4, 7);
    next_row_of_weights(job);
    if (two_rows)
      tile_dpbf16ps(2, 5, 6);
    next_row_of_weights(job);
    if (two_rows && two_columns)
      tile_dpbf16ps(3, 5, 7);
    next_row_of_weights(job);
    a += 64;
    b += 16 * B_STRIDE;
  }
  store_accumulators(two_rows, two_columns, p);
}

static gemm_call score_gemm(const hr_flash_step *step, int key)
{
  int64_t a_stride = 4 * step->depth;
  return (gemm_call){.a = step->q,
                     .b = (const char *)step->k + 4 * (step->first_key + key) * step->depth,
                     .c = (char *)(scores_of(step, key) + key % PART),
                     .a_stride = a_stride,
                     .c_stride = 4 * S_STRIDE,
                     .groups = (int)(step->depth / 16),
                     .two_columns = true};
}

static gemm_call value_gemm(const hr_flash_step *step, int64_t d)
{
  return (gemm_call){.a = step->p,
                     .b = (const char *)step->v + 4 * (d * (CHUNK / 2) + step->first_key / 2 * PANEL_LANES),
                     .c = (char *)(step->o + d),
                     .a_stride = 2 * P_STRIDE,
                     .c_stride = 4 * step->values,
                     .groups = step->keys / BLOCK,
                     .add = !step->fresh,
                     .two_columns = step->values - d > 16};
}

/* AMX tiles must not reach beyond the last row: the rows behind it belong to another Q tile. */
static void gemm_score_block(const hr_flash_step *step, int key, weights_job *w)
{
  gemm_call p = score_gemm(step, key);
  if (step->rows == BLOCK && w->keys == PART && w->row < w->rows)
    gemm_tiles(true, true, &p, w);
  else if (step->rows > 16)
    gemm_tiles(true, true, &p, NULL);
  else
    gemm_tiles(false, true, &p, NULL);
}

static void gemm_value_block(const hr_flash_step *step, int64_t d)
{
  gemm_call p = value_gemm(step, d);
  if (step->rows > 16 && p.two_columns)
    gemm_tiles(true, true, &p, NULL);
  else if (step->rows > 16)
    gemm_tiles(true, false, &p, NULL);
  else if (p.two_columns)
    gemm_tiles(false, true, &p, NULL);
  else
    gemm_tiles(false, false, &p, NULL);
}

static void gemm_values(const hr_flash_step *step)
{
  if (step->rows < BLOCK)
    configure(step->rows);
  for (int64_t d = 0; d < step->values; d += BLOCK)
    gemm_value_block(step, d);
  if (step->rows < BLOCK)
    configure(BLOCK);
}

/* The scores of a part, interleaved with the weights of the part before, which is of this step or of the previous
 * one. */
static void compute_scores(const hr_flash_step *step, int key, hr_flash_step *previous)
{
  weights_job w = begin_weights(previous);
  if (step->rows < BLOCK)
    configure(step->rows);
  for (int end = key + keys_from(step, key); key < end; key += BLOCK)
    gemm_score_block(step, key, &w);
  if (step->rows < BLOCK)
    configure(BLOCK);
  finish_weights(&w);
}

/* Scores of the second part on; the last part's weights are computed later. */
static void compute_later_scores(hr_flash_step *step)
{
  for (int key = PART; key < step->keys; key += PART)
    compute_scores(step, key, step);
}

static void begin_step(hr_flash_step *step)
{
  compute_scores(step, 0, NULL);
  compute_later_scores(step);
}

/* The first scores of `next` replace those of the last part but one of `step`, if that has an even number of parts. */
static void run_step(hr_flash_step *step, hr_flash_step *next)
{
  bool early = next && (step->keys + PART - 1) / PART % 2 == 0;
  if (early)
    compute_scores(next, 0, step);
  weights_job rest = begin_weights(step);
  finish_weights(&rest);
  rescale_output(step);
  gemm_values(step);
  if (next && !early)
    compute_scores(next, 0, NULL);
  if (next)
    compute_later_scores(next);
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
                                       .run_step = run_step,
                                       .begin_step = begin_step,
                                       .finish = finish,
                                       .unit_logarithm = unit_logarithm,
                                       .exp2 = exp2_array,
                                       .enter = enter,
                                       .leave = tile_release};

#endif

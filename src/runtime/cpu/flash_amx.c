/* Flash attention, bf16 by AMX; softmax in fp32 by AVX-512.
 *
 *   tiles: 0 1 2 3 sums of 32 rows by 32 columns, 4 5 rows of Q or P, 6 7 columns of K or V: four loads to four products,
 *   8 cycles each to 16. Tile of rows: 32; step and chunk: 512 keys, 64 KiB of scores, of which the next step's are made
 *   while this one's are weighed.
 *
 * Ceilings of a core of an Intel Xeon with AMX (a virtual one, 2.3 to 3.5 TFLOP/s by the minute; here in a minute of 2.9),
 * November 2026: at head size 128 a score is 0.17 ns of products (5.5 ns a tile product) and 0.07 ns of exponential.
 * There, ns a score, head size 128: scores 0.18, softmax 0.16, values 0.15 to 0.18, one after the other 0.53, overlapped
 * 0.49: half of the sum bound, of which a whole call, with two threads, reaches 26 to 57% (docs/attention-cpu.md).
 * Steps of 128 keys: 0.63 and 0.56, as o is loaded and stored four times as often; of 256: 0.52 and 0.52.
 * Tried and lost: weights among a block's products rather than between blocks (0.72 where 0.66 was without any overlap:
 * both want the same ports); tiles of 64 rows (no gain: scores then leave the first-level cache); prefetching K (0.17 ns
 * where 0.12 was for a block of scores). Not tried: weighing beside the values of the step before as well. */
#include "runtime/cpu/flash.h"

#if defined(__x86_64__)

#include "runtime/cpu/tiles.h"
#include "runtime/cpu/vector_avx512.h"
#include "runtime/cpu/vector_bf16.h"

#ifndef CHUNK
#define CHUNK 512
#define STEP 512
#define TILE_ROWS 32
#endif
#define PANEL 2
#define PAIR 2
#define KEY_GROUP 32
#define DEGREE 4
#include "runtime/cpu/flash_rows.h"

/* Tiles: 0 1 and 2 3 are sums of 32 rows by 32 columns, 4 and 5 the rows' A, 6 and 7 the columns' B. `last` is how many
 * rows 2, 3 and 5 have, and 0, 1 and 4, too, where there are no others. */
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

/* Where the operands of a product lie. Strides in bytes; of B it is that of a panel. */
typedef struct operands {
  const char *a, *b;
  int64_t a_stride;
} operands;

#define B_STRIDE ((int64_t)4 * PANEL_LANES)

static inline __attribute__((always_inline)) void load_operands(bool two_rows, bool two_columns, operands from)
{
  tile_load(6, from.b, B_STRIDE);
  tile_load(4, from.a, from.a_stride);
  if (two_columns)
    tile_load(7, from.b + 64, B_STRIDE);
  if (two_rows)
    tile_load(5, from.a + 16 * from.a_stride, from.a_stride);
}

/* C = A B, or C += A B, for up to 32 rows and 32 or 16 columns; `depth` words, whole groups of 16. The first operands
 * have been loaded; those of `next` are before C is stored, so that no load waits behind a store. */
static inline __attribute__((always_inline)) void product(bool two_rows, bool two_columns, bool add, operands from,
                                                          int64_t depth, char *c, int64_t c_stride,
                                                          const operands *next)
{
  if (add) {
    tile_load(0, c, c_stride);
    if (two_columns)
      tile_load(1, c + 64, c_stride);
    if (two_rows)
      tile_load(2, c + 16 * c_stride, c_stride);
    if (two_rows && two_columns)
      tile_load(3, c + 16 * c_stride + 64, c_stride);
  } else {
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
  }
  for (int64_t at = 0; at < depth; at += 16) {
    tile_multiply(0, 4, 6);
    if (two_columns)
      tile_multiply(1, 4, 7);
    if (two_rows)
      tile_multiply(2, 5, 6);
    if (two_rows && two_columns)
      tile_multiply(3, 5, 7);
    from.a += 64;
    from.b += 16 * B_STRIDE;
    if (at + 16 < depth)
      load_operands(two_rows, two_columns, from);
    else if (next)
      load_operands(two_rows, two_columns, *next);
  }
  tile_store(0, c, c_stride);
  if (two_columns)
    tile_store(1, c + 64, c_stride);
  if (two_rows)
    tile_store(2, c + 16 * c_stride, c_stride);
  if (two_rows && two_columns)
    tile_store(3, c + 16 * c_stride + 64, c_stride);
}

static inline operands score_operands(const hr_flash_step *step, int row, int key)
{
  int64_t a_stride = 4 * step->depth;
  return (operands){(const char *)step->q + row * a_stride,
                    (const char *)step->k + 4 * (step->first_key + key) * step->depth, a_stride};
}

/* S = Q Kᵀ for up to 32 rows and one panel of keys. */
static inline __attribute__((always_inline)) void multiply_scores(bool two_rows, const hr_flash_step *step, int row,
                                                                  int key)
{
  operands from = score_operands(step, row, key), next = score_operands(step, row, key + PANEL_LANES);
  if (key == 0)
    load_operands(two_rows, true, from);
  product(two_rows, true, false, from, step->depth, (char *)(step->s + row * STEP + key), 4 * STEP,
          key + PANEL_LANES < step->keys ? &next : NULL);
}

static inline operands value_operands(const hr_flash_step *step, int row, int64_t d)
{
  return (operands){(const char *)step->p + row * 2 * STEP,
                    (const char *)step->v + 4 * (d * (CHUNK / 2) + step->first_key / 2 * PANEL_LANES), 2 * STEP};
}

/* o += P V for up to 32 rows and one panel of values, which may be half a one. */
static inline __attribute__((always_inline)) void multiply_values(bool two_rows, const hr_flash_step *step, int row,
                                                                  int64_t d)
{
  operands from = value_operands(step, row, d), next = value_operands(step, row, d + PANEL_LANES);
  char *o = (char *)(step->o + row * step->values + d);
  int64_t left = step->values - d;
  if (d == 0)
    load_operands(two_rows, left > 16, from);
  if (left > 16)
    product(two_rows, true, true, from, step->keys / 2, o, 4 * step->values, left > PANEL_LANES ? &next : NULL);
  else
    product(two_rows, false, true, from, step->keys / 2, o, 4 * step->values, NULL);
}

static void scale_sums(const hr_flash_step *step)
{
  for (int row = 0; row < step->rows; row++) {
    if (step->factor[row] == 1)
      continue;
    float *o = step->o + row * step->values;
    for (int64_t d = 0; d < step->values; d += LANES)
      vector_store(o + d, vector_load(o + d) * vector_set(step->factor[row]));
  }
}

static void all_scores(bool two_rows, const hr_flash_step *step, int row)
{
  for (int key = 0; key < step->keys; key += PANEL_LANES)
    if (two_rows)
      multiply_scores(true, step, row, key);
    else
      multiply_scores(false, step, row, key);
}

static void all_values(bool two_rows, const hr_flash_step *step, int row)
{
  for (int64_t d = 0; d < step->values; d += PANEL_LANES)
    if (two_rows)
      multiply_values(true, step, row, d);
    else
      multiply_values(false, step, row, d);
}

/* A product for all rows: tiles must not reach beyond the last, which is followed by another tile's rows. */
static void for_rows(const hr_flash_step *step, void (*multiply)(bool, const hr_flash_step *, int))
{
  int whole = step->rows / 32 * 32, rest = step->rows - whole;
  for (int row = 0; row < whole; row += 32)
    multiply(true, step, row);
  if (rest == 0)
    return;
  configure(rest);
  multiply(rest > 16, step, whole);
  configure(32);
}

static void begin(const hr_flash_step *step)
{
  for_rows(step, all_scores);
  for (int row = 0; row < step->rows; row++)
    raise_largest(step, row);
}

/* Rows that are due when `done` of `all` parts of something else are. */
static int due(int rows, int64_t done, int64_t all)
{
  return (int)((rows * done + all - 1) / all);
}

/* The next step's scores among this step's weights, then this step's values among the next step's largest: the tiles
 * and the vectors work at the same time, as far as the processor looks ahead. */
static void overlap(const hr_flash_step *step, const hr_flash_step *next)
{
  int row = 0;
  for (int key = 0; key < next->keys; key += PANEL_LANES) {
    multiply_scores(true, next, 0, key);
    for (int end = due(step->rows, key + PANEL_LANES, next->keys); row < end && row < step->rows; row++)
      weigh(step, row);
  }
  scale_sums(step);
  row = 0;
  for (int64_t d = 0; d < step->values; d += PANEL_LANES) {
    multiply_values(true, step, 0, d);
    for (int end = due(next->rows, d + PANEL_LANES, step->values); row < end && row < next->rows; row++)
      raise_largest(next, row);
  }
}

static void attend(const hr_flash_step *step, const hr_flash_step *next)
{
  if (next && step->rows == 32 && next->rows == 32) {
    overlap(step, next);
    return;
  }
  for (int row = 0; row < step->rows; row++)
    weigh(step, row);
  scale_sums(step);
  for_rows(step, all_values);
  if (next)
    begin(next);
}

static void enter(void)
{
  configure(32);
}

const hr_flash_version hr_flash_amx = {.lanes = PANEL_LANES,
                                       .key_group = KEY_GROUP,
                                       .value_group = 16,
                                       .pair = PAIR,
                                       .depth_group = 16,
                                       .tile_rows = TILE_ROWS,
                                       .chunk = CHUNK,
                                       .step = STEP,
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

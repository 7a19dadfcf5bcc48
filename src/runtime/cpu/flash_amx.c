/* Flash attention, bf16 by AMX; softmax in fp32 by AVX-512. */
#include "runtime/cpu/flash.h"

#if defined(__x86_64__)

#include "runtime/cpu/tiles.h"
#include "runtime/cpu/vector_avx512.h"
#include "runtime/cpu/vector_bf16.h"

#ifndef CHUNK
#define CHUNK 256
#define STEP 256
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

/* C = A B, or C += A B, for up to 32 rows and 32 or 16 columns; `depth` words, whole groups of 16. Strides in bytes. */
static inline __attribute__((always_inline)) void product(bool two_rows, bool two_columns, bool add, const char *a,
                                                          int64_t a_stride, const char *b, int64_t depth, char *c,
                                                          int64_t c_stride)
{
  const int64_t b_stride = 4 * PANEL_LANES;
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
  for (int64_t w = 0; w < depth; w += 16) {
    tile_load(6, b + w * b_stride, b_stride);
    tile_load(4, a + 4 * w, a_stride);
    tile_multiply(0, 4, 6);
    if (two_columns) {
      tile_load(7, b + w * b_stride + 64, b_stride);
      tile_multiply(1, 4, 7);
    }
    if (two_rows) {
      tile_load(5, a + 16 * a_stride + 4 * w, a_stride);
      tile_multiply(2, 5, 6);
    }
    if (two_rows && two_columns)
      tile_multiply(3, 5, 7);
  }
  tile_store(0, c, c_stride);
  if (two_columns)
    tile_store(1, c + 64, c_stride);
  if (two_rows)
    tile_store(2, c + 16 * c_stride, c_stride);
  if (two_rows && two_columns)
    tile_store(3, c + 16 * c_stride + 64, c_stride);
}

static inline void product_of(bool two_rows, bool two_columns, bool add, const char *a, int64_t a_stride, const char *b,
                              int64_t depth, char *c, int64_t c_stride)
{
  if (two_rows && two_columns)
    product(true, true, add, a, a_stride, b, depth, c, c_stride);
  else if (two_rows)
    product(true, false, add, a, a_stride, b, depth, c, c_stride);
  else if (two_columns)
    product(false, true, add, a, a_stride, b, depth, c, c_stride);
  else
    product(false, false, add, a, a_stride, b, depth, c, c_stride);
}

/* S = Q Kᵀ for some of the rows and one panel of keys. */
static inline void multiply_score_panel(const hr_flash_step *step, int first_row, int end_row, int key)
{
  int64_t a_stride = 4 * step->depth, c_stride = 4 * STEP;
  const char *panel = (const char *)step->k + 4 * (step->first_key + key) * step->depth;
  for (int row = first_row; row < end_row; row += 32)
    product_of(end_row - row > 16, true, false, (const char *)step->q + row * a_stride, a_stride, panel, step->depth,
               (char *)step->s + row * c_stride + 4 * key, c_stride);
}

static void multiply_scores(const hr_flash_step *step, int first_row, int end_row)
{
  for (int key = 0; key < step->keys; key += PANEL_LANES)
    multiply_score_panel(step, first_row, end_row, key);
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

/* o += P V for some of the rows and one panel of values. */
static inline void multiply_value_panel(const hr_flash_step *step, int first_row, int end_row, int64_t d)
{
  int64_t a_stride = 2 * STEP, c_stride = 4 * step->values;
  const char *panel = (const char *)step->v + 4 * (d * (CHUNK / 2) + step->first_key / 2 * PANEL_LANES);
  for (int row = first_row; row < end_row; row += 32)
    product_of(end_row - row > 16, step->values - d > 16, true, (const char *)step->p + row * a_stride, a_stride, panel,
               step->keys / 2, (char *)step->o + row * c_stride + 4 * d, c_stride);
}

static void multiply_values(const hr_flash_step *step, int first_row, int end_row)
{
  for (int64_t d = 0; d < step->values; d += PANEL_LANES)
    multiply_value_panel(step, first_row, end_row, d);
}

/* A product for all rows: tiles must not reach beyond the last, which is followed by another tile's rows. */
static void for_rows(const hr_flash_step *step, void (*multiply)(const hr_flash_step *, int, int))
{
  int whole = step->rows / 32 * 32;
  if (whole > 0)
    multiply(step, 0, whole);
  if (whole == step->rows)
    return;
  configure(step->rows - whole);
  multiply(step, whole, step->rows);
  configure(32);
}

static void begin(const hr_flash_step *step)
{
  for_rows(step, multiply_scores);
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
    multiply_score_panel(next, 0, next->rows, key);
    for (int end = due(step->rows, key + PANEL_LANES, next->keys); row < end; row++)
      weigh(step, row);
  }
  scale_sums(step);
  row = 0;
  for (int64_t d = 0; d < step->values; d += PANEL_LANES) {
    multiply_value_panel(step, 0, step->rows, d);
    for (int end = due(next->rows, d + PANEL_LANES, step->values); row < end && row < next->rows; row++)
      raise_largest(next, row);
  }
}

static void attend(const hr_flash_step *step, const hr_flash_step *next)
{
  if (next && step->rows % 32 == 0 && next->rows % 32 == 0) {
    overlap(step, next);
    return;
  }
  for (int row = 0; row < step->rows; row++)
    weigh(step, row);
  scale_sums(step);
  for_rows(step, multiply_values);
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

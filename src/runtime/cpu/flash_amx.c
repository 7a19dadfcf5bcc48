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

/* S = Q Kᵀ */
static void multiply_scores(const hr_flash_step *step)
{
  int64_t a_stride = 4 * step->depth, c_stride = 4 * STEP;
  for (int key = 0; key < step->keys; key += PANEL_LANES) {
    const char *panel = (const char *)step->k + 4 * (step->first_key + key) * step->depth;
    for (int row = 0; row < step->rows; row += 32)
      product_of(step->rows - row > 16, true, false, (const char *)step->q + row * a_stride, a_stride, panel,
                 step->depth, (char *)step->s + row * c_stride + 4 * key, c_stride);
  }
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

/* o += P V */
static void multiply_values(const hr_flash_step *step)
{
  int64_t a_stride = 2 * STEP, c_stride = 4 * step->values;
  for (int64_t d = 0; d < step->values; d += PANEL_LANES) {
    const char *panel = (const char *)step->v + 4 * (d * (CHUNK / 2) + step->first_key / 2 * PANEL_LANES);
    for (int row = 0; row < step->rows; row += 32)
      product_of(step->rows - row > 16, step->values - d > 16, true, (const char *)step->p + row * a_stride, a_stride,
                 panel, step->keys / 2, (char *)step->o + row * c_stride + 4 * d, c_stride);
  }
}

static void attend(const hr_flash_step *step)
{
  bool partial = step->rows % 32 != 0; /* tiles must not reach beyond the rows, which are followed by others' */
  if (partial)
    configure(step->rows % 32);
  multiply_scores(step);
  for (int row = 0; row < step->rows; row++)
    softmax_row(step, row);
  scale_sums(step);
  multiply_values(step);
  if (partial)
    configure(32);
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
                                       .finish = finish,
                                       .exp2 = powers_of_two,
                                       .enter = enter,
                                       .leave = tile_release};

#endif

/* Template: a version whose GEMMs are FMAs of vectors. A version defines before it includes this
 *   VERSION              its hr_flash_version
 *   PANEL, PAIR, WEIGHT_EXP2   as in rows_body.h
 *   TILE                 rows of a block in registers: TILE × PANEL accumulators, PANEL vectors of B and one of A
 */
#define CHUNK 128
#define STEP 128
#define TILE_ROWS 48
#define KEY_GROUP SIMD_LANES
#include "runtime/cpu/flash/rows_body.h"
#include "runtime/cpu/flash/softmax_body.h"

/* sum + a · b of words, a the same in all lanes. */
static inline simd_f32 multiply_words(simd_f32 sum, simd_f32 a, simd_f32 b)
{
#if PAIR == 1
  return simd_fma(a, b, sum);
#else
  return simd_dot_bf16(sum, a, b);
#endif
}

/* C = factor · C + A B for a few rows of A and the columns of a panel of B, over `depth` words; factor NULL: C = A
 * B. */

static inline __attribute__((always_inline)) void block(int rows, int vectors, const word *a, int64_t a_stride,
                                                        const word *b, int64_t depth, float *c, int64_t c_stride,
                                                        const float *factor)
{
  simd_f32 sums[TILE][PANEL];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) {
      sums[i][j] = simd_set1(0);
      if (factor)
        sums[i][j] = simd_load(c + i * c_stride + j * SIMD_LANES) * simd_set1(factor[i]);
    }
#pragma GCC unroll 1
  for (int64_t w = 0; w < depth; w++) {
    simd_f32 columns[PANEL];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++)
      columns[j] = simd_load((const float *)b + w * PANEL_LANES + j * SIMD_LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      simd_f32 row = simd_set1(a[i * a_stride + w]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++)
        sums[i][j] = multiply_words(sums[i][j], row, columns[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++)
      simd_store(c + i * c_stride + j * SIMD_LANES, sums[i][j]);
}

/* What a product is of: rows of A and C, and a panel or the last vectors of one. */
typedef struct product {
  const word *a, *b;
  int64_t a_stride, c_stride;
  float *c;
} product;

static inline __attribute__((always_inline)) void multiply_block(int rows, int row, int vectors, const product *p,
                                                                 int64_t depth, const float *factor)
{
  const word *a = p->a + row * p->a_stride;
  float *c = p->c + row * p->c_stride;
  factor = factor ? factor + row : NULL;
  if (vectors == PANEL) {
    block(rows, PANEL, a, p->a_stride, p->b, depth, c, p->c_stride, factor);
    return;
  }
  for (int j = 0; j < vectors; j++)
    block(rows, 1, a, p->a_stride, p->b + j * SIMD_LANES, depth, c + j * SIMD_LANES, p->c_stride, factor);
}

/* How many rows the next block takes: TILE, 2 or 1. */
static inline int block_rows(int left)
{
  return left >= TILE ? TILE : left >= 2 ? 2 : 1;
}

/* Keys of the step that a block of rows needs: what its last row sees. */
static inline int needed_keys(const hr_flash_step *step, int last_row)
{
  int end = step->end[last_row];
  return end < 0 ? 0 : end < step->keys ? end : step->keys;
}

/* S = Q Kᵀ; what no row of a block sees is not worked out. */
static void multiply_scores(const hr_flash_step *step)
{
  int columns;
  for (int key = 0; key < step->keys; key += columns) {
    int at = step->first_key + key, in_panel = at % PANEL_LANES;
    columns = (int)hr_min64(step->keys - key, PANEL_LANES - in_panel);
    product p = {step->q, (const word *)step->k + at / PANEL_LANES * step->depth * PANEL_LANES + in_panel, step->depth,
                 STEP, step->s + key};
    for (int row = 0, rows; row < step->rows; row += rows) {
      rows = block_rows(step->rows - row);
      int seen_here = (int)hr_min64(needed_keys(step, row + rows - 1) - key, columns);
      int vectors = (int)hr_ceil_div(hr_max64(seen_here, 0), SIMD_LANES);
      if (rows == TILE)
        multiply_block(TILE, row, vectors, &p, step->depth, NULL);
      else if (rows == 2)
        multiply_block(2, row, vectors, &p, step->depth, NULL);
      else
        multiply_block(1, row, vectors, &p, step->depth, NULL);
    }
  }
}

/* o = factor · o + P V */
static void multiply_values(const hr_flash_step *step)
{
  const float *factor = step->fresh ? NULL : step->factor;
  const word *weights = PAIR == 1 ? (const word *)step->s : (const word *)step->p;
  for (int64_t d = 0; d < step->values; d += PANEL_LANES) {
    int vectors = (int)hr_min64(PANEL_LANES, step->values - d) / SIMD_LANES;
    product p = {weights, (const word *)step->v + d * (CHUNK / PAIR) + step->first_key / PAIR * PANEL_LANES,
                 STEP / PAIR, step->values, step->o + d};
    for (int row = 0, rows; row < step->rows; row += rows) {
      rows = block_rows(step->rows - row);
      int64_t depth = hr_ceil_div(needed_keys(step, row + rows - 1), PAIR);
      if (rows == TILE)
        multiply_block(TILE, row, vectors, &p, depth, factor);
      else if (rows == 2)
        multiply_block(2, row, vectors, &p, depth, factor);
      else
        multiply_block(1, row, vectors, &p, depth, factor);
    }
  }
}

static void attend(hr_flash_step *step, hr_flash_step *next)
{
  (void)next;
  multiply_scores(step);
  softmax(step);
  multiply_values(step);
}

const hr_flash_version VERSION = {.lanes = PANEL_LANES,
                                  .key_group = KEY_GROUP,
                                  .value_group = SIMD_LANES,
                                  .pair = PAIR,
                                  .depth_group = 1,
                                  .tile_rows = TILE_ROWS,
                                  .chunk = CHUNK,
                                  .step = STEP,
                                  .score_floats = TILE_ROWS * STEP,
                                  .weights = PAIR == 1 ? 0 : TILE_ROWS * STEP,
                                  .pack_rows = 16,
                                  .pack_q = pack_q,
                                  .pack_k = pack_k,
                                  .pack_v = pack_v,
                                  .attend = attend,
                                  .finish = finish,
                                  .exp2 = powers_of_two};

/* SPDX-License-Identifier: Apache-2.0 */
/* Template: a version whose GEMMs are FMAs of vectors. A version defines before it includes this
 *   VERSION                    its hr_flash_version
 *   PANEL, PAIR, WEIGHT_EXP2   as in rows_body.h
 *   REGISTER_ROWS, DEPTH_STEP  as in micro_body.h; DEPTH_STEP is 1 if not defined
 */
#ifndef DEPTH_STEP
#define DEPTH_STEP 1
#endif
#define CHUNK 128
#define STEP 128
#define TILE_ROWS 48
#define KEY_GROUP SIMD_LANES
#include "runtime/cpu/flash/micro_body.h"
#include "runtime/cpu/flash/rows_body.h"
#include "runtime/cpu/flash/softmax_body.h"

/* Keys of the step that a block of rows needs: those that its last row sees. */
static inline int needed_keys(const hr_flash_step *step, int last_row)
{
  int end = step->end[last_row];
  return end < 0 ? 0 : end < step->keys ? end : step->keys;
}

/* Both GEMMs stay functions of their own: inlined into run_step() by gcc 12, their loops lose 5%. */

/* S = Q Kᵀ, without the keys that no row of a block sees. */
static __attribute__((noinline)) void gemm_scores(const hr_flash_step *step, row_lanes *most)
{
  int columns;
  for (int row = 0; row < step->rows; row++)
    simd_store(most[row], simd_set1(-__builtin_inff()));
  for (int key = 0; key < step->keys; key += columns) {
    int at = step->first_key + key, in_panel = at % PANEL_LANES;
    columns = (int)hr_min64(step->keys - key, PANEL_LANES - in_panel);
    gemm_call p = {step->q, (const word *)step->k + at / PANEL_LANES * step->depth * PANEL_LANES + in_panel,
                   step->depth, STEP, step->s + key};
    for (int row = 0, rows; row < step->rows; row += rows) {
      rows = block_rows(step->rows - row);
      int seen_here = (int)hr_min64(needed_keys(step, row + rows - 1) - key, columns);
      int vectors = (int)hr_ceil_div(hr_max64(seen_here, 0), SIMD_LANES);
      if (rows == REGISTER_ROWS)
        gemm_block(REGISTER_ROWS, row, vectors, &p, step->depth, NULL, most);
      else if (rows == 2)
        gemm_block(2, row, vectors, &p, step->depth, NULL, most);
      else
        gemm_block(1, row, vectors, &p, step->depth, NULL, most);
    }
  }
}

/* o = factor · o + P V */
static __attribute__((noinline)) void gemm_values(const hr_flash_step *step)
{
  const float *factor = step->fresh ? NULL : step->factor;
  const word *weights = PAIR == 1 ? (const word *)step->s : (const word *)step->p;
  for (int64_t d = 0; d < step->values; d += PANEL_LANES) {
    int vectors = (int)hr_min64(PANEL_LANES, step->values - d) / SIMD_LANES;
    gemm_call p = {weights, (const word *)step->v + d * (CHUNK / PAIR) + step->first_key / PAIR * PANEL_LANES,
                   STEP / PAIR, step->values, step->o + d};
    for (int row = 0, rows; row < step->rows; row += rows) {
      rows = block_rows(step->rows - row);
      int64_t depth = hr_round_up(hr_ceil_div(needed_keys(step, row + rows - 1), PAIR), DEPTH_STEP);
      if (rows == REGISTER_ROWS)
        gemm_block(REGISTER_ROWS, row, vectors, &p, depth, factor, NULL);
      else if (rows == 2)
        gemm_block(2, row, vectors, &p, depth, factor, NULL);
      else
        gemm_block(1, row, vectors, &p, depth, factor, NULL);
    }
  }
}

static void run_step(hr_flash_step *step, hr_flash_step *next)
{
  (void)next;
  _Alignas(64) row_lanes most[TILE_ROWS];
  gemm_scores(step, most);
  softmax(step, most);
  gemm_values(step);
}

const hr_flash_version VERSION = {.lanes = PANEL_LANES,
                                  .key_group = KEY_GROUP,
                                  .value_group = SIMD_LANES,
                                  .pair = PAIR,
                                  .depth_group = DEPTH_STEP,
                                  .tile_rows = TILE_ROWS,
                                  .chunk = CHUNK,
                                  .step = STEP,
                                  .score_floats = TILE_ROWS * STEP,
                                  .weights = PAIR == 1 ? 0 : TILE_ROWS * STEP,
                                  .pack_rows = 16,
                                  .pack_q = pack_q,
                                  .pack_k = pack_k,
                                  .pack_v = pack_v,
                                  .run_step = run_step,
                                  .finish = finish,
                                  .exp2 = exp2_array};

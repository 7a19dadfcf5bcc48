/* SPDX-License-Identifier: Apache-2.0 */
/* Template: 2^x, scores with soft cap and ALiBi, and finishing rows of O. A version defines before it includes this
 *   CHUNK, STEP     keys of a chunk and of a step
 *   WEIGHT_EXP2     2^x for the softmax weights: simd_exp2_weight() or simd_exp2_weight_for_bf16()
 * and what vectors_body.h asks for. */
#include "runtime/cpu/flash/vectors_body.h"

static void exp2_array(float *x, int count)
{
  const simd_exponent itself = {simd_set1(1), simd_set1(0), simd_set1(-127)};
  for (int i = 0; i < count; i += SIMD_LANES) {
    float lanes[SIMD_LANES] = {0};
    size_t bytes = sizeof(float) * (size_t)(count - i < SIMD_LANES ? count - i : SIMD_LANES);
    memcpy(lanes, x + i, bytes);
    simd_store(lanes, WEIGHT_EXP2(&itself, simd_load(lanes)));
    memcpy(x + i, lanes, bytes);
  }
}

static void adjust_scores(const hr_flash_step *step, int row, float *s, int from, int to)
{
  for (int j = from; j < to; j += SIMD_LANES) {
    simd_f32 slope, x = simd_load(s + j - from), distance = key_distances(j, step->position[row]);
    simd_store(s + j - from, final_scores(step->scores, x, distance, step->slopes[row], &slope));
  }
}

static float finish(const float *o, const float *total, int64_t dim, hr_dtype dtype, void *to)
{
  float sum = simd_reduce_add(simd_load(total));
  store_row(o, simd_set1(1 / sum), dim, dtype, to);
  return sum;
}

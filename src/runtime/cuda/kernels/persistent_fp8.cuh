/* SPDX-License-Identifier: Apache-2.0 */
/* persistent_linear.cuh's products with fp8, which becomes 16 bits in registers, exactly. */

#define FP8_CHUNK (2 * CHUNK)
#define FP8_STEP (2 * STEP) /* of a warp, all in one block of columns */
#define SCALED_LOG2 7       /* columns of a block */

/* The thread's 16 columns of a slot's row, and the same of x as the second operand. */
struct fp8_chunk {
  uint4 w, x;

  __device__ fp8_chunk(const char *slot, const element *row_of_x, int pitch, int column, int columns)
  {
    const int row = lane_of() / 4, at = column + lane_of() % 4 * FP8_CHUNK;
    w = x = make_uint4(0, 0, 0, 0);
    if (at < columns)
      w = *(const uint4 *)(const void *)(slot + row * PITCH + at);
    if (at < columns && row / 2 < TOKENS)
      x = *(const uint4 *)(const void *)(row_of_x + row / 2 * pitch + at + row % 2 * CHUNK);
  }

  __device__ void multiply(tile_sums &sums) const
  {
    const unsigned first[4] = {pair_of(w.x), pair_of(w.z), pair_of(w.x >> 16), pair_of(w.z >> 16)},
                   second[4] = {pair_of(w.y), pair_of(w.w), pair_of(w.y >> 16), pair_of(w.w >> 16)};
    mma_sync(sums.of[0], first, x.x, x.y);
    mma_sync(sums.of[1], second, x.z, x.w);
  }
};

/* Multiplies the warp's part of a slot. `scales`: of the thread's row, for each 128 columns of the slot. */
template <int FORMAT>
__device__ inline void multiply_fp8(tile_sums &sums, float &scaled, const char *slot, const float *scales,
                                    const element *x, int pitch, int columns)
{
#pragma unroll 4
  for (int column = warp_of() * FP8_STEP; column < columns; column += WARPS * FP8_STEP) {
    const fp8_chunk chunk(slot, x, pitch, column, columns);
    if (FORMAT == HR_PERSISTENT_FP8_ROWS) {
      chunk.multiply(sums);
      continue;
    }
    tile_sums part;
    chunk.multiply(part);
    scaled = fmaf(scales[column >> SCALED_LOG2], part.of_token(), scaled);
  }
}

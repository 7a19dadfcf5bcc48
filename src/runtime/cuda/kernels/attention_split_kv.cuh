/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of scores in memory, and split-KV: the K/V tiles of a Q tile are divided among several thread blocks, each of
 * which writes an O that is not normalized, and combine_row() makes a row of O of these partial results. The program
 * defines THREADS, ROWS (of a Q tile) and HR_V. */

typedef hr_score_block score_block;

/* Index of a row in partial_o and partial_stats. */
__device__ inline int64 partial_row(const score_block &block, int split, int head, int q_tile, int row)
{
  return (((int64)split * block.heads + head) * block.q_tiles + q_tile) * ROWS + row;
}

/* The work of a thread block. */
struct split_work {
  int head, q_tile, split; /* within the block of scores */
  int first_row, rows;     /* rows: from first_row to the end of the block of scores */
  const float *scores;     /* of first_row, key 0 */
};

/* The last heads and rows come first: they were written last, so that some of them are still in the L2; and the last
 * rows of a causal call take longest. */
__device__ inline split_work find_split_work(const score_block &block)
{
  split_work work;
  int item = blockIdx.x / block.splits;
  work.split = blockIdx.x % block.splits;
  work.q_tile = block.q_tiles - 1 - item % block.q_tiles;
  work.head = block.heads - 1 - item / block.q_tiles;
  work.first_row = block.first_row + work.q_tile * ROWS;
  work.rows = block.rows - work.q_tile * ROWS;
  work.scores = block.scores + ((int64)work.head * block.rows + work.q_tile * ROWS) * (int64)block.pitch;
  return work;
}

/* Starts the cp.async copies of a tile of scores to rows of TILE_PITCH floats in shared memory; what is outside of the
 * block becomes 0. */
template <int TILE_PITCH>
__device__ inline void load_score_tile(void *tile, const split_work &work, int pitch, int first_key)
{
  constexpr int CHUNKS = HR_KV_TILE / 4, ROWS_AT_ONCE = THREADS / CHUNKS;
  int row = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * 4;
  const float *from = work.scores + (int64)row * pitch + first_key + column;
  unsigned to = shared_address(tile) + (row * TILE_PITCH + column) * (int)sizeof(float);
  int rows = first_key + column < pitch ? work.rows - row : 0;
#pragma unroll
  for (int i = 0; i < ROWS; i += ROWS_AT_ONCE, from += ROWS_AT_ONCE * pitch)
    cp_async_16(to + i * TILE_PITCH * (int)sizeof(float), from, i < rows);
}

/* Split-KV combine: each warp makes one row of O. `factor` converts the row maximum of partial_stats to a power of two,
 * 2^top is the weight of a maximum. */
__device__ inline void combine_row(const attention_call &call, const score_block &block, float factor, float top)
{
  constexpr int COLUMNS = (HR_V + 31) / 32;
  int64 item = (int64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  int head = (int)(item / block.rows), local = (int)(item % block.rows), row = block.first_row + local;
  int lane = threadIdx.x % 32, entry = block.first_head + head;
  if (head >= block.heads)
    return;
  head_view view = view_head(call, entry / call.q_heads, entry % call.q_heads);
  float base = minus_infinity(), sum = 0, out[COLUMNS] = {};
#pragma unroll 4
  for (int split = 0; split < block.splits; split++) {
    int64 place = partial_row(block, split, head, local / ROWS, local % ROWS);
    float2 stats = block.partial_stats[place];
    float partial[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
      partial[c] = HR_V % 32 == 0 || c * 32 + lane < HR_V ? block.partial_o[place * HR_V + c * 32 + lane] : 0;
    if (stats.y == 0)
      continue;
    float larger = fmaxf(base, stats.x);
    float before = exp2_approx((base - larger) * factor), added = exp2_approx((stats.x - larger) * factor);
    base = larger;
    sum = sum * before + stats.y * added;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
      out[c] = out[c] * before + partial[c] * added;
  }
  key_range keys = keys_of_row(call, view, row);
  float inverse = keys.first >= keys.end ? 0.0f : 1.0f / sum; /* 0 · 1 / 0 is NaN */
#pragma unroll
  for (int c = 0; c < COLUMNS; c++)
    if (c * 32 + lane < call.v_dim)
      view.o[row * call.o_at.row + c * 32 + lane] = from_float(out[c] * inverse);
  if (view.lse && lane == 0)
    view.lse[row * call.lse_at.row] = base * (factor * LN_2) + (log2f(sum) - top) * LN_2;
}

/* Blocks of scores in memory, and keys of a row that are dealt out to several blocks of threads: these leave sums of O that
 * are not divided yet, and combine_row() makes a row of O of them. THREADS, ROWS (of a row tile) and HR_V are the program's. */

/* Scores of some rows of some heads, and where parts leave their sums. As hr_score_block. */
struct score_block {
  const float *scores; /* [head][row][pitch] */
  float *sums;         /* [part][head][row tile][row of it][HR_V] */
  float2 *states;      /* [part][head][row tile][row of it]: what sums are relative to, sum of weights; 0: no keys */
  int pitch;
  int first_head, heads;
  int first_row, rows, row_tiles;
  int parts, part_tiles; /* tiles of keys a part */
};

/* Row of the sums of all parts that a row of the block is. */
__device__ inline int64 place_of(const score_block &block, int part, int head, int row_tile, int row)
{
  return (((int64)part * block.heads + head) * block.row_tiles + row_tile) * ROWS + row;
}

/* What a block of threads works on. */
struct score_work {
  int head, row_tile, part; /* within the score block */
  int first_row, rows;      /* rows: that are left of the score block */
  const float *scores;      /* of first_row, key 0 */
};

/* The last heads and rows first: they were written last, and a part of them is still in the L2; and of a causal call the
 * last rows take longest. */
__device__ inline score_work find_work(const score_block &block)
{
  score_work work;
  int item = blockIdx.x / block.parts;
  work.part = blockIdx.x % block.parts;
  work.row_tile = block.row_tiles - 1 - item % block.row_tiles;
  work.head = block.heads - 1 - item / block.row_tiles;
  work.first_row = block.first_row + work.row_tile * ROWS;
  work.rows = block.rows - work.row_tile * ROWS;
  work.scores = block.scores + ((int64)work.head * block.rows + work.row_tile * ROWS) * (int64)block.pitch;
  return work;
}

/* A tile of scores, in shared memory with rows of TILE_PITCH words; what lies behind the last row or the end of a row
 * becomes 0. */
template <int TILE_PITCH> __device__ inline void copy_scores(void *tile, const score_work &work, int pitch, int first_key)
{
  constexpr int CHUNKS = HR_COLUMNS / 4, ROWS_AT_ONCE = THREADS / CHUNKS;
  int row = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * 4;
  const float *from = work.scores + (int64)row * pitch + first_key + column;
  unsigned to = shared_address(tile) + (row * TILE_PITCH + column) * (int)sizeof(float);
  int rows = first_key + column < pitch ? work.rows - row : 0;
#pragma unroll
  for (int i = 0; i < ROWS; i += ROWS_AT_ONCE, from += ROWS_AT_ONCE * pitch)
    copy_async(to + i * TILE_PITCH * (int)sizeof(float), from, i < rows);
}

/* A row of O for each warp. `factor`: of what sums are relative to, in powers of two. */
__device__ inline void combine_row(const attention_call &call, const score_block &block, float factor)
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
  for (int part = 0; part < block.parts; part++) {
    int64 place = place_of(block, part, head, local / ROWS, local % ROWS);
    float2 state = block.states[place];
    float sums[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
      sums[c] = HR_V % 32 == 0 || c * 32 + lane < HR_V ? block.sums[place * HR_V + c * 32 + lane] : 0;
    if (state.y == 0)
      continue;
    float larger = fmaxf(base, state.x);
    float before = power_of_two((base - larger) * factor), added = power_of_two((state.x - larger) * factor);
    base = larger;
    sum = sum * before + state.y * added;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
      out[c] = out[c] * before + sums[c] * added;
  }
  key_range keys = keys_of_row(call, view, row);
  float inverse = keys.first >= keys.end ? 0.0f : 1.0f / sum; /* 0 · 1 / 0 is NaN */
#pragma unroll
  for (int c = 0; c < COLUMNS; c++)
    if (c * 32 + lane < call.v_dim)
      view.o[row * call.o_at.row + c * 32 + lane] = from_float(out[c] * inverse);
  if (view.lse && lane == 0)
    view.lse[row * call.lse_at.row] = (base * factor + log2f(sum)) * LN_2;
}

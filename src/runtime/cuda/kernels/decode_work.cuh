/* SPDX-License-Identifier: Apache-2.0 */
/* What a block of decode_split.cu works on: query heads of a sequence and a split of its keys. */

struct block_work {
  int sequence, head_block, split, group;
  int length;           /* of the sequence */
  int64 first_place;    /* of its page numbers in the table */
  int first_key;        /* that any of its queries sees */
  int chunk, chunk_end; /* of this warp: the next one, and the end of the split */
};

/* Grid: blocks of query heads, splits, sequences; in clusters splits, blocks of query heads, sequences. */
__device__ inline block_work find_work(const decode_call &call)
{
  block_work w;
#if HR_CLUSTER > 1
  const int splits = HR_CLUSTER, head_blocks = gridDim.y;
  w.split = blockIdx.x, w.head_block = blockIdx.y;
#else
  const int splits = call.splits, head_blocks = gridDim.x;
  w.head_block = blockIdx.x, w.split = blockIdx.y;
#endif
  w.sequence = blockIdx.z;
  w.group = w.sequence * head_blocks + w.head_block;
  w.length = call.lengths ? call.lengths[w.sequence] : call.kv_len;
  w.first_place = call.page_starts ? call.page_starts[w.sequence] : (int64)w.sequence * call.table_pitch;
  w.first_key = call.window > 0 ? max(0, w.length - HR_Q_LEN + 1 - call.window) : 0;
  int first_chunk = w.first_key / KEYS, chunks = max(0, (w.length + KEYS - 1) / KEYS - first_chunk);
  int per_split = splits == 1 ? chunks : (chunks + splits - 1) / splits;
  w.chunk = first_chunk + w.split * per_split + threadIdx.x / 32;
  w.chunk_end = first_chunk + min(chunks, (w.split + 1) * per_split);
  return w;
}

/* A row of the Q tile is query row % HR_Q_LEN of head row / HR_Q_LEN of the group. */
__device__ inline int row_head(const block_work &w, int row)
{
  return w.head_block * HR_HEADS + row / HR_Q_LEN;
}

/* Keys first … end − 1 that a row sees. */
struct key_range {
  int first, end;
};

__device__ inline key_range keys_of_row(const decode_call &call, const block_work &w, int row)
{
  key_range keys;
  keys.end = row < USED_ROWS ? max(0, w.length - HR_Q_LEN + row % HR_Q_LEN + 1) : 0;
  keys.first = call.window > 0 ? max(0, keys.end - call.window) : 0;
  return keys;
}

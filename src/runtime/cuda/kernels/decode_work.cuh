/* SPDX-License-Identifier: Apache-2.0 */
/* What a block of decode_split.cu works on: query heads of a sequence and a part of its keys. */

struct block_work {
  int sequence, group;
  int first_head, rows;    /* of the group */
  int length;              /* of the sequence */
  int64 first_place;       /* of its page numbers in the table */
  int first_chunk, chunks; /* with keys that its queries see */
  int split, splits;       /* this part of the group's keys; how many there are */
  int chunk, chunk_end;    /* of this warp: the next one, and the end of the part */
#ifdef HR_SHARES
  int share;       /* steps of a block */
  int begin, end;  /* in the list: where the block's share begins, and where this part ends */
  int sequence_at; /* where the sequence begins */
#endif
};

__device__ inline int length_of(const decode_call &call, int sequence)
{
  return call.lengths ? call.lengths[sequence] : call.kv_len;
}

/* The first key that any of a sequence's queries sees. */
__device__ inline int first_key_of(const decode_call &call, int length)
{
  return call.window > 0 ? max(0, length - HR_Q_LEN + 1 - call.window) : 0;
}

__device__ inline int chunks_of(const decode_call &call, int length)
{
  return max(0, (length + KEYS - 1) / KEYS - first_key_of(call, length) / KEYS);
}

__device__ inline void set_sequence(const decode_call &call, block_work &w, int sequence)
{
  w.sequence = sequence;
  w.length = length_of(call, sequence);
  w.first_place = call.page_starts ? call.page_starts[sequence] : (int64)sequence * call.table_pitch;
  w.first_chunk = first_key_of(call, w.length) / KEYS;
  w.chunks = chunks_of(call, w.length);
}

__device__ inline void set_heads(block_work &w, int head_block, int head_blocks)
{
  int in_unit = head_block % HR_PARTS * HR_HEADS;
  w.group = w.sequence * head_blocks + head_block;
  w.first_head = head_block / HR_PARTS * HR_UNIT_HEADS + in_unit;
  w.rows = min(HR_HEADS, HR_UNIT_HEADS - in_unit) * HR_Q_LEN;
}

/* Chunks `from` to `end` − 1 of the sequence's. */
__device__ inline void set_chunks(block_work &w, int from, int end)
{
  w.chunk = w.first_chunk + from + threadIdx.x / 32;
  w.chunk_end = w.first_chunk + min(w.chunks, end);
}

#ifdef HR_SHARES
#include "runtime/cuda/kernels/decode_shares.cuh"
#else

/* Grid: blocks of query heads, splits, sequences; in clusters splits, blocks of query heads, sequences. */
__device__ inline block_work find_work(const decode_call &call)
{
  block_work w;
  set_sequence(call, w, blockIdx.z);
#if HR_CLUSTER > 1
  set_heads(w, blockIdx.y, gridDim.y);
  w.split = blockIdx.x, w.splits = HR_CLUSTER;
#else
  set_heads(w, blockIdx.x, gridDim.x);
  w.split = blockIdx.y, w.splits = call.splits;
#endif
  int per_split = w.splits == 1 ? w.chunks : (w.chunks + w.splits - 1) / w.splits;
  set_chunks(w, w.split * per_split, (w.split + 1) * per_split);
  return w;
}

__device__ inline bool is_work(const block_work &)
{
  return true;
}

/* Whether the block has more to do; `w` is then that. */
__device__ inline bool next_work(const decode_call &, block_work &)
{
  return false;
}

__device__ inline bool is_last_work(const block_work &)
{
  return true;
}

/* Where a split of the group is in the workspace. */
__device__ inline int64 place_of_split(const block_work &w, int split)
{
  return (int64)w.group * w.splits + split;
}

#endif

/* A row of the group is query row % HR_Q_LEN of head row / HR_Q_LEN. */
__device__ inline int row_head(const block_work &w, int row)
{
  return w.first_head + row / HR_Q_LEN;
}

/* Keys first … end − 1 that a row sees. */
struct key_range {
  int first, end;
};

__device__ inline key_range keys_of_row(const decode_call &call, const block_work &w, int row)
{
  key_range keys;
  keys.end = row < w.rows ? max(0, w.length - HR_Q_LEN + row % HR_Q_LEN + 1) : 0;
  keys.first = call.window > 0 ? max(0, keys.end - call.window) : 0;
  return keys;
}

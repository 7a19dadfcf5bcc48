/* SPDX-License-Identifier: Apache-2.0 */
/* V of fp8 for attention_flash_sm90.cu: transposed, rows of keys in the order of hr_transposed_v (attention_layout.h).
 *
 *   block: 128 keys of a head of V      shared memory: rows of keys, an odd number of words
 *   warp: a word of 4 columns, lane: 4 keys, whose 4 × 4 bytes it transposes by prmt and stores as 4 words of 4 rows
 *
 * Bound: memory. It reads V once and writes it once; HR_V is v_dim, a multiple of 16. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm90.cuh"
#include "runtime/cuda/kernels/attention.cuh"

#define KEYS HR_TRANSPOSED_KEYS
#define THREADS HR_TRANSPOSED_THREADS
#define WORDS (HR_V / 4) /* of a row of V */

typedef hr_transposed_v transposed_v;

typedef unsigned tile_row[WORDS + 1];

/* The keys of a sequence, and its first column in a row of the result. */
struct sequence_keys {
  int first, count; /* rows of the batch entry */
  int64 column;
};

__device__ inline sequence_keys find_keys(const attention_call &call, int sequence)
{
  sequence_keys keys = {0, call.kv_len, 0};
  if (call.kv_offsets) {
    keys.first = call.kv_offsets[sequence];
    keys.count = call.kv_offsets[sequence + 1] - keys.first;
    keys.column = hr_transposed_tile(keys.first, sequence) * KEYS;
  }
  return keys;
}

/* Rows of keys that the sequence does not have become 0. */
__device__ inline void load_rows(tile_row *tile, const attention_call &call, const element *v, int count)
{
  for (int i = threadIdx.x; i < KEYS * (WORDS / 4); i += THREADS) {
    int key = i / (WORDS / 4), chunk = i % (WORDS / 4);
    uint4 four = make_uint4(0, 0, 0, 0);
    if (key < count)
      four = *(const uint4 *)(v + key * call.v_at.row + chunk * 16);
    unsigned *to = &tile[key][chunk * 4];
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  }
}

/* Column i of `rows` becomes word i. */
__device__ inline void transpose(const unsigned (&rows)[4], unsigned (&columns)[4])
{
  unsigned low01 = __byte_perm(rows[0], rows[1], 0x5140), high01 = __byte_perm(rows[0], rows[1], 0x7362);
  unsigned low23 = __byte_perm(rows[2], rows[3], 0x5140), high23 = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(low01, low23, 0x5410);
  columns[1] = __byte_perm(low01, low23, 0x7632);
  columns[2] = __byte_perm(high01, high23, 0x5410);
  columns[3] = __byte_perm(high01, high23, 0x7632);
}

/* Columns 4 · lane … + 3 of the tile. */
__device__ inline void store_columns(const tile_row *tile, const transposed_v &result, element *to, int lane)
{
  int first = lane / 4 * 16 + lane % 4 * 2;
  for (int word = threadIdx.x / 32; word < WORDS; word += THREADS / 32) {
    const unsigned rows[4] = {tile[first][word], tile[first + 1][word], tile[first + 8][word], tile[first + 9][word]};
    unsigned columns[4];
    transpose(rows, columns);
#pragma unroll
    for (int i = 0; i < 4; i++)
      *(unsigned *)(to + (word * 4 + i) * result.row + lane * 4) = columns[i];
  }
}

extern "C" __global__ __launch_bounds__(THREADS) void transpose_v(const attention_call call, const transposed_v result)
{
  __shared__ tile_row tile[KEYS];
  int first_key = blockIdx.x % result.tiles * KEYS, pair = blockIdx.x / result.tiles;
  int head = pair % result.v_heads, sequence = pair / result.v_heads;
  allow_next_kernel();
  wait_for_kernel_before();
  sequence_keys keys = find_keys(call, sequence);
  if (first_key >= keys.count + (call.kv_offsets ? KEYS : 0))
    return; /* a sequence shorter than the longest */
  int64 entry = call.kv_offsets ? 0 : sequence;
  load_rows(tile, call,
            call.v + entry * call.v_at.batch + head * call.v_at.head + (keys.first + first_key) * call.v_at.row,
            keys.count - first_key);
  __syncthreads();
  store_columns(tile, result, result.to + entry * result.entry + head * result.head + keys.column + first_key,
                threadIdx.x % 32);
}

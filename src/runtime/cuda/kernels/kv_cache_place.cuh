/* SPDX-License-Identifier: Apache-2.0 */
/* Where a new token belongs in a KV cache. */
#include "runtime/cuda/kernels/kv_cache_layout.h"

typedef long long int64;

/* The last sequence that begins at or before a row, so that sequences without rows are skipped. */
__device__ inline int sequence_of(const int *starts, int sequences, int row)
{
  if (row < sequences && starts[row] == row && starts[row + 1] > row)
    return row; /* one token each, a decode step */
  int low = 0, high = sequences;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (starts[middle] <= row)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* Tokens of the cache before that of `row`; *position is the token's within its sequence. */
__device__ inline int64 place_of(const hr_kv_append_call &call, int row, int *position)
{
  const int *starts = call.list, *positions = starts + call.sequences + 1, *places = positions + call.sequences;
  int s = sequence_of(starts, call.sequences, row), first = positions[s];
  *position = first + row - starts[s];
  int page = call.list[places[s] + *position / call.page_size - first / call.page_size];
  return (int64)page * call.page_size + *position % call.page_size;
}

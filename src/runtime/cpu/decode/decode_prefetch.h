/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of K and V that are prefetched into L2 while others are computed. */
#ifndef HR_RUNTIME_CPU_DECODE_PREFETCH_H
#define HR_RUNTIME_CPU_DECODE_PREFETCH_H

#include "base/checked.h"
#include "runtime/cpu/decode/version.h"
#include "runtime/cpu/simd/simd.h"

/* Rows that are prefetched into L2 bit by bit. */
typedef struct prefetcher {
  const hr_split_rows *rows;
  const char *at, *end; /* of the row that is being prefetched */
  int key;              /* the one behind it */
  int64_t lines;        /* for each key that is computed meanwhile */
} prefetcher;

HR_INLINE void prefetch_next_row(prefetcher *p)
{
  p->at = p->rows->at[p->key] + p->rows->offset;
  p->end = p->at + p->rows->bytes;
  p->key++;
}

HR_INLINE prefetcher prefetch_during(const hr_split_rows *rows, int64_t keys)
{
  prefetcher p = {.rows = rows, .lines = hr_ceil_div(rows->keys * hr_ceil_div(rows->bytes, 64), keys)};
  if (rows->keys > 0)
    prefetch_next_row(&p);
  return p;
}

/* Spreads what is left over so many keys. */
HR_INLINE void prefetch_rest(prefetcher *p, int64_t keys)
{
  int64_t rows = p->rows->keys - p->key;
  p->lines = hr_ceil_div(rows * hr_ceil_div(p->rows->bytes, 64) + hr_ceil_div(p->end - p->at, 64), keys);
}

HR_INLINE void prefetch(prefetcher *p, int64_t keys)
{
  for (int64_t lines = keys * p->lines; lines > 0; lines--) {
    __builtin_prefetch(p->at, 0, 2);
    p->at += 64;
    if (p->at < p->end)
      continue;
    if (p->key == p->rows->keys) {
      p->lines = 0;
      return;
    }
    prefetch_next_row(p);
  }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_BASE_HASH_H
#define HR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/** Returns a number that different sizes rarely share: a product with 2^64 over the golden ratio (Knuth, The Art of
 *  Computer Programming 3, section 6.4). */
static inline uint64_t hr_hash_sizes(const int64_t *sizes, size_t count)
{
  uint64_t hash = 0;
  for (size_t i = 0; i < count; i++)
    hash = (hash ^ (uint64_t)sizes[i]) * UINT64_C(0x9E3779B97F4A7C15), hash ^= hash >> 32;
  return hash;
}

#endif

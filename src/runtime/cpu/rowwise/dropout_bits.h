/* SPDX-License-Identifier: Apache-2.0 */
/* Random bits of dropout by Philox4x32-7, as include/headroom/rowwise.h defines them. The loops have no dependencies
 * between their turns, so that the compiler makes vectors of them. */
#ifndef HR_RUNTIME_CPU_ROWWISE_DROPOUT_BITS_H
#define HR_RUNTIME_CPU_ROWWISE_DROPOUT_BITS_H

#include <stdint.h>

#define HR_DROPOUT_BLOCK 512 /* elements whose bits are computed together */
#define HR_DROPOUT_COUNTERS (HR_DROPOUT_BLOCK / 8)

/** The bits of the elements from `first`, a multiple of HR_DROPOUT_BLOCK. */
static inline void hr_dropout_bits(uint64_t seed, int64_t first, uint16_t bits[HR_DROPOUT_BLOCK])
{
  uint32_t a[HR_DROPOUT_COUNTERS], b[HR_DROPOUT_COUNTERS], c[HR_DROPOUT_COUNTERS], d[HR_DROPOUT_COUNTERS];
  uint32_t key = (uint32_t)seed, other_key = (uint32_t)(seed >> 32);
  const uint64_t counter = (uint64_t)first / 8; /* a multiple of the counters: its high half is that of all */
  for (int i = 0; i < HR_DROPOUT_COUNTERS; i++) {
    a[i] = (uint32_t)counter + (uint32_t)i;
    b[i] = (uint32_t)(counter >> 32);
    c[i] = d[i] = 0;
  }
  for (int round = 0; round < 7; round++) {
    for (int i = 0; i < HR_DROPOUT_COUNTERS; i++) {
      const uint64_t p = (uint64_t)0xD2511F53 * a[i], q = (uint64_t)0xCD9E8D57 * c[i];
      a[i] = (uint32_t)(q >> 32) ^ b[i] ^ key;
      b[i] = (uint32_t)q;
      c[i] = (uint32_t)(p >> 32) ^ d[i] ^ other_key;
      d[i] = (uint32_t)p;
    }
    key += 0x9E3779B9;
    other_key += 0xBB67AE85;
  }
  for (int i = 0; i < HR_DROPOUT_COUNTERS; i++) {
    const uint32_t words[] = {a[i], b[i], c[i], d[i]};
    for (int j = 0; j < 8; j++)
      bits[8 * i + j] = (uint16_t)(words[j / 2] >> (j % 2 * 16));
  }
}

#endif

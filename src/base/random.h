/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, the same on every machine: SplitMix64. Source: Steele, Lea and Flood, "Fast splittable pseudorandom
 * number generators", OOPSLA 2014. */
#ifndef HR_BASE_RANDOM_H
#define HR_BASE_RANDOM_H

#include <stdint.h>

#define HR_RANDOM_STEP UINT64_C(0x9E3779B97F4A7C15)

/** Mixes the bits of a number: neighbours have nothing in common. */
static inline uint64_t hr_mix_bits(uint64_t z)
{
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/** The next number of the sequence that a seed in *state began. */
static inline uint64_t hr_next_random(uint64_t *state)
{
  return hr_mix_bits(*state += HR_RANDOM_STEP);
}

/** The same, from 0 to below 1. */
static inline double hr_next_share(uint64_t *state)
{
  return (double)(hr_next_random(state) >> 11) * 0x1p-53;
}

#endif

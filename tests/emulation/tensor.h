/* SPDX-License-Identifier: Apache-2.0 */
/* TMA, as the driver and the scheduler see it. */
#pragma once
#include "machine.h"

#include <cstdint>

namespace emulation {

struct block;

constexpr uint64_t TENSOR_MAGIC = 0x50414D524F534E54u;

/* Contents of the emulated driver's tensor maps: sizes in elements, strides in bytes, the innermost dimension first. */
struct tensor_description {
  uint64_t magic;
  byte *base;
  uint64_t dims[4], strides[3];
  uint32_t box[4];
  uint32_t rank, element, swizzle; /* `swizzle`: as swizzled() has it */
};

/** Fills the 128 bytes of a map; returns NULL, or the reason why the real driver would refuse. */
const char *describe_tensor(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                            const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                            int swizzle);

/** Applies a swizzle to an address: the index of its 16 bytes is XORed with that of its 128 bytes, of both the bits of
 *  `mask`, 7 for the 128-byte swizzle. */
unsigned swizzled(unsigned address, unsigned mask = 7);

bool tma_pending();
bool tma_pending_for(const block &b);
void tma_progress(unsigned percent); /* completes about `percent` of the pending operations */
void tma_discard();

} // namespace emulation

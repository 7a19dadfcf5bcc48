/* The copy engine, as the driver and the scheduler see it. */
#pragma once
#include "machine.h"

#include <cstdint>

namespace emulation {

struct block;

constexpr uint64_t TENSOR_MAGIC = 0x50414D524F534E54u;

/* What the emulated driver keeps in a tensor map: sizes in elements, strides in bytes, the innermost dimension
 * first. */
struct tensor_description {
  uint64_t magic;
  byte *base;
  uint64_t dims[4], strides[3];
  uint32_t box[4];
  uint32_t rank, element;
};

/** Fills the 128 bytes of a map; NULL, or what the real driver would refuse. */
const char *describe_tensor(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                            const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                            int swizzle);

/** Where the 16 bytes at an address lie in rows of 128 bytes that are swizzled. */
unsigned swizzled(unsigned address);

bool engine_works();
bool engine_works_for(const block &b);
void engine_go_on(unsigned percent); /* of what is on its way */
void engine_forget();

} // namespace emulation

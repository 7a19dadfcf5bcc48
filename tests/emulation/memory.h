/* The emulated GPU's memory: buffers of the host, each between pages that nobody may touch. */
#pragma once
#include <cstddef>
#include <string>

namespace emulation {

constexpr size_t MEMORY_BYTES = (size_t)8 << 30; /* of the device */

/** NULL where there is no room. Filled with bytes of 0xFF; every second one lies against the page behind it. */
void *memory_allocate(size_t bytes);
bool memory_free(void *data); /* false: it is no buffer */
size_t memory_used();

/** Whether an address is one that buffers may have. */
bool memory_is_near(const void *data);

/** Whether all of it lies in one buffer. */
bool memory_holds(const void *data, size_t bytes);

/** "20 bytes behind a buffer of 4096 bytes" */
std::string memory_words(const void *address);

/** The name of a buffer whose surroundings were written, "" for none. */
std::string memory_damage();

} // namespace emulation

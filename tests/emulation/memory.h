/* SPDX-License-Identifier: Apache-2.0 */
/* Global memory of the emulated GPU: host buffers, each between guard pages. */
#pragma once
#include <cstddef>
#include <string>

namespace emulation {

constexpr size_t MEMORY_BYTES = (size_t)8 << 30; /* of the device */

/** NULL where there is no room. Filled with bytes of 0xFF; every second buffer ends at its guard page. */
void *memory_allocate(size_t bytes);
bool memory_free(void *data); /* false: not a buffer */
size_t memory_used();

/** Whether an address is in the range that buffers are allocated from. */
bool memory_is_near(const void *data);

/** Whether all of it is inside one buffer. */
bool memory_holds(const void *data, size_t bytes);

/** "20 bytes behind a buffer of 4096 bytes" */
std::string memory_words(const void *address);

/** The name of a buffer around which bytes were overwritten, "" for none. */
std::string memory_damage();

} // namespace emulation

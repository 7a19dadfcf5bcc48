/* SPDX-License-Identifier: Apache-2.0 */
/* Header of an image: nvrtc.cpp writes it in front of a shared library, and driver.cpp reads it. */
#pragma once
#include <cstdint>

namespace emulation {

constexpr uint64_t IMAGE_MAGIC = 0x4E4F4954414C554Du;

struct image_header {
  uint64_t magic, bytes;
};

} // namespace emulation

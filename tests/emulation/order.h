/* SPDX-License-Identifier: Apache-2.0 */
/* Work of the emulated libraries on streams. */
#pragma once
#include <functional>

struct cu_stream_st;

namespace emulation {

/** Does the work, or records it for a graph while the stream is captured. Returns the driver's code of an error. */
int order(cu_stream_st *stream, std::function<int()> work);

} // namespace emulation

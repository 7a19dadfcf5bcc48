/* SPDX-License-Identifier: Apache-2.0 */
/* Translates preprocessed CUDA C++ to C++ for a host compiler, over device.h. */
#pragma once
#include <string>

namespace emulation {

/** Rewrites inline PTX, __shared__ variables and kernels; all other text keeps its line numbers. Throws
 *  std::runtime_error with the text that it does not understand. */
std::string translate(const std::string &program);

} // namespace emulation

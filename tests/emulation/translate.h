/* From preprocessed CUDA C++ to C++ that a host compiler takes, over device.h. */
#pragma once
#include <string>

namespace emulation {

/** Rewrites inline PTX, __shared__ variables and kernels; everything else stays as it is, with its line numbers. Throws
 *  std::runtime_error with what it does not understand. */
std::string translate(const std::string &program);

} // namespace emulation

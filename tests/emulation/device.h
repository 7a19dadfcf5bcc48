/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's built-ins for programs that g++ or clang++ compiles: the declarations that NVRTC has built in. Included before
 * a program's first line; it includes little itself, so that compilation stays fast. */
#pragma once
#include "machine.h"
#include "ptx.h"

#include <utility>

using std::size_t;

/* ---- vectors ---- */

#define VECTORS(T, NAME, ALIGNED2, ALIGNED4)        \
  struct alignas(ALIGNED2) NAME##2                  \
  {                                                 \
    T x, y;                                         \
  };                                                \
  struct alignas(ALIGNED4) NAME##4                  \
  {                                                 \
    T x, y, z, w;                                   \
  };                                                \
  inline NAME##2 make_##NAME##2(T x, T y)           \
  {                                                 \
    return {x, y};                                  \
  }                                                 \
  inline NAME##4 make_##NAME##4(T x, T y, T z, T w) \
  {                                                 \
    return {x, y, z, w};                            \
  }
VECTORS(int, int, 8, 16)
VECTORS(unsigned, uint, 8, 16)
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)
VECTORS(long long, longlong, 16, 16)
VECTORS(unsigned short, ushort, 4, 8)
VECTORS(unsigned char, uchar, 2, 4)
#undef VECTORS

/* ---- arithmetic ---- */

#define MIN_MAX(T)        \
  inline T min(T a, T b)  \
  {                       \
    return b < a ? b : a; \
  }                       \
  inline T max(T a, T b)  \
  {                       \
    return a < b ? b : a; \
  }
MIN_MAX(int)
MIN_MAX(unsigned)
MIN_MAX(long long)
MIN_MAX(unsigned long long)
#undef MIN_MAX
inline float min(float a, float b)
{
  return __builtin_fminf(a, b);
}
inline float max(float a, float b)
{
  return __builtin_fmaxf(a, b);
}

#define SAME_1(NAME, T)         \
  inline T NAME(T a)            \
  {                             \
    return __builtin_##NAME(a); \
  }
#define SAME_2(NAME, T)            \
  inline T NAME(T a, T b)          \
  {                                \
    return __builtin_##NAME(a, b); \
  }
SAME_1(fabsf, float)
SAME_1(exp2f, float)
SAME_1(expf, float)
SAME_1(log2f, float)
SAME_1(logf, float)
SAME_1(tanhf, float)
SAME_1(erff, float)
SAME_1(rintf, float)
SAME_1(sqrtf, float)
SAME_1(sinf, float)
SAME_1(cosf, float)
SAME_2(fmaxf, float)
SAME_2(fminf, float)
SAME_2(copysignf, float)
SAME_2(powf, float)
SAME_1(fabs, double)
SAME_1(exp, double)
SAME_1(exp2, double)
SAME_1(log, double)
SAME_1(log2, double)
SAME_1(tanh, double)
SAME_1(sqrt, double)
SAME_2(fmax, double)
SAME_2(fmin, double)
#undef SAME_1
#undef SAME_2
inline float fmaf(float a, float b, float c)
{
  return __builtin_fmaf(a, b, c);
}
inline double fma(double a, double b, double c)
{
  return __builtin_fma(a, b, c);
}
inline float rsqrtf(float a)
{
  return 1 / __builtin_sqrtf(a);
}
inline float __expf(float a)
{
  return __builtin_expf(a);
}
inline float __log2f(float a)
{
  return __builtin_log2f(a);
}
/* The compiler does not merge the product with an addition. */
inline float __fmul_rn(float a, float b)
{
  float product = a * b;
  asm("" : "+m"(product));
  return product;
}
inline float __frcp_rn(float a)
{
  return 1 / a;
}

/* Divisors beyond 2^126 give 0, as the GPU's fast division does. */
inline float __fdividef(float a, float b)
{
  if (__builtin_fabsf(b) > 0x1p126f)
    return __builtin_isinf(a) ? __builtin_nanf("") : 0 * a;
  return a / b;
}

/** Selects four of the bytes of x (0 to 3) and y (4 to 7), by the nibbles of the selector. */
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
  unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned found = 0;
  for (int i = 0; i < 4; i++)
    found |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
  return found;
}

inline unsigned __float_as_uint(float value)
{
  return __builtin_bit_cast(unsigned, value);
}
inline float __uint_as_float(unsigned bits)
{
  return __builtin_bit_cast(float, bits);
}
inline int __float_as_int(float value)
{
  return __builtin_bit_cast(int, value);
}
inline float __int_as_float(int bits)
{
  return __builtin_bit_cast(float, bits);
}
inline int __popc(unsigned bits)
{
  return __builtin_popcount(bits);
}
inline int __clz(int bits)
{
  return bits ? __builtin_clz((unsigned)bits) : 32;
}
inline int __ffs(int bits)
{
  return __builtin_ffs(bits);
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
  return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
  return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}

/* ---- warp and block synchronization ---- */

inline void __syncthreads()
{
  emulation::barrier(0, blockDim.x * blockDim.y * blockDim.z, true);
}
inline bool __syncthreads_or(bool vote)
{
  return emulation::barrier_any(vote);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu)
{
  emulation::meet_lanes(mask, "__syncwarp");
}
inline void __threadfence()
{
}
inline void __nanosleep(unsigned)
{
  emulation::pause();
}
inline void __threadfence_block()
{
}

template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
  int lane = (int)emulation::lane();
  emulation::shuffle_lane(mask, &value, sizeof value, lane / width * width + source % width, "__shfl_sync");
  return value;
}

template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32)
{
  int lane = (int)emulation::lane(), source = lane ^ distance;
  emulation::shuffle_lane(mask, &value, sizeof value, source < lane / width * width + width ? source : lane,
                          "__shfl_xor_sync");
  return value;
}

inline unsigned __reduce_max_sync(unsigned mask, unsigned value)
{
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned other = __shfl_xor_sync(mask, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

inline unsigned __reduce_min_sync(unsigned mask, unsigned value)
{
  return ~__reduce_max_sync(mask, ~value);
}

template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32)
{
  int lane = (int)emulation::lane(), source = lane - (int)distance;
  emulation::shuffle_lane(mask, &value, sizeof value, source >= lane / width * width ? source : lane, "__shfl_up_sync");
  return value;
}

template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32)
{
  int lane = (int)emulation::lane(), source = lane + (int)distance;
  emulation::shuffle_lane(mask, &value, sizeof value, source < lane / width * width + width ? source : lane,
                          "__shfl_down_sync");
  return value;
}

inline unsigned __ballot_sync(unsigned mask, bool vote)
{
  return emulation::ballot(mask, vote);
}
inline bool __any_sync(unsigned mask, bool vote)
{
  return emulation::ballot(mask, vote) != 0;
}
inline bool __all_sync(unsigned mask, bool vote)
{
  return emulation::ballot(mask, !vote) == 0;
}

#define ATOMIC(NAME, EXPRESSION)                                   \
  template <class T, class U> UNORDERED inline T NAME(T *at, U by) \
  {                                                                \
    T old = *at, value = (T)by;                                    \
    *at = EXPRESSION;                                              \
    return old;                                                    \
  }
ATOMIC(atomicAdd, old + value)
ATOMIC(atomicExch, value)
ATOMIC(atomicMax, old < value ? value : old)
ATOMIC(atomicMin, value < old ? value : old)
ATOMIC(atomicOr, old | value)
ATOMIC(atomicAnd, old &value)
#undef ATOMIC

template <class T> UNORDERED inline T atomicCAS(T *at, T expected, T value)
{
  T old = *at;
  if (old == expected)
    *at = value;
  return old;
}

/* ---- memory ---- */

inline size_t __cvta_generic_to_shared(const void *data)
{
  return emulation::shared_address(data);
}
inline size_t __cvta_generic_to_global(const void *data)
{
  return (size_t)data;
}
template <class T> inline T __ldg(const T *at)
{
  return *at;
}
template <class T> inline T __ldcg(const T *at)
{
  emulation::check_global(at, sizeof(T), alignof(T), "ld.global.cg");
  return *at;
}
template <class T> inline T __ldcs(const T *at)
{
  return *at;
}
template <class T> inline void __stcs(T *at, T value)
{
  *at = value;
}
template <class T> inline void __stcg(T *at, T value)
{
  *at = value;
}

namespace shared_memory {

/* Dynamic shared memory: translate.cpp turns `extern __shared__ T name[]` into it. In a namespace of its own, because
 * programs define functions with the same names as those of `emulation`. */
template <class T> struct dynamic_array {
  operator T *() const
  {
    return (T *)emulation::dynamic_shared();
  }
  template <class U> explicit operator U *() const
  {
    return (U *)emulation::dynamic_shared();
  }
};

} // namespace shared_memory

namespace emulation {

/* A __shared__ variable, identified by TAG. Its memory is reserved when the program is loaded. */
template <class T, class TAG> struct static_variable {
  inline static const unsigned place = reserve_shared(sizeof(T), alignof(T) < 4 ? 4 : alignof(T));
};

/* Calls a kernel's function with the addresses of its arguments, as a launch passes them. */
template <class F> struct caller;
template <class... P> struct caller<void (*)(P...)> {
  template <void (*FUNCTION)(P...), size_t... I> static void run(void **arguments, std::index_sequence<I...>)
  {
    FUNCTION(*(P *)arguments[I]...);
  }

  template <void (*FUNCTION)(P...)> static void run(void **arguments)
  {
    run<FUNCTION>(arguments, std::index_sequence_for<P...>());
  }

  inline static constexpr unsigned sizes[] = {sizeof(P)..., 0};
};

template <auto FUNCTION> void call(void **arguments)
{
  caller<decltype(FUNCTION)>::template run<FUNCTION>(arguments);
}

} // namespace emulation

long long clock64();

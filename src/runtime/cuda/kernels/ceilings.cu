/* SPDX-License-Identifier: Apache-2.0 */
/* Ceilings of the GPU: loops whose operands stay in registers or shared memory (Tensor Cores, fp32 FMA, exponentials),
 * and streams from and to memory. hr_device_probe() times them.
 *
 *   gemm_loop      Hopper: WGMMA m64n256 by two warpgroups per block over a row of 128 bytes of k, A (64 rows per
 *   warpgroup) and B
 *                  (256 rows, shared) in shared memory with the 128-byte swizzle: 48 KiB; 256 threads of 168 registers,
 *                  so
 *                  that one block fits a multiprocessor.
 *                  Others: mma.sync m16n8, 2 tiles of A by 4 of B per warp in registers. (Blackwell's tcgen05 is
 *                  faster; this is
 *                  the rate of its older instruction.)
 *                  fp32: FMAs on 32 values per thread, which are multiplied and divided alternately, so that they
 *                  neither converge
 *                  nor grow. Two operands stay in place, so that an FMA needs one new register: with three (rotations,
 *                  u += t v
 *                  and v -= t u) an H200 reached 90% of what its clock allows.
 *   exponentials   8 chains of 2^-x per thread
 *   stream_read    16 bytes per thread and access, four in flight
 *   stream_copy    16 bytes per thread
 *
 * Bound: the unit that each measures. Values are uniform in [-1, 1], as constants draw less power and run at a higher
 * clock than a model's values; accumulators restart after 64 steps, as those of a GEMM with k of some thousand do. The
 * first block writes its cycles and nanoseconds, which give the clock under this load. Figures: docs/gpu.md. */
#include "runtime/cuda/kernels/ceilings_layout.h"
#include "runtime/cuda/kernels/dtype.cuh"

#define THREADS HR_CEILINGS_THREADS
#define STEPS 64 /* after which accumulators restart */

/* A value in [-1, 1) that depends on `at`. */
__device__ inline float uniform(unsigned at)
{
  unsigned z = at * 0x9E3779B9u + 0x85EBCA6Bu;
  z = (z ^ (z >> 16)) * 0x7FEB352Du;
  z = (z ^ (z >> 15)) * 0x846CA68Bu;
  return (float)((int)(z ^ (z >> 16)) >> 7) * 0x1p-24f;
}

__device__ inline unsigned long long nanoseconds()
{
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

/* Writes the cycles and nanoseconds of the grid's first thread to `took`. */
struct stopwatch {
  unsigned long long cycles, ns;
  __device__ stopwatch() : cycles(clock64()), ns(nanoseconds())
  {
  }
  __device__ void stop(unsigned long long *took) const
  {
    if (blockIdx.x != 0 || threadIdx.x != 0)
      return;
    took[0] = clock64() - cycles;
    took[1] = nanoseconds() - ns;
  }
};

/* ---- Tensor Cores and FMA ---- */

#if defined(HR_DTYPE_fp32)

#define CHAINS HR_CEILINGS_FMA_CHAINS
#define STRETCH 1.37f
#define ADDED 0.61f

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_loop(long long loops, float *results, unsigned long long *took)
{
  float x[CHAINS];
  unsigned at = (blockIdx.x * THREADS + threadIdx.x) * CHAINS;
  for (int i = 0; i < CHAINS; i++)
    x[i] = uniform(at + i);
  float stretch = STRETCH + 0.1f * uniform(at), shrink = 1 / stretch, taken = -ADDED * shrink;
  stopwatch watch;
#pragma unroll 2
  for (long long loop = 0; loop < loops; loop++) {
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
      x[i] = fmaf(x[i], stretch, ADDED);
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
      x[i] = fmaf(x[i], shrink, taken);
  }
  watch.stop(took);
  float sum = 0;
  for (int i = 0; i < CHAINS; i++)
    sum += x[i];
  results[blockIdx.x * THREADS + threadIdx.x] = sum;
}

#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)

#if defined(HR_DTYPE_bf16)
#define SHAPE "m64n256k16.f32.bf16.bf16 "
#define LAYOUTS ", 0, 0"
#elif defined(HR_DTYPE_fp16)
#define SHAPE "m64n256k16.f32.f16.f16 "
#define LAYOUTS ", 0, 0"
#elif defined(HR_DTYPE_tf32)
#define SHAPE "m64n256k8.f32.tf32.tf32 "
#define LAYOUTS ""
#else
#define SHAPE "m64n256k32.f32.e4m3.e4m3 "
#define LAYOUTS ""
#endif

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define D64(i) D16(i), D16(i + 16), D16(i + 32), D16(i + 48)

/* d = a b, or d + a b where `add` is not 0. */
__device__ inline void wgmma(float (&d)[128], unsigned long long a, unsigned long long b, int add)
{
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
               "wgmma.mma_async.sync.aligned." SHAPE "{"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
               "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
               "}, %128, %129, p, 1, 1" LAYOUTS ";\n}\n"
               : D64(0), D64(64)
               : "l"(a), "l"(b), "r"(add));
}

/* Matrix descriptor (PTX ISA, wgmma) of rows of 128 bytes, swizzled in groups of 8: the address in units of 16 bytes,
 * 1024 bytes from group to group, and in the two top bits the 128-byte swizzle. */
__device__ inline unsigned long long matrix_descriptor(const void *rows)
{
  unsigned long long address = __cvta_generic_to_shared(rows);
  return (address & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm_loop(long long loops, float *results, unsigned long long *took)
{
  __shared__ __align__(1024) unsigned char tiles[(2 * 64 + 256) * 128];
  element *values = (element *)tiles;
  for (unsigned i = threadIdx.x; i < sizeof tiles / sizeof(element); i += THREADS)
    values[i] = from_float(uniform(blockIdx.x * (unsigned)sizeof tiles + i));
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  unsigned long long a = matrix_descriptor(tiles + 64 * 128 * (threadIdx.x / 128)),
                     b = matrix_descriptor(tiles + 2 * 64 * 128);
  float d[128];
  for (int i = 0; i < 128; i++)
    d[i] = 0;
  stopwatch watch;
  for (long long loop = 0; loop < loops; loop++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; k++) /* 32 bytes of k each */
      wgmma(d, a + 2 * k, b + 2 * k, k > 0 || loop % STEPS != 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  watch.stop(took);
  float sum = 0;
  for (int i = 0; i < 128; i++)
    sum += d[i];
  results[blockIdx.x * THREADS + threadIdx.x] = sum;
}

#elif __CUDA_ARCH__ >= 890 || (__CUDA_ARCH__ >= 800 && !defined(HR_DTYPE_fp8))

#define ROWS 2
#define COLUMNS 4

#if defined(HR_DTYPE_bf16)
#define SHAPE "m16n8k16.row.col.f32.bf16.bf16.f32 "
#elif defined(HR_DTYPE_fp16)
#define SHAPE "m16n8k16.row.col.f32.f16.f16.f32 "
#elif defined(HR_DTYPE_tf32)
#define SHAPE "m16n8k8.row.col.f32.tf32.tf32.f32 "
#else
#define SHAPE "m16n8k32.row.col.f32.e4m3.e4m3.f32 "
#endif

/* Four bytes of elements. */
__device__ inline unsigned pack(unsigned at)
{
  union {
    unsigned bits;
    element values[4 / sizeof(element)];
  } packed;
  for (unsigned i = 0; i < 4 / sizeof(element); i++)
    packed.values[i] = from_float(uniform(4 * at + i));
  return packed.bits;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    gemm_loop(long long loops, float *results, unsigned long long *took)
{
  unsigned a[ROWS][4], b[COLUMNS][2], at = (blockIdx.x * THREADS + threadIdx.x) * 64;
  float d[ROWS][COLUMNS][4];
  for (int i = 0; i < ROWS * 4; i++)
    a[i / 4][i % 4] = pack(at + i);
  for (int i = 0; i < COLUMNS * 2; i++)
    b[i / 2][i % 2] = pack(at + ROWS * 4 + i);
  for (int i = 0; i < ROWS * COLUMNS * 4; i++)
    d[i / COLUMNS / 4][i / 4 % COLUMNS][i % 4] = 0;
  stopwatch watch;
  for (long long loop = 0; loop < loops; loop++) {
    bool anew = loop % STEPS == 0;
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; i++) {
      float(&c)[4] = d[i / COLUMNS][i % COLUMNS];
      if (anew)
        c[0] = c[1] = c[2] = c[3] = 0;
      asm volatile("mma.sync.aligned." SHAPE "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[i / COLUMNS][0]), "r"(a[i / COLUMNS][1]), "r"(a[i / COLUMNS][2]), "r"(a[i / COLUMNS][3]),
                     "r"(b[i % COLUMNS][0]), "r"(b[i % COLUMNS][1]));
    }
  }
  watch.stop(took);
  float sum = 0;
  for (int i = 0; i < ROWS * COLUMNS * 4; i++)
    sum += d[i / COLUMNS / 4][i / 4 % COLUMNS][i % 4];
  results[blockIdx.x * THREADS + threadIdx.x] = sum;
}

#endif

/* ---- exponentials ---- */

#define EXPONENTIALS HR_CEILINGS_EXP_CHAINS

extern "C" __global__ void __launch_bounds__(THREADS)
    exponentials(long long loops, float *results, unsigned long long *took)
{
  float x[EXPONENTIALS];
  for (int i = 0; i < EXPONENTIALS; i++)
    x[i] = uniform((blockIdx.x * THREADS + threadIdx.x) * EXPONENTIALS + i);
  stopwatch watch;
#pragma unroll 4
  for (long long loop = 0; loop < loops; loop++) {
#pragma unroll
    for (int i = 0; i < EXPONENTIALS; i++)
      asm volatile("{.reg .f32 y; neg.f32 y, %0; ex2.approx.ftz.f32 %0, y;}" : "+f"(x[i]));
  }
  watch.stop(took);
  float sum = 0;
  for (int i = 0; i < EXPONENTIALS; i++)
    sum += x[i];
  results[blockIdx.x * THREADS + threadIdx.x] = sum;
}

/* ---- memory ---- */

#define IN_FLIGHT 4 /* accesses of a thread; a block reads 16 KiB in a row */

extern "C" __global__ void __launch_bounds__(THREADS)
    stream_read(const uint4 *from, long long count, float *results, unsigned long long *took)
{
  long long step = (long long)gridDim.x * THREADS * IN_FLIGHT;
  long long at = (long long)blockIdx.x * THREADS * IN_FLIGHT + threadIdx.x;
  unsigned mixed = 0;
  stopwatch watch;
  for (; at + (IN_FLIGHT - 1) * THREADS < count; at += step) {
    uint4 values[IN_FLIGHT];
#pragma unroll
    for (int i = 0; i < IN_FLIGHT; i++)
      values[i] = __ldcs(from + at + i * THREADS);
#pragma unroll
    for (int i = 0; i < IN_FLIGHT; i++)
      mixed ^= values[i].x ^ values[i].y ^ values[i].z ^ values[i].w;
  }
  for (; at < count; at += THREADS) /* of the last block that has any */
    mixed ^= from[at].x ^ from[at].y ^ from[at].z ^ from[at].w;
  watch.stop(took);
  results[blockIdx.x * THREADS + threadIdx.x] = __uint_as_float(mixed);
}

/* One access per thread, and as many blocks as needed: 4.29 TB/s on an H200, where grid-stride loops reached 3.9 to
 * 4.1. */
extern "C" __global__ void __launch_bounds__(THREADS) stream_copy(const uint4 *from, long long count, uint4 *to)
{
  long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (at < count)
    to[at] = from[at];
}

/* SPDX-License-Identifier: Apache-2.0 */
/* PTX instructions of compute capability 9.0 (sm_90a): mbarriers, named barriers, TMA (cp.async.bulk.tensor), stmatrix,
 * register reallocation (setmaxnreg) and WGMMA (wgmma.mma_async), the matrix multiply of a warpgroup (4 warps). */

#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"

struct alignas(64) tensor_map {
  unsigned long long opaque[16];
};

/* ---- mbarrier: a phase completes with `count` arrivals and all expected bytes ---- */

__device__ inline void mbarrier_init(unsigned barrier, unsigned count)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* Makes initialized mbarriers visible to TMA. */
__device__ inline void fence_mbarrier_init()
{
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(unsigned barrier)
{
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes)
{
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Waits until the phase of this parity is complete; the phase before the first has parity 1. */
__device__ inline void mbarrier_wait(unsigned barrier, unsigned parity)
{
  asm volatile("{\n"
               ".reg .pred over;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
               "@!over bra again;\n"
               "}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

/* The same with a hint that the warp may be suspended for up to 10 ms, which costs less than asking again. */
__device__ inline void mbarrier_wait_long(unsigned barrier, unsigned parity)
{
  asm volatile("{\n"
               ".reg .pred over;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1, 10000000;\n"
               "@!over bra again;\n"
               "}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

/* ---- clusters: their barrier, at which every thread arrives and waits, and stores to another block's shared memory,
 * whose bytes count for an mbarrier there ---- */

__device__ inline void cluster_arrive_relaxed()
{
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_arrive()
{
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait()
{
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The address in block `block` of the cluster of what is at `address` in this one. */
__device__ inline unsigned address_in_block(unsigned address, int block)
{
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}

__device__ inline unsigned block_in_cluster()
{
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/* Orders only the reads of the arriving thread, and so needs no release at the scope of the GPU. */
__device__ inline void mbarrier_arrive_in_block(unsigned barrier, int block)
{
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in_block(barrier, block)) : "memory");
}

__device__ inline void send_to_block(int block, unsigned to, float4 value, unsigned barrier)
{
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(
                   address_in_block(to, block)),
               "r"(address_in_block(barrier, block)), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

__device__ inline void send_to_block(int block, unsigned to, float2 value, unsigned barrier)
{
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%2, %3}, [%1];" ::"r"(
                   address_in_block(to, block)),
               "r"(address_in_block(barrier, block)), "f"(value.x), "f"(value.y)
               : "memory");
}

/* Arrives at a named barrier without waiting. */
__device__ inline void named_barrier_arrive(int name, int threads)
{
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* ---- TMA ---- */

/* Copies `bytes`, a multiple of 16, from global to shared memory; they count for `barrier`. */
__device__ inline void bulk_load(unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/* The same of what is read once: other lines stay in the L2 before these. The policy's encoding is that of CUTLASS,
 * cute/arch/copy_sm90_desc.hpp, EVICT_FIRST. */
__device__ inline void bulk_load_once(unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
               "%4;" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier), "l"(0x12F0000000000000ull)
               : "memory");
}

/* Loads a box of a 4D tensor from element (x, y, z, w) on to shared memory; its bytes count for `barrier`. Elements
 * outside of the tensor become 0. */
__device__ inline void tma_load(unsigned to, const tensor_map &map, unsigned barrier, int x, int y, int z, int w)
{
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
               "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}

/* The same into every block of a cluster of 2, where it counts for the mbarrier at the same address. */
__device__ inline void tma_load_to_both(unsigned to, const tensor_map &map, unsigned barrier, int x, int y, int z,
                                        int w)
{
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
               "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "h"((unsigned short)3)
               : "memory");
}

/* Stores a box from shared memory; the committing thread waits for it. Elements outside of the tensor are not
 * written. */
__device__ inline void tma_store(const tensor_map &map, unsigned from, int x, int y, int z, int w)
{
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}

__device__ inline void tma_store_commit()
{
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until committed stores have read shared memory, so that it may be written again. */
__device__ inline void tma_store_wait()
{
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Makes this thread's shared memory writes visible to TMA and WGMMA. */
__device__ inline void fence_proxy_async()
{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Stores four 8 × 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ inline void stmatrix_x4(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d)
{
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}

/* The same, each matrix transposed. */
__device__ inline void stmatrix_x4_transposed(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d)
{
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

__device__ inline void store_shared(unsigned to, float4 value)
{
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(value.x), "f"(value.y), "f"(value.z),
               "f"(value.w)
               : "memory");
}

__device__ inline float4 load_shared(unsigned from)
{
  float4 value;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(from)
               : "memory");
  return value;
}

/* Orders what follows behind what other blocks did before their add_release(). */
__device__ inline int load_acquire(const int *from)
{
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void add_release(int *to, int value)
{
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

/* Adds four floats to global memory, whose address is a multiple of 16. */
__device__ inline void add_to_global(float *to, float a, float b, float c, float d)
{
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}

/* Makes a tensor map in global memory, which the host has written, the one that TMA of this block uses: an earlier one
 * may have had its place. */
__device__ inline void acquire_tensor_map(const tensor_map &map)
{
  asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(&map) : "memory");
}

__device__ inline void prefetch_tensor_map(const tensor_map &map)
{
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/* ---- register reallocation ---- */

template <int COUNT> __device__ inline void warpgroup_reg_dealloc()
{
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> __device__ inline void warpgroup_reg_alloc()
{
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* ---- WGMMA ----
 *
 * A matrix descriptor gives the location of an operand in shared memory: rows of 128 bytes, 8 of them a swizzled block
 * of 1024 bytes. K-major operands: `stride` bytes between blocks of 8 rows. MN-major operands, which 8-bit elements
 * cannot be: `stride` bytes between blocks of 8 in k, `leading` bytes between panels of 64. */

__device__ inline unsigned long long matrix_descriptor(unsigned address, unsigned stride, unsigned leading)
{
  return (unsigned long long)((address & 0x3FFFF) >> 4) | (unsigned long long)(leading >> 4) << 16 |
         (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}

/* The descriptor of the operand `bytes` behind that of `descriptor`. Shared memory ends below 2^18, so that the
 * addition stays within the address. */
__device__ inline unsigned long long descriptor_behind(unsigned long long descriptor, unsigned bytes)
{
  return (descriptor & 0xFFFFFFFF00000000ull) | ((unsigned)descriptor + (bytes >> 4));
}

/* Orders earlier accesses to registers before the WGMMAs that follow. */
__device__ inline void wgmma_fence()
{
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit()
{
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most LEFT committed groups are in flight. */
template <int LEFT> __device__ inline void wgmma_wait()
{
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* The accumulators of a 64 × N WGMMA, N / 2 per thread: as the instruction names them, behind 5 other operands, and as
 * operands of the asm statement. */
#define WGMMA_NAMES_16 "%5, %6, %7, %8, %9, %10, %11, %12"
#define WGMMA_NAMES_32 WGMMA_NAMES_16 ", %13, %14, %15, %16, %17, %18, %19, %20"
#define WGMMA_NAMES_48 WGMMA_NAMES_32 ", %21, %22, %23, %24, %25, %26, %27, %28"
#define WGMMA_NAMES_64 WGMMA_NAMES_48 ", %29, %30, %31, %32, %33, %34, %35, %36"
#define WGMMA_NAMES_80 WGMMA_NAMES_64 ", %37, %38, %39, %40, %41, %42, %43, %44"
#define WGMMA_NAMES_96 WGMMA_NAMES_80 ", %45, %46, %47, %48, %49, %50, %51, %52"
#define WGMMA_NAMES_112 WGMMA_NAMES_96 ", %53, %54, %55, %56, %57, %58, %59, %60"
#define WGMMA_NAMES_128 WGMMA_NAMES_112 ", %61, %62, %63, %64, %65, %66, %67, %68"
#define WGMMA_NAMES_144 WGMMA_NAMES_128 ", %69, %70, %71, %72, %73, %74, %75, %76"
#define WGMMA_NAMES_160 WGMMA_NAMES_144 ", %77, %78, %79, %80, %81, %82, %83, %84"
#define WGMMA_NAMES_176 WGMMA_NAMES_160 ", %85, %86, %87, %88, %89, %90, %91, %92"
#define WGMMA_NAMES_192 WGMMA_NAMES_176 ", %93, %94, %95, %96, %97, %98, %99, %100"
#define WGMMA_NAMES_208 WGMMA_NAMES_192 ", %101, %102, %103, %104, %105, %106, %107, %108"
#define WGMMA_NAMES_224 WGMMA_NAMES_208 ", %109, %110, %111, %112, %113, %114, %115, %116"
#define WGMMA_NAMES_240 WGMMA_NAMES_224 ", %117, %118, %119, %120, %121, %122, %123, %124"
#define WGMMA_NAMES_256 WGMMA_NAMES_240 ", %125, %126, %127, %128, %129, %130, %131, %132"
#define WGMMA_SUMS_16(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define WGMMA_SUMS_32(d) \
  WGMMA_SUMS_16(d), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define WGMMA_SUMS_48(d)                                                                                       \
  WGMMA_SUMS_32(d), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), \
      "+f"(d[23])
#define WGMMA_SUMS_64(d)                                                                                       \
  WGMMA_SUMS_48(d), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), \
      "+f"(d[31])
#define WGMMA_SUMS_80(d)                                                                                       \
  WGMMA_SUMS_64(d), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), \
      "+f"(d[39])
#define WGMMA_SUMS_96(d)                                                                                       \
  WGMMA_SUMS_80(d), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), \
      "+f"(d[47])
#define WGMMA_SUMS_112(d)                                                                                      \
  WGMMA_SUMS_96(d), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), \
      "+f"(d[55])
#define WGMMA_SUMS_128(d)                                                                                       \
  WGMMA_SUMS_112(d), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), \
      "+f"(d[63])
#define WGMMA_SUMS_144(d)                                                                                       \
  WGMMA_SUMS_128(d), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), \
      "+f"(d[71])
#define WGMMA_SUMS_160(d)                                                                                       \
  WGMMA_SUMS_144(d), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), \
      "+f"(d[79])
#define WGMMA_SUMS_176(d)                                                                                       \
  WGMMA_SUMS_160(d), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), \
      "+f"(d[87])
#define WGMMA_SUMS_192(d)                                                                                       \
  WGMMA_SUMS_176(d), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), \
      "+f"(d[95])
#define WGMMA_SUMS_208(d)                                                                                          \
  WGMMA_SUMS_192(d), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), \
      "+f"(d[103])
#define WGMMA_SUMS_224(d)                                                                                              \
  WGMMA_SUMS_208(d), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), \
      "+f"(d[111])
#define WGMMA_SUMS_240(d)                                                                                              \
  WGMMA_SUMS_224(d), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), \
      "+f"(d[119])
#define WGMMA_SUMS_256(d)                                                                                              \
  WGMMA_SUMS_240(d), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), \
      "+f"(d[127])

#define WGMMA_NAMES(n) WGMMA_PASTE(WGMMA_NAMES_, n)
#define WGMMA_ACCUMULATORS(n, d) WGMMA_PASTE(WGMMA_SUMS_, n)(d)
#define WGMMA_PASTE(a, b) WGMMA_PASTE_(a, b)
#define WGMMA_PASTE_(a, b) a##b
#define WGMMA_TEXT(n) WGMMA_TEXT_(n)
#define WGMMA_TEXT_(n) #n

/* The format, k (32 bytes of it), and what follows the signs of a and b: whether they are MN-major, of 16-bit elements
 * only. */
#ifdef HR_DTYPE_fp8
#define WGMMA_KIND "k32.f32.e4m3.e4m3"
#define WGMMA_K_MAJOR ""
#define WGMMA_B_MN_MAJOR ""
#else
#define WGMMA_KIND "k16.f32." MMA_TYPE "." MMA_TYPE
#define WGMMA_K_MAJOR ", 0, 0"
#define WGMMA_B_MN_MAJOR ", 1"
#endif

/* d = a · b, or d += a · b: 64 × k by k × N, a and b both K-major in shared memory (SS). Operands that the instruction
 * only reads are declared as changed, so that they come first and have the same numbers for every N. */
#define WGMMA_SS(n, d, a, b, add)                                                                                     \
  do {                                                                                                                \
    unsigned long long a_ = (a), b_ = (b);                                                                            \
    int add_ = (add), unused_ = 0;                                                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" WGMMA_TEXT(n) WGMMA_KIND                                         \
                 " {" WGMMA_NAMES(n) "}, %0, %1, p, 1, 1" WGMMA_K_MAJOR ";\n}"                                        \
                 : "+l"(a_), "+l"(b_), "+r"(add_), "+r"(unused_), "+r"(unused_), WGMMA_ACCUMULATORS(n, d)::"memory"); \
  } while (0)

/* d += a · b with a in registers (RS), four words, and b in shared memory: MN-major, K-major of 8-bit elements. */
#define WGMMA_RS(n, d, a, b)                                                                 \
  do {                                                                                       \
    unsigned long long b_ = (b);                                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" WGMMA_TEXT(n) WGMMA_KIND                \
                 " {" WGMMA_NAMES(n) "}, {%1, %2, %3, %4}, %0, 1, 1, 1" WGMMA_B_MN_MAJOR ";" \
                 : "+l"(b_), "+r"((a)[0]), "+r"((a)[1]), "+r"((a)[2]), "+r"((a)[3]),         \
                   WGMMA_ACCUMULATORS(n, d)::"memory");                                      \
  } while (0)

/* d += a · b, a K-major and b MN-major in shared memory (SS). */
#define WGMMA_SS_MN(n, d, a, b)                                                                                    \
  do {                                                                                                             \
    unsigned long long a_ = (a), b_ = (b);                                                                         \
    int unused_ = 0;                                                                                               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" WGMMA_TEXT(n) "k16.f32." MMA_TYPE "." MMA_TYPE                \
                                                                   " {" WGMMA_NAMES(n) "}, %0, %1, 1, 1, 1, 0, 1;" \
                 : "+l"(a_), "+l"(b_), "+r"(unused_), "+r"(unused_), "+r"(unused_),                                \
                   WGMMA_ACCUMULATORS(n, d)::"memory");                                                            \
  } while (0)

/* The same, or d = a · b. */
#define WGMMA_SS_MN_TO(n, d, a, b, add)                                                                               \
  do {                                                                                                                \
    unsigned long long a_ = (a), b_ = (b);                                                                            \
    int add_ = (add), unused_ = 0;                                                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" WGMMA_TEXT(n) "k16.f32." MMA_TYPE "." MMA_TYPE                   \
                                                                   " {" WGMMA_NAMES(n) "}, %0, %1, p, 1, 1, 0, 1;\n}" \
                 : "+l"(a_), "+l"(b_), "+r"(add_), "+r"(unused_), "+r"(unused_), WGMMA_ACCUMULATORS(n, d)::"memory"); \
  } while (0)

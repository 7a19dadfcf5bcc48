/* SPDX-License-Identifier: Apache-2.0 */
/* Interface between a program and the emulated GPU: thread indices, barriers, and the instructions that involve more
 * than one thread. Programs include it through device.h; the emulated driver (libcuda.so.1) implements it. All
 * functions act on the calling thread unless stated.
 *
 * Shared memory addresses have 32 bits, as in PTX: the offset in the block's window, and above it the block's rank in
 * its cluster (SHARED_RANK). */
#pragma once

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulation {

typedef unsigned char byte;
typedef unsigned long long word64;

constexpr unsigned SHARED_WINDOW = 1u << 18, SHARED_DYNAMIC_AT = 1024, SHARED_RANK = 24;
constexpr int LANES = 32;

/** Ends the launch: the driver returns an error with this text, the kernel's name, the block and the thread. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- kernels of a program ---- */

struct kernel {
  const char *name; /* NULL ends the list */
  void (*run)(void **arguments);
  const unsigned *sizes; /* of the arguments in bytes; 0 ends the list */
  unsigned max_threads;  /* __launch_bounds__; 0: none */
  unsigned cluster[3];   /* __cluster_dims__ */
};

/* ---- shared memory ---- */

/** The dynamic shared memory of the block. */
void *dynamic_shared();

/** Reserves static shared memory in every block; called once for each variable. */
unsigned reserve_shared(unsigned bytes, unsigned alignment);
void *static_shared(unsigned place);

unsigned shared_address(const void *data);

/** The bytes at an address; fails if they are outside of the block's shared memory or misaligned. */
byte *shared_bytes(unsigned address, unsigned bytes, unsigned alignment, const char *what);

/** The same for the shared memory of all blocks of the cluster. */
byte *cluster_bytes(unsigned address, unsigned bytes, unsigned alignment, const char *what);

#define UNORDERED __attribute__((no_sanitize("thread"))) /* not checked for races (races.h) */

/** Fails unless `bytes` of global memory are aligned and inside one buffer. */
void check_global(const void *data, unsigned bytes, unsigned alignment, const char *what);

unsigned cluster_rank();

/** griddepcontrol.wait. Kernels run one after the other; in one that is launched early, a block must have waited
 *  before it accesses global memory. */
void wait_for_kernel_before();

/* ---- barriers and warp-synchronous operations ---- */

/** Named barrier `number`: bar.sync (`waits`) or bar.arrive for `threads` threads. */
void barrier(unsigned number, unsigned threads, bool waits);

/** __syncthreads_or(): barrier 0 of all threads of the block; true if any thread votes for it. */
bool barrier_any(bool vote);
void cluster_arrive();
void cluster_arrive_relaxed();
void cluster_wait();

/** All lanes of `mask` meet; it is an error unless all pass the same `what`. */
void meet_lanes(unsigned mask, const char *what);

/** Replaces `value` by that of another lane of the warp. */
void shuffle_lane(unsigned mask, void *value, unsigned bytes, int lane, const char *what);

/** Bit l is the vote of lane l; 0 for lanes that are not in the mask. */
unsigned ballot(unsigned mask, bool vote);

unsigned lane();

/** Lets other warps run first, now and then. Called after a thread has signalled other threads. */
void pause();

/* ---- cp.async ---- */

void cp_async(unsigned to, const void *from, unsigned bytes, unsigned taken);
void cp_async_commit();
void cp_async_wait(unsigned groups_left); /* ~0u: also uncommitted copies */

/* ---- ldmatrix, stmatrix, mma.sync ---- */

enum class format { f16, bf16, tf32, e4m3 };

/** 8 × 8 matrices of 16-bit elements; lane l passes the address of row l % 8 of matrix l / 8. */
void ldmatrix(unsigned *const *to, unsigned count, unsigned address, bool transposed);
void stmatrix(unsigned address, const unsigned *from, unsigned count, bool transposed);

/** d = a · b + c, with a 16 × depth and b depth × 8; depth is 32 bytes of the format. */
void mma(format type, float *const *d, const unsigned *a, const unsigned *b, const float *c);

/* ---- mbarriers and TMA (sm_90) ---- */

void mbarrier_init(unsigned address, unsigned count);
void fence_mbarrier_init();
void mbarrier_arrive(unsigned address, unsigned expected_bytes);
void mbarrier_arrive_in_block(unsigned address); /* of the cluster, by mapa */
bool mbarrier_try_wait(unsigned address, unsigned parity);

/** A TMA load or store of a box of a 4-dimensional tensor, from element first[0 … 3] on. */
void tma_load(unsigned to, const void *map, unsigned barrier, const int *first);
void bulk_load(unsigned to, const void *from, unsigned bytes, unsigned barrier);

/** The same into each block of the cluster that has its bit in `blocks`, for the mbarrier there. */
void tma_load_multicast(unsigned to, const void *map, unsigned barrier, const int *first, unsigned blocks);
void tma_store(const void *map, unsigned from, const int *first);
void tma_commit();
void tma_wait(unsigned groups_left);
void fence_proxy_async();

/** st.async: a write to the shared memory of a block of the cluster, whose bytes count for an mbarrier there. */
void store_async(unsigned to, const void *value, unsigned bytes, unsigned barrier);

/* ---- WGMMA (sm_90) ---- */

/** d += a · b (adds) or d = a · b, with a 64 × 16 in registers or by its descriptor, and b 16 × columns; `across`: b is
 *  MN-major. */
void wgmma(format type, unsigned columns, float *const *d, unsigned *const *a_words, word64 a, word64 b, bool adds,
           bool across);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(unsigned groups_left);
void setmaxnreg(unsigned count);

/* ---- number formats ---- */

float from_half(unsigned short bits);
unsigned short to_half(float value);
unsigned short to_bfloat(float value);
float from_e4m3(byte bits);
byte to_e4m3(float value);
unsigned to_tf32(float value, bool ties_away);

} // namespace emulation

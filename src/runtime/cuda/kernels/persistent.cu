/* SPDX-License-Identifier: Apache-2.0 */
/* A decode step of few tokens in one kernel: linear layers with what is fused with them, also of the experts that one
 * token chooses (persistent_experts.cuh), and attention, of all layers.
 *
 *   grid: a block for each multiprocessor, which stays
 *   a block: 8 warps that compute, and one that copies the block's rows of all weights and its keys, in the order in
 *     which they are needed, to a ring of slots in shared memory (persistent_linear.cuh, persistent_attention.cuh); fp8
 *     becomes 16 bits behind it
 *
 * Weights and earlier keys depend on nothing, so that the copying warp waits for other blocks only where experts are
 * chosen: while results are on their way, or a block attends, it goes on until all slots are full, after about 6 us of
 * the memory's rate. Kernels of their own leave the memory idle where one ends and the next begins,
 * docs/notes/step-gpu.md.
 *
 * Blocks do not meet. An element that is not there yet has bits that no result has, and who needs it reads it until it
 * is there (persistent_post.cuh).
 *
 * Bound: memory bandwidth. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/fp8.cuh"
#include "runtime/cuda/kernels/persistent_layout.h"
#include "runtime/cuda/kernels/ptx_sm90.cuh"

typedef long long int64;
typedef hr_persistent_call persistent_call;
typedef hr_persistent_instruction instruction;

#define WARP 32
#define WARPS HR_PERSISTENT_WARPS
#define THREADS (WARPS * WARP) /* that compute */
#define TOKENS HR_TOKENS
#define LOG2_E 1.4426950408889634f
#define NOTHING (-__int_as_float(0x7F800000))
#define CHUNK 8 /* elements of 16 bytes */

__device__ inline int lane_of()
{
  return (int)threadIdx.x % WARP;
}
__device__ inline int warp_of()
{
  return (int)threadIdx.x / WARP;
}

/* The warps that compute meet. */
__device__ inline void meet()
{
  named_barrier_sync(1, THREADS);
}

__device__ inline void unpack(const uint4 &chunk, float (&values)[CHUNK])
{
  const unsigned words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int i = 0; i < CHUNK; i++)
    values[i] = value_in(words[i / 2], i % 2);
}

/* The largest of `LANES` lanes that follow each other, and their sum, in each of them. */
template <int LANES = WARP> __device__ inline float most_of_lanes(float value)
{
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  return value;
}

template <int LANES = WARP> __device__ inline float sum_of_lanes(float value)
{
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
  return value;
}

#include "runtime/cuda/kernels/persistent_cycles.cuh"

/* ---- shared memory ---- */

extern __shared__ __align__(1024) uint4 shared[]; /* as swizzled tiles need it */

/* Instructions: that of now and the next one; of the warp that copies also one that is on its way. */
#define COMPUTED 2
#define COPIED (HR_PERSISTENT_INSTRUCTIONS - COMPUTED)

/* Where a block's shared memory has what. */
struct rooms {
  char *slots;
  element *x; /* or what attention needs */
  float *sums;
  instruction *instructions; /* of the warps that compute, then of the one that copies */
  unsigned full, empty;      /* mbarriers of slots */
  int count;                 /* of slots */
  float *shares;             /* of the chosen experts, with HR_EXPERTS */
  phase_cycles cycles;       /* of the thread's warp */

  __device__ explicit rooms(const persistent_call &call)
  {
    slots = (char *)shared;
    x = (element *)(void *)(slots + call.slots * HR_PERSISTENT_SLOT);
    sums = (float *)(void *)((char *)x + call.x_bytes);
    instructions = (instruction *)(void *)(sums + HR_TILES * WARPS * TOKENS * HR_PERSISTENT_ROWS);
    full = shared_address(instructions + HR_PERSISTENT_INSTRUCTIONS);
    empty = full + 8 * call.slots;
    count = call.slots;
#ifdef HR_EXPERTS
    __shared__ float shares_of_experts[HR_ACTIVE];
    shares = shares_of_experts;
#endif
  }
};

/* A place in the ring of slots, and the parity of its turn. */
struct ring {
  int slot;
  unsigned parity;

  __device__ void advance(int count)
  {
    slot++;
    if (slot == count)
      slot = 0, parity ^= 1;
  }
};

/* The warp that copies may fill the slot: it is free, and with it no more than HR_UNDER_WAY are under way.
 * A load of x waits behind what all multiprocessors have asked for: 6 us of the memory's rate with all slots. */
__device__ inline void await_slot(const rooms &r, const ring &at)
{
  mbarrier_wait_long(r.empty + 8 * at.slot, at.parity);
#ifdef HR_UNDER_WAY
  const int before = at.slot - HR_UNDER_WAY;
  if (before >= 0)
    mbarrier_wait_long(r.full + 8 * before, at.parity ^ 1);
  else if (HR_UNDER_WAY < r.count)
    mbarrier_wait_long(r.full + 8 * (before + r.count), at.parity);
#endif
}

/* ---- blocks ---- */

/* The last block counts the launch. */
__device__ inline void leave(const persistent_call &call)
{
  if (threadIdx.x == 0 && atomicAdd(&call.counters[1], 1u) == gridDim.x - 1) {
    call.counters[1] = 0;
    call.counters[0]++;
  }
}

/* Asks for an instruction; it is there once the threads with pieces have called cp_async_wait() and met. */
__device__ inline void fetch_instruction(const persistent_call &call, instruction *to, int number, int piece)
{
  static_assert(sizeof(instruction) / 16 <= WARP);
  if (number < call.count && piece < (int)sizeof(instruction) / 16)
    cp_async_16(shared_address(to) + piece * 16, (const char *)(call.instructions + number) + piece * 16, true);
  cp_async_commit();
}

/* ---- instructions ---- */

#include "runtime/cuda/kernels/persistent_post.cuh"
#include "runtime/cuda/kernels/persistent_linear.cuh"
#ifdef HR_Q_EACH
#include "runtime/cuda/kernels/persistent_attention.cuh"
#endif

__device__ inline void compute(const persistent_call &call, const rooms &r, const post &p)
{
  ring at = {0, 0};
  fetch_instruction(call, r.instructions, 0, (int)threadIdx.x);
  cp_async_wait<0>();
  meet();
  for (int i = 0; i < call.count; i++) {
    const instruction &now = r.instructions[i % COMPUTED];
    fetch_instruction(call, r.instructions + (i + 1) % COMPUTED, i + 1, (int)threadIdx.x);
#ifdef HR_Q_EACH
    if (now.attends)
      attend(now.attention, r, at, p);
    else
#endif
      multiply_rows(now.linear, r, at, p);
    cp_async_wait<0>();
    meet();
    r.cycles.note(HR_CYCLES_NEXT);
    r.cycles.put(call, i, HR_CYCLES_BEGIN, HR_CYCLES_COPYING);
  }
  leave(call);
}

/* The warp that copies. It has its own instructions in shared memory: the first read of one elsewhere took 1.3 us, in
 * which it copied nothing. */
__device__ inline void copy_all(const persistent_call &call, const rooms &r, const post &p)
{
  instruction *const copied = r.instructions + COMPUTED;
  ring at = {0, 1};
#ifdef HR_EXPERTS
  int chosen = 0; /* the i-th expert in lane i */
#endif
  fetch_instruction(call, copied, 0, lane_of());
  fetch_instruction(call, copied + 1, 1, lane_of());
  for (int i = 0; i < call.count; i++) {
    const instruction &next = copied[i % COPIED];
    cp_async_wait<0>();
    __syncwarp();
    fetch_instruction(call, copied + (i + 2) % COPIED, i + 2, lane_of());
    r.cycles.note(HR_CYCLES_FETCHED);
#ifdef HR_Q_EACH
    if (i + 1 < call.count && copied[(i + 1) % COPIED].attends)
      take_maps(copied[(i + 1) % COPIED].attention);
    if (next.attends)
      copy_keys(next.attention, r, at);
    else
#endif
#ifdef HR_EXPERTS
        if (next.linear.width > 0)
      copy_experts(next.linear, r, at, chosen, p);
    else
#endif
      copy_rows(next.linear, r, at);
    r.cycles.note(HR_CYCLES_COPIES);
    r.cycles.put(call, i, HR_CYCLES_COPYING, HR_CYCLES_COUNT);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS + WARP, 1) run_persistent(const persistent_call call)
{
  const rooms r(call);
  if (threadIdx.x == 0) {
    for (int i = 0; i < r.count; i++) {
      mbarrier_init(r.full + 8 * i, 1);
      mbarrier_init(r.empty + 8 * i, WARPS);
    }
    fence_mbarrier_init();
  }
  follow_kernel_before();
  const post p(call);
  __syncthreads(); /* no block leaves, and counts the launch, before all have asked which one it is */
  if (warp_of() == WARPS)
    copy_all(call, r, p);
  else
    compute(call, r, p);
}

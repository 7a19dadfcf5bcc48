/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between GPUs without fences: 8 bytes of data travel with a flag behind each 4, in one store of 16 bytes. Who
 * reads both flags of the call that it waits for has the data. Source: the protocol LL of NCCL (src/device/prims_ll.h),
 * which relies on 8 bytes arriving together.
 *
 * Rooms are used by every second call: a rank that is at call n + 2 has got what the others sent at call n + 1, and
 * these sent it after they had read all of call n. */
#include "runtime/cuda/kernels/all_reduce_layout.h"

#define SLOW_POLLS 4096 /* between two looks at the clock */

typedef hr_all_reduce_call all_reduce_call;

struct packet {
  unsigned word[2];
};

__device__ inline void send_packet(char *to, const packet &p, unsigned flag)
{
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(p.word[0]), "r"(flag), "r"(p.word[1]),
               "r"(flag)
               : "memory");
}

__device__ inline long long nanoseconds()
{
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/* Whether to go on waiting for a rank. */
struct patience {
  long long until;
  int polls;

  __device__ bool is_over(const all_reduce_call &call, int rank)
  {
    if (++polls % SLOW_POLLS != 0)
      return false;
    const long long now = nanoseconds();
    if (until == 0)
      until = now + call.patience_ns;
    if (now > until && *call.missing == 0)
      *call.missing = 1 + rank;
    return *call.missing != 0;
  }
};

/* Zeros from a rank that does not come. */
__device__ inline packet await_packet(const all_reduce_call &call, const char *from, int rank, unsigned flag)
{
  patience waiting = {0, 0};
  packet p = {{0, 0}};
  unsigned flags[2];
  do {
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p.word[0]), "=r"(flags[0]), "=r"(p.word[1]), "=r"(flags[1])
                 : "l"(from)
                 : "memory");
    if (flags[0] == flag && flags[1] == flag)
      return p;
  } while (!waiting.is_over(call, rank));
  return packet{{0, 0}};
}

/* The number of this call, from 1, which is its flag; the parity says which rooms it has. */
__device__ inline unsigned begin_call(const all_reduce_call &call, hr_slab_number kind)
{
  const volatile unsigned *numbers = (const volatile unsigned *)call.slabs[call.rank];
  return numbers[kind] + 1;
}

/* The last block counts the call. */
__device__ inline void end_call(const all_reduce_call &call, hr_slab_number kind, unsigned number)
{
  unsigned *numbers = (unsigned *)call.slabs[call.rank];
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(&numbers[HR_SLAB_ENDED], 1u) == gridDim.x * gridDim.y - 1) {
    numbers[HR_SLAB_ENDED] = 0;
    numbers[kind] = number;
  }
}

/* ---- flags of blocks ---- */

/* What the block has written to the others is there once they see the flag. */
template <int RANKS> __device__ inline void raise_flags(const all_reduce_call &call, int shot, unsigned number)
{
  __syncthreads();
  const int to = (int)threadIdx.x;
  if (to >= RANKS || to == call.rank)
    return;
  asm volatile("fence.acq_rel.sys;" ::: "memory");
  asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(call.slabs[to] + hr_slab_flag(shot, call.rank, blockIdx.x)),
               "r"(number)
               : "memory");
}

/* Waits for the same block of all others. */
template <int RANKS> __device__ inline void await_flags(const all_reduce_call &call, int shot, unsigned number)
{
  const int from = (int)threadIdx.x;
  if (from < RANKS && from != call.rank) {
    patience waiting = {0, 0};
    unsigned flag;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                   : "=r"(flag)
                   : "l"(call.slabs[call.rank] + hr_slab_flag(shot, from, blockIdx.x))
                   : "memory");
    } while ((int)(flag - number) < 0 && !waiting.is_over(call, from));
  }
  __syncthreads();
}

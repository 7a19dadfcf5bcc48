/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of a tensor over HR_RANKS GPUs whose messages copy engines bring, so that multiprocessors are free until the
 * sum is wanted. A call has a place, which it shares with later ones:
 *
 *   copies_wait       before the copies: the others have added up what was at the place
 *   copies_send       in the place of copies where they would not be recorded
 *   copies_tell       behind them: the others may add up
 *   copies_add        the sum, in fp32 and in the order of the ranks
 *   copies_add_norm   the same with the residual added and the RMS norm of that sum; a block has a row, of which a
 *                     thread has HR_VECTORS vectors
 *
 * Bound: of the two last, memory. */
#include "runtime/cuda/kernels/all_reduce_elements.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"

__device__ inline unsigned *number_of(const all_reduce_call &call, int rank, int number)
{
  return (unsigned *)(call.slabs[rank] + hr_slab_number_of_place(call.place, number));
}

__device__ inline bool is_another(const all_reduce_call &call)
{
  return (int)threadIdx.x < RANKS && (int)threadIdx.x != call.rank;
}

/* The thread of another rank waits until its number is there. */
__device__ inline void await_number(const all_reduce_call &call, int number, unsigned wanted)
{
  const int from = (int)threadIdx.x;
  if (is_another(call)) {
    const unsigned *at = number_of(call, call.rank, number + from);
    patience waiting = {0, 0};
    unsigned there;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(there) : "l"(at) : "memory");
    } while ((int)(there - wanted) < 0 && !waiting.is_over(call, from));
  }
  __syncthreads();
}

/* What was written before is there once the others see the number. */
__device__ inline void tell(const all_reduce_call &call, int number, unsigned value)
{
  if (!is_another(call))
    return;
  asm volatile("fence.acq_rel.sys;" ::: "memory");
  asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(number_of(call, (int)threadIdx.x, number + call.rank)),
               "r"(value)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(32) copies_wait(const all_reduce_call call)
{
  wait_for_kernel_before();
  await_number(call, HR_PLACE_READ, *number_of(call, call.rank, HR_PLACE_SENT));
}

extern "C" __global__ void __launch_bounds__(HR_COPIES_THREADS) copies_send(const all_reduce_call call)
{
  wait_for_kernel_before();
  const int64 vectors = (call.count + 2 * PACKET_ELEMENTS - 1) / (2 * PACKET_ELEMENTS);
  const int64 first = (int64)blockIdx.x * HR_COPIES_THREADS + threadIdx.x;
#pragma unroll
  for (int r = 1; r < RANKS; r++) {
    const int to = (call.rank + r) % RANKS;
    char *room = call.slabs[to] + hr_slab_copies(call.place, RANKS, to, call.rank);
#pragma unroll 4
    for (int64 i = first; i < vectors; i += (int64)gridDim.x * HR_COPIES_THREADS)
      send_vector(room + i * HR_VECTOR_BYTES, load_vector(call, call.send, i));
  }
}

extern "C" __global__ void __launch_bounds__(32) copies_tell(const all_reduce_call call)
{
  wait_for_kernel_before();
  unsigned *sent = number_of(call, call.rank, HR_PLACE_SENT);
  const unsigned number = *sent + 1;
  __syncwarp();
  tell(call, HR_PLACE_COME, number);
  if (threadIdx.x == 0)
    *sent = number;
}

/* Returns the number of the call, which has come from all. */
__device__ inline unsigned begin_adding(const all_reduce_call &call)
{
  const unsigned number = *(const volatile unsigned *)number_of(call, call.rank, HR_PLACE_TAKEN) + 1;
  await_number(call, HR_PLACE_COME, number);
  return number;
}

/* The last block says that the messages have been read: loads are over once sums of them are stored. */
__device__ inline void end_adding(const all_reduce_call &call, unsigned number)
{
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0)
    is_last = atomicAdd(number_of(call, call.rank, HR_PLACE_ENDED), 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last)
    return;
  tell(call, HR_PLACE_READ, number);
  if (threadIdx.x == 0) {
    *number_of(call, call.rank, HR_PLACE_ENDED) = 0;
    *number_of(call, call.rank, HR_PLACE_TAKEN) = number;
  }
}

/* The same vector of all ranks: the own one is there before those of the others. */
struct vectors_of_ranks {
  vector of[RANKS];

  __device__ void load_own(const all_reduce_call &call, int64 i)
  {
    const vector own = load_vector(call, call.send, i);
#pragma unroll
    for (int r = 0; r < RANKS; r++)
      of[r] = own;
  }

  __device__ void load_others(const all_reduce_call &call, int64 i)
  {
    const char *rooms = call.slabs[call.rank] + i * HR_VECTOR_BYTES;
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
      if (r != call.rank)
        of[r] = load_from_peer(rooms + hr_slab_copies(call.place, RANKS, call.rank, r));
    }
  }

  __device__ vector sum() const
  {
    vector_sum all = {{{{0}}, {{0}}}};
#pragma unroll
    for (int r = 0; r < RANKS; r++)
      all.add(of[r]);
    return all.rounded();
  }
};

#define AHEAD 4 /* vectors of a thread on their way together */

extern "C" __global__ void __launch_bounds__(HR_COPIES_THREADS) copies_add(const all_reduce_call call)
{
  wait_for_kernel_before();
  const unsigned number = begin_adding(call);
  const int64 vectors = (call.count + 2 * PACKET_ELEMENTS - 1) / (2 * PACKET_ELEMENTS);
  const int64 stride = (int64)gridDim.x * HR_COPIES_THREADS;
  for (int64 i = (int64)blockIdx.x * HR_COPIES_THREADS + threadIdx.x; i < vectors; i += AHEAD * stride) {
    vectors_of_ranks own[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      if (i + a * stride < vectors) {
        own[a].load_own(call, i + a * stride);
        own[a].load_others(call, i + a * stride);
      }
    }
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      if (i + a * stride < vectors)
        store_vector(call, call.receive, i + a * stride, own[a].sum());
    }
  }
  end_adding(call, number);
}

#ifdef HR_VECTORS
/* The norm is that of the sum before it is rounded. */
extern "C" __global__ void __launch_bounds__(HR_COPIES_THREADS) copies_add_norm(const all_reduce_call call)
{
  wait_for_kernel_before();
  const int vectors = (int)(call.columns / (2 * PACKET_ELEMENTS));
  const int64 first = (int64)blockIdx.x * vectors;
  vector residual[HR_VECTORS];
  vectors_of_ranks own[HR_VECTORS];
  vector_sum sum[HR_VECTORS];
  float squares = 0;
#pragma unroll
  for (int a = 0; a < HR_VECTORS; a++) {
    const int at = a * HR_COPIES_THREADS + (int)threadIdx.x;
    if (at < vectors) {
      residual[a] = load_vector(call, call.residual, first + at);
      own[a].load_own(call, first + at);
    }
  }
  const unsigned number = begin_adding(call);
#pragma unroll
  for (int a = 0; a < HR_VECTORS; a++) {
    const int at = a * HR_COPIES_THREADS + (int)threadIdx.x;
    if (at < vectors)
      own[a].load_others(call, first + at);
  }
#pragma unroll
  for (int a = 0; a < HR_VECTORS; a++) {
    const int at = a * HR_COPIES_THREADS + (int)threadIdx.x;
    sum[a] = vector_sum{{{{0}}, {{0}}}};
    if (at < vectors) {
      sum[a].add(own[a].sum()); /* as copies_add would have left it */
      sum[a].add(residual[a]);
      store_vector(call, call.sum, first + at, sum[a].rounded());
      squares += sum[a].squares();
    }
  }
  const float factor = 1.0f / sqrtf(sum_of_block<HR_COPIES_THREADS>(squares) / (float)call.columns + call.epsilon);
#pragma unroll
  for (int a = 0; a < HR_VECTORS; a++) {
    const int at = a * HR_COPIES_THREADS + (int)threadIdx.x;
    if (at < vectors)
      store_vector(call, call.receive, first + at, sum[a].times(factor, load_vector(call, call.weight, at)));
  }
  end_adding(call, number);
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of a tensor over HR_RANKS GPUs, in fp32 and in the order of the ranks, so that all have the same bits.
 *
 *   all_reduce_one_shot   every rank sends its tensor to all others, and adds up what has arrived: one trip
 *   all_reduce_two_shot   every rank adds up a part of the tensor and sends the sums to the others: two trips, of
 *                         2 / HR_RANKS of the bytes
 *   all_reduce_blocks     two shots of plain vectors: flags, one for each block and shot, take no room in the messages
 *   all_reduce_norm       one shot, with the residual added and the RMS norm of that sum; a block has a row, of which a
 *                         thread has HR_PACKETS packets
 *
 * Bound: the trip over NVLink, 1 to 2 us, then its rate, of which flags of packets take half. */
#include "runtime/cuda/kernels/all_reduce_elements.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"

#define AHEAD 4 /* packets of a thread on their way together */

__device__ inline void send_to_others(const all_reduce_call &call, int64 at, const packet &p, unsigned number)
{
#pragma unroll
  for (int r = 1; r < RANKS; r++)
    send_packet(call.slabs[(call.rank + r) % RANKS] + at, p, number);
}

/* What all have of a packet; the rank's own part has gone nowhere. `room`: of rank 0; `pitch`: bytes to the next. */
__device__ inline floats add_up(const all_reduce_call &call, int64 room, int64 pitch, const packet &own,
                                unsigned number)
{
  floats sum = {{0}};
#pragma unroll
  for (int r = 0; r < RANKS; r++)
    sum.add(r == call.rank ? own : await_packet(call, call.slabs[call.rank] + room + r * pitch, r, number));
  return sum;
}

extern "C" __global__ void __launch_bounds__(HR_ALL_REDUCE_THREADS) all_reduce_one_shot(const all_reduce_call call)
{
  wait_for_kernel_before();
  const int64 packets = (call.count + PACKET_ELEMENTS - 1) / PACKET_ELEMENTS;
  const int64 stride = (int64)gridDim.x * HR_ALL_REDUCE_THREADS;
  const unsigned number = begin_call(call, HR_SLAB_ONE_SHOT);
  const int64 rooms = hr_slab_one_shot(number % 2, RANKS, 0), pitch = hr_slab_one_shot(0, RANKS, 1) - HR_SLAB_HEAD;
  for (int64 i = (int64)blockIdx.x * HR_ALL_REDUCE_THREADS + threadIdx.x; i < packets; i += AHEAD * stride) {
    packet own[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int64 at = i + a * stride;
      if (at < packets) {
        own[a] = load_packet(call, call.send, at);
        send_to_others(call, rooms + call.rank * pitch + at * HR_PACKET_BYTES, own[a], number);
      }
    }
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int64 at = i + a * stride;
      if (at < packets)
        store_packet(call, call.receive, at,
                     add_up(call, rooms + at * HR_PACKET_BYTES, pitch, own[a], number).rounded());
    }
  }
  end_call(call, HR_SLAB_ONE_SHOT, number);
}

/* Part r of the packets is rank r's to add up. */
struct shares {
  int64 packets, each, rooms[2], pitch;
  unsigned number;

  __device__ shares(const all_reduce_call &call)
  {
    packets = (call.count + PACKET_ELEMENTS - 1) / PACKET_ELEMENTS;
    each = (packets + RANKS - 1) / RANKS;
    number = begin_call(call, HR_SLAB_TWO_SHOT);
    rooms[0] = hr_slab_two_shot(number % 2, 0, RANKS, 0);
    rooms[1] = hr_slab_two_shot(number % 2, 1, RANKS, 0);
    pitch = hr_slab_two_shot(0, 0, RANKS, 1) - hr_slab_two_shot(0, 0, RANKS, 0);
  }

  __device__ bool has(int rank, int64 i) const
  {
    return i < each && rank * each + i < packets;
  }
};

__device__ inline void send_parts(const all_reduce_call &call, const shares &s, int64 i)
{
#pragma unroll
  for (int r = 1; r < RANKS; r++) {
    const int to = (call.rank + r) % RANKS;
    if (s.has(to, i))
      send_packet(call.slabs[to] + s.rooms[0] + call.rank * s.pitch + i * HR_PACKET_BYTES,
                  load_packet(call, call.send, to * s.each + i), s.number);
  }
}

__device__ inline void send_sum(const all_reduce_call &call, const shares &s, int64 i)
{
  if (!s.has(call.rank, i))
    return;
  const int64 at = call.rank * s.each + i;
  const packet own = load_packet(call, call.send, at);
  const packet sum = add_up(call, s.rooms[0] + i * HR_PACKET_BYTES, s.pitch, own, s.number).rounded();
  send_to_others(call, s.rooms[1] + call.rank * s.pitch + i * HR_PACKET_BYTES, sum, s.number);
  store_packet(call, call.receive, at, sum);
}

__device__ inline void take_sums(const all_reduce_call &call, const shares &s, int64 i)
{
#pragma unroll
  for (int r = 1; r < RANKS; r++) {
    const int from = (call.rank + r) % RANKS;
    const char *room = call.slabs[call.rank] + s.rooms[1] + from * s.pitch + i * HR_PACKET_BYTES;
    if (s.has(from, i))
      store_packet(call, call.receive, from * s.each + i, await_packet(call, room, from, s.number));
  }
}

extern "C" __global__ void __launch_bounds__(HR_ALL_REDUCE_THREADS) all_reduce_two_shot(const all_reduce_call call)
{
  wait_for_kernel_before();
  const shares s(call);
  const int64 stride = (int64)gridDim.x * HR_ALL_REDUCE_THREADS;
  for (int64 i = (int64)blockIdx.x * HR_ALL_REDUCE_THREADS + threadIdx.x; i < s.each; i += AHEAD * stride) {
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
      send_parts(call, s, i + a * stride);
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
      send_sum(call, s, i + a * stride);
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
      take_sums(call, s, i + a * stride);
  }
  end_call(call, HR_SLAB_TWO_SHOT, s.number);
}

/* ---- large messages ---- */

/* Part r of the vectors is rank r's to add up, of which a block has some. */
struct block_share {
  int64 vectors, each, first, end, rooms[2], pitch;

  __device__ block_share(const all_reduce_call &call, unsigned number)
  {
    vectors = (call.count + 2 * PACKET_ELEMENTS - 1) / (2 * PACKET_ELEMENTS);
    each = (vectors + RANKS - 1) / RANKS;
    const int64 own = (each + gridDim.x - 1) / gridDim.x;
    first = blockIdx.x * own;
    end = first + own < each ? first + own : each;
    rooms[0] = hr_slab_in_blocks(number % 2, 0, RANKS, 0);
    rooms[1] = hr_slab_in_blocks(number % 2, 1, RANKS, 0);
    pitch = hr_slab_in_blocks(0, 0, RANKS, 1) - hr_slab_in_blocks(0, 0, RANKS, 0);
  }

  /* The end of the block's vectors of a rank's part. */
  __device__ int64 end_of(int rank) const
  {
    const int64 left = vectors - rank * each;
    return left < end ? left : end;
  }
};

__device__ inline void send_vectors(const all_reduce_call &call, const block_share &s)
{
#pragma unroll
  for (int r = 1; r < RANKS; r++) {
    const int to = (call.rank + r) % RANKS;
    char *room = call.slabs[to] + s.rooms[0] + call.rank * s.pitch;
#pragma unroll 4
    for (int64 i = s.first + threadIdx.x; i < s.end_of(to); i += HR_ALL_REDUCE_THREADS)
      send_vector(room + i * HR_VECTOR_BYTES, load_vector(call, call.send, to * s.each + i));
  }
}

__device__ inline void send_vector_sums(const all_reduce_call &call, const block_share &s)
{
  const char *room = call.slabs[call.rank] + s.rooms[0];
#pragma unroll 4
  for (int64 i = s.first + threadIdx.x; i < s.end_of(call.rank); i += HR_ALL_REDUCE_THREADS) {
    const int64 at = call.rank * s.each + i;
    vector_sum sum = {{{{0}}, {{0}}}};
#pragma unroll
    for (int r = 0; r < RANKS; r++)
      sum.add(r == call.rank ? load_vector(call, call.send, at)
                             : load_from_peer(room + r * s.pitch + i * HR_VECTOR_BYTES));
    const vector all = sum.rounded();
#pragma unroll
    for (int r = 1; r < RANKS; r++)
      send_vector(call.slabs[(call.rank + r) % RANKS] + s.rooms[1] + call.rank * s.pitch + i * HR_VECTOR_BYTES, all);
    store_vector(call, call.receive, at, all);
  }
}

__device__ inline void take_vector_sums(const all_reduce_call &call, const block_share &s)
{
#pragma unroll
  for (int r = 1; r < RANKS; r++) {
    const int from = (call.rank + r) % RANKS;
    const char *room = call.slabs[call.rank] + s.rooms[1] + from * s.pitch;
#pragma unroll 4
    for (int64 i = s.first + threadIdx.x; i < s.end_of(from); i += HR_ALL_REDUCE_THREADS)
      store_vector(call, call.receive, from * s.each + i, load_from_peer(room + i * HR_VECTOR_BYTES));
  }
}

extern "C" __global__ void __launch_bounds__(HR_ALL_REDUCE_THREADS) all_reduce_blocks(const all_reduce_call call)
{
  wait_for_kernel_before();
  const unsigned number = begin_call(call, HR_SLAB_IN_BLOCKS);
  const block_share s(call, number);
  send_vectors(call, s);
  raise_flags<RANKS>(call, 0, number);
  await_flags<RANKS>(call, 0, number);
  send_vector_sums(call, s);
  raise_flags<RANKS>(call, 1, number);
  await_flags<RANKS>(call, 1, number);
  take_vector_sums(call, s);
  end_call(call, HR_SLAB_IN_BLOCKS, number);
}

#ifdef HR_PACKETS
/* The norm is that of the sum before it is rounded. */
extern "C" __global__ void __launch_bounds__(HR_ALL_REDUCE_NORM_THREADS) all_reduce_norm(const all_reduce_call call)
{
  wait_for_kernel_before();
  const int packets = (int)(call.columns / PACKET_ELEMENTS);
  const int64 first = (int64)blockIdx.x * packets;
  const unsigned number = begin_call(call, HR_SLAB_ONE_SHOT);
  const int64 rooms = hr_slab_one_shot(number % 2, RANKS, 0), pitch = hr_slab_one_shot(0, RANKS, 1) - HR_SLAB_HEAD;
  packet own[HR_PACKETS], residual[HR_PACKETS], weight[HR_PACKETS];
  floats sum[HR_PACKETS];
  float squares = 0;
#pragma unroll
  for (int a = 0; a < HR_PACKETS; a++) {
    const int at = a * HR_ALL_REDUCE_NORM_THREADS + (int)threadIdx.x;
    if (at < packets) {
      own[a] = load_packet(call, call.send, first + at);
      send_to_others(call, rooms + call.rank * pitch + (first + at) * HR_PACKET_BYTES, own[a], number);
    }
  }
#pragma unroll
  for (int a = 0; a < HR_PACKETS; a++) { /* while the others' packets travel */
    const int at = a * HR_ALL_REDUCE_NORM_THREADS + (int)threadIdx.x;
    if (at < packets) {
      residual[a] = load_packet(call, call.residual, first + at);
      weight[a] = load_packet(call, call.weight, at);
    }
  }
#pragma unroll
  for (int a = 0; a < HR_PACKETS; a++) {
    const int at = a * HR_ALL_REDUCE_NORM_THREADS + (int)threadIdx.x;
    if (at < packets) {
      sum[a] = add_up(call, rooms + (first + at) * HR_PACKET_BYTES, pitch, own[a], number);
      const packet reduced = sum[a].rounded();
      sum[a] = floats{{0}};
      sum[a].add(reduced); /* as all_reduce_one_shot would have left it */
      sum[a].add(residual[a]);
      store_packet(call, call.sum, first + at, sum[a].rounded());
#pragma unroll
      for (int k = 0; k < PACKET_ELEMENTS; k++)
        squares += sum[a].value[k] * sum[a].value[k];
    }
  }
  const float factor =
      1.0f / sqrtf(sum_of_block<HR_ALL_REDUCE_NORM_THREADS>(squares) / (float)call.columns + call.epsilon);
#pragma unroll
  for (int a = 0; a < HR_PACKETS; a++) {
    const int at = a * HR_ALL_REDUCE_NORM_THREADS + (int)threadIdx.x;
    if (at < packets) {
      floats normed = {{0}}, times = {{0}};
      times.add(weight[a]);
#pragma unroll
      for (int k = 0; k < PACKET_ELEMENTS; k++)
        normed.value[k] = sum[a].value[k] * factor * times.value[k];
      store_packet(call, call.receive, first + at, normed.rounded());
    }
  }
  end_call(call, HR_SLAB_ONE_SHOT, number);
}
#endif

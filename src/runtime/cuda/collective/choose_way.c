/* SPDX-License-Identifier: Apache-2.0 */
/* The way of an all-reduce is measured once for each size, where there is a choice. It depends on the size alone, which
 * is the same on all ranks; addresses are not. */
#include "runtime/cuda/collective/collective.h"

#include "base/error.h"

#include <math.h>

#define TIMED_RUNS 16              /* of each way */
#define ONE_SHOT_BYTES (256 << 10) /* where nothing is measured, one shot takes messages up to here, */
#define USUAL_BYTES (16 << 20)     /* and own kernels up to here */

static int64_t bytes_of(const hr_collective_call *call)
{
  return call->count * (int64_t)hr_dtype_bytes(call->dtype);
}

/* Ways that are never the fastest for more bytes than these. */
static bool is_candidate(const hr_communicator *c, const hr_collective_call *call, hr_all_reduce_way way)
{
  const int64_t bytes = bytes_of(call);
  const int64_t most[HR_WAY_COUNT] = {
      [HR_WAY_NCCL] = INT64_MAX, [HR_WAY_ONE_SHOT] = 1 << 20, [HR_WAY_TWO_SHOT] = 8 << 20, [HR_WAY_BLOCKS] = 64 << 20};
  const hr_cuda_ranks *r = hr_rank_state(c);
  return (way == HR_WAY_NCCL ? r->comm != NULL : r->slabs[0] != 0) && bytes <= most[way];
}

static hr_all_reduce_way usual_way(const hr_communicator *c, const hr_collective_call *call)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const int64_t bytes = bytes_of(call);
  const bool small = c->small_bytes == 0 ? bytes <= USUAL_BYTES : bytes <= c->small_bytes;
  if (r->slabs[0] == 0 || (r->comm && !small))
    return HR_WAY_NCCL;
  return bytes <= ONE_SHOT_BYTES ? HR_WAY_ONE_SHOT : HR_WAY_BLOCKS;
}

/* The time of one call, a few after another. *ms is untouched if the way is not possible. */
static hr_status time_way(hr_communicator *c, const hr_collective_call *call, hr_all_reduce_way way, cu_stream stream,
                          float *ms, hr_error *error)
{
  const hr_cuda *cuda = hr_rank_cuda(c);
  const hr_driver *driver = &cuda->driver;
  if (!is_candidate(c, call, way))
    return HR_OK;
  for (int run = 0; run < 2 + TIMED_RUNS; run++) {
    if (run == 2)
      HR_TRY(HR_CU(driver, cuEventRecord, (cuda->start, stream), error));
    HR_TRY(hr_cuda_reduce(c, call, way, stream, error));
  }
  HR_TRY(HR_CU(driver, cuEventRecord, (cuda->end, stream), error));
  HR_TRY(hr_communicator_wait(c, stream, error));
  HR_TRY(HR_CU(driver, cuEventSynchronize, (cuda->end), error));
  return HR_CU(driver, cuEventElapsedTime, (ms, cuda->start, cuda->end), error);
}

/* Numbers of its own are added up: the caller's stay. */
static hr_status measure_ways(hr_communicator *c, const hr_collective_call *call, cu_stream stream, float *ms,
                              hr_error *error)
{
  const hr_driver *driver = &hr_rank_cuda(c)->driver;
  const size_t bytes = (size_t)bytes_of(call);
  hr_collective_call own = *call;
  cu_address room = 0;
  HR_TRY(HR_CU(driver, cuMemAlloc_v2, (&room, 2 * bytes + HR_SLAB_HEAD), error));
  own.send = (void *)(uintptr_t)room;
  own.receive = (void *)(uintptr_t)(room + (bytes + HR_SLAB_HEAD - 1) / HR_SLAB_HEAD * HR_SLAB_HEAD);
  hr_status status = HR_CU(driver, cuMemsetD8Async, (room, 0, 2 * bytes, stream), error);
  for (int way = 0; way < HR_WAY_COUNT && status == HR_OK; way++)
    status = time_way(c, &own, (hr_all_reduce_way)way, stream, &ms[way], error);
  driver->cuMemFree_v2(room);
  return status;
}

/* All ranks see the same times, and choose the same. */
static hr_status choose(hr_communicator *c, const hr_collective_call *call, cu_stream stream, hr_all_reduce_way *way,
                        hr_error *error)
{
  float own[HR_WAY_COUNT] = {INFINITY, INFINITY, INFINITY, INFINITY}, all[HR_ALL_REDUCE_RANKS_MAX][HR_WAY_COUNT];
  HR_TRY(measure_ways(c, call, stream, own, error));
  HR_TRY(hr_communicator_exchange(c, "times of all-reduces", own, sizeof own, all, error));
  float best = INFINITY;
  for (int w = 0; w < HR_WAY_COUNT; w++) {
    float slowest = 0;
    for (int64_t r = 0; r < c->meeting->size; r++)
      slowest = fmaxf(slowest, all[r][w]);
    if (slowest < best)
      best = slowest, *way = (hr_all_reduce_way)w;
  }
  return HR_OK;
}

static int size_class(int64_t bytes)
{
  int class = 0;
  while (class < HR_WAYS_KEPT - 1 && INT64_C(1) << class < bytes)
    class ++;
  return class;
}

hr_status hr_cuda_choose_way(hr_communicator *c, const hr_collective_call *call, cu_stream stream,
                             hr_all_reduce_way *way, hr_error *error)
{
  hr_cuda_ranks *r = c->state;
  const int class = size_class(bytes_of(call));
  const bool several = r->comm && r->slabs[0] != 0, measured = several && c->small_bytes == 0;
  int captures = 0;
  *way = r->ways[class].known ? r->ways[class].way : usual_way(c, call);
  if (r->ways[class].known || !measured)
    return HR_OK;
  HR_TRY(HR_CU(&hr_rank_cuda(c)->driver, cuStreamIsCapturing, (stream, &captures), error));
  if (captures)
    return HR_OK;
  HR_TRY(choose(c, call, stream, way, error));
  r->ways[class].known = true;
  r->ways[class].way = *way;
  return HR_OK;
}

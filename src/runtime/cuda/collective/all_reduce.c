/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces by kernels/all_reduce.cu. */
#include "runtime/cuda/collective/collective.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"

#include <stdio.h>

#define BLOCKS_MAX 64 /* more do not fill NVLink better, and a step's other kernels want multiprocessors */

/* ---- kernels ---- */

static int64_t packets_of(const hr_collective_call *call, int64_t count)
{
  return hr_ceil_div(count * (int64_t)hr_dtype_bytes(call->dtype), HR_PACKET_DATA);
}

hr_all_reduce_call hr_cuda_call_of(const hr_communicator *c, const hr_collective_call *x, int64_t first, int64_t count)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const size_t offset = (size_t)first * hr_dtype_bytes(x->dtype);
  hr_all_reduce_call call = {.send = (uintptr_t)x->send + offset,
                             .receive = (uintptr_t)x->receive + offset,
                             .missing = r->missing_on_device,
                             .residual = (uintptr_t)x->residual,
                             .sum = (uintptr_t)x->residual_sum,
                             .weight = (uintptr_t)x->norm_weight,
                             .columns = x->columns,
                             .epsilon = (float)x->epsilon,
                             .count = count,
                             .patience_ns = (int64_t)(c->patience_s * 1e9),
                             .rank = (int)c->meeting->rank};
  for (int64_t i = 0; i < c->meeting->size; i++)
    call.slabs[i] = r->slabs[i];
  return call;
}

/* A row per way: its program, the bytes of what a thread takes at a time, and how many of them a call takes. */
static const struct {
  const char *name;
  int64_t unit, most;
} ways[HR_WAY_COUNT] = {
    [HR_WAY_ONE_SHOT] = {"all_reduce_one_shot", HR_PACKET_DATA, HR_ONE_SHOT_PACKETS},
    [HR_WAY_TWO_SHOT] = {"all_reduce_two_shot", HR_PACKET_DATA, HR_TWO_SHOT_PACKETS},
    [HR_WAY_BLOCKS] = {"all_reduce_blocks", HR_VECTOR_BYTES, HR_BLOCKS_VECTORS},
};

static hr_status function_of(const hr_communicator *c, hr_dtype dtype, hr_all_reduce_way way, cu_function *function,
                             hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  snprintf(defines, sizeof defines, "HR_RANKS=%d", (int)c->meeting->size);
  return hr_cuda_function(hr_rank_cuda(c), "all_reduce", dtype, defines, ways[way].name, function, error);
}

static hr_status launch(const hr_communicator *c, const hr_collective_call *x, int64_t first, int64_t count,
                        hr_all_reduce_way way, cu_stream stream, hr_error *error)
{
  const hr_cuda_queue queue = {hr_rank_cuda(c), stream};
  const int64_t units = hr_ceil_div(count * (int64_t)hr_dtype_bytes(x->dtype), ways[way].unit);
  const int64_t each = way == HR_WAY_ONE_SHOT ? units : hr_ceil_div(units, c->meeting->size);
  const int64_t most = way == HR_WAY_BLOCKS ? HR_ALL_REDUCE_BLOCKS_MAX : BLOCKS_MAX;
  cu_function function;
  hr_all_reduce_call call = hr_cuda_call_of(c, x, first, count);
  void *parameters[] = {&call};
  call.by_element = (call.send | call.receive) % (uint64_t)ways[way].unit != 0;
  HR_TRY(function_of(c, x->dtype, way, &function, error));
  const hr_cuda_kernel kernel = {.function = function,
                                 .blocks = hr_min64(hr_ceil_div(each, HR_ALL_REDUCE_THREADS), most),
                                 .threads = HR_ALL_REDUCE_THREADS,
                                 .early = queue.cuda->capability >= 90};
  return hr_cuda_launch(&queue, &kernel, parameters, error);
}

/* Messages that are larger than the slabs' rooms go in pieces. */
hr_status hr_cuda_reduce_in_slabs(const hr_communicator *c, const hr_collective_call *call, hr_all_reduce_way way,
                                  cu_stream stream, hr_error *error)
{
  const int64_t room = ways[way].most * ways[way].unit / (int64_t)hr_dtype_bytes(call->dtype);
  for (int64_t first = 0; first < call->count; first += room)
    HR_TRY(launch(c, call, first, hr_min64(room, call->count - first), way, stream, error));
  return HR_OK;
}

/* ---- with a norm ---- */

#define NORM_PACKETS_MAX 4 /* of a thread */

bool hr_cuda_one_shot_takes_norm(const hr_communicator *c, const hr_collective_call *x)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const int64_t row = x->columns * (int64_t)hr_dtype_bytes(x->dtype);
  const uint64_t addresses = (uintptr_t)x->send | (uintptr_t)x->receive | (uintptr_t)x->residual |
                             (uintptr_t)x->residual_sum | (uintptr_t)x->norm_weight;
  return r && r->slabs[0] != 0 && c->small_bytes >= 0 && row % HR_PACKET_DATA == 0 && addresses % HR_PACKET_DATA == 0 &&
         packets_of(x, x->count) <= HR_ONE_SHOT_PACKETS &&
         row / HR_PACKET_DATA <= NORM_PACKETS_MAX * HR_ALL_REDUCE_NORM_THREADS;
}

static hr_status norm_function(const hr_communicator *c, const hr_collective_call *x, cu_function *function,
                               hr_error *error)
{
  const int64_t of_thread = hr_ceil_div(packets_of(x, x->columns), HR_ALL_REDUCE_NORM_THREADS);
  char defines[HR_DEFINES_SIZE];
  snprintf(defines, sizeof defines, "HR_RANKS=%d HR_PACKETS=%d", (int)c->meeting->size,
           of_thread <= 1   ? 1
           : of_thread <= 2 ? 2
                            : NORM_PACKETS_MAX);
  return hr_cuda_function(hr_rank_cuda(c), "all_reduce", x->dtype, defines, "all_reduce_norm", function, error);
}

hr_status hr_cuda_reduce_with_norm(const hr_communicator *c, const hr_collective_call *x, cu_stream stream,
                                   hr_error *error)
{
  const hr_cuda_queue queue = {hr_rank_cuda(c), stream};
  cu_function function;
  hr_all_reduce_call call = hr_cuda_call_of(c, x, 0, x->count);
  void *parameters[] = {&call};
  HR_TRY(norm_function(c, x, &function, error));
  const hr_cuda_kernel kernel = {.function = function,
                                 .blocks = x->count / x->columns,
                                 .threads = HR_ALL_REDUCE_NORM_THREADS,
                                 .early = queue.cuda->capability >= 90};
  return hr_cuda_launch(&queue, &kernel, parameters, error);
}

/* ---- programs ---- */

hr_status hr_cuda_load_ways(const hr_communicator *c, const hr_collective_call *x, hr_error *error)
{
  cu_function function;
  if (x->kind != HR_ALL_REDUCE || !hr_rank_state(c) || hr_rank_state(c)->slabs[0] == 0)
    return HR_OK;
  if (x->columns > 0)
    return norm_function(c, x, &function, error);
  for (int way = HR_WAY_NCCL + 1; way < HR_WAY_COUNT; way++)
    HR_TRY(function_of(c, x->dtype, (hr_all_reduce_way)way, &function, error));
  return HR_OK;
}

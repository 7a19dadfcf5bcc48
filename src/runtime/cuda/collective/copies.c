/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces in two parts by kernels/all_reduce_copies.cu: copy engines bring the tensor of every rank to all others,
 * and the sum is made where it is wanted. A kernel that sends beside a GEMM takes multiprocessors away from it for as
 * long as it runs: on two H200s a prefill of Llama-3.1-8B in pieces with all_reduce_blocks beside took 1.03 of the time
 * in order, with 16 blocks 1.04, with NCCL 1.04. */
#include "runtime/cuda/collective/collective.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/device/clock.h"

#include <sched.h>
#include <stdio.h>

#define ADDING_BLOCKS_MAX 1024
#define SENDING_BLOCKS_MAX 256
#define NORM_VECTORS_MAX 8 /* of a thread */

static int64_t bytes_of(const hr_collective_call *x, int64_t count)
{
  return count * (int64_t)hr_dtype_bytes(x->dtype);
}

bool hr_cuda_sends_beside(const hr_communicator *c, const hr_collective_call *x)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  return r && r->slabs[0] != 0 && c->small_bytes >= 0 && c->meeting->size <= HR_COPIES_RANKS_MAX &&
         x->kind == HR_ALL_REDUCE && bytes_of(x, x->count) <= HR_COPIES_BYTES;
}

bool hr_cuda_copies_take_norm(const hr_communicator *c, const hr_collective_call *x)
{
  const int64_t row = bytes_of(x, x->columns);
  const uint64_t addresses = (uintptr_t)x->send | (uintptr_t)x->receive | (uintptr_t)x->residual |
                             (uintptr_t)x->residual_sum | (uintptr_t)x->norm_weight;
  return hr_cuda_sends_beside(c, x) && row % HR_VECTOR_BYTES == 0 && addresses % HR_VECTOR_BYTES == 0 &&
         row / HR_VECTOR_BYTES <= NORM_VECTORS_MAX * HR_COPIES_THREADS;
}

/* ---- programs ---- */

static hr_status function_of(const hr_communicator *c, hr_dtype dtype, const char *name, cu_function *function,
                             hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  snprintf(defines, sizeof defines, "HR_RANKS=%d", (int)c->meeting->size);
  return hr_cuda_function(hr_rank_cuda(c), "all_reduce_copies", dtype, defines, name, function, error);
}

static hr_status norm_function(const hr_communicator *c, const hr_collective_call *x, cu_function *function,
                               hr_error *error)
{
  const int64_t of_thread = hr_ceil_div(bytes_of(x, x->columns) / HR_VECTOR_BYTES, HR_COPIES_THREADS);
  int vectors = 1;
  while (vectors < of_thread)
    vectors *= 2;
  char defines[HR_DEFINES_SIZE];
  snprintf(defines, sizeof defines, "HR_RANKS=%d HR_VECTORS=%d", (int)c->meeting->size, vectors);
  return hr_cuda_function(hr_rank_cuda(c), "all_reduce_copies", x->dtype, defines, "copies_add_norm", function, error);
}

hr_status hr_cuda_load_copies(const hr_communicator *c, const hr_collective_call *x, hr_error *error)
{
  static const char *const names[] = {"copies_wait", "copies_send", "copies_tell", "copies_add"};
  cu_function function;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    HR_TRY(function_of(c, x->dtype, names[i], &function, error));
  return x->columns > 0 ? norm_function(c, x, &function, error) : HR_OK;
}

/* ---- calls ---- */

static hr_status launch(const hr_communicator *c, const hr_collective_call *x, cu_function function, int64_t blocks,
                        unsigned threads, cu_stream stream, hr_error *error)
{
  const hr_cuda_queue queue = {hr_rank_cuda(c), stream};
  hr_all_reduce_call call = hr_cuda_call_of(c, x, 0, x->count);
  void *parameters[] = {&call};
  call.place = (int)x->place;
  call.by_element = (call.send | call.receive) % HR_VECTOR_BYTES != 0;
  const hr_cuda_kernel kernel = {
      .function = function, .blocks = blocks, .threads = threads, .early = queue.cuda->capability >= 90};
  return hr_cuda_launch(&queue, &kernel, parameters, error);
}

static int64_t blocks_of(const hr_collective_call *x, int64_t most)
{
  return hr_min64(hr_ceil_div(bytes_of(x, x->count), HR_VECTOR_BYTES * HR_COPIES_THREADS), most);
}

static hr_status copy_to_others(const hr_communicator *c, const hr_collective_call *x, cu_stream stream,
                                hr_error *error)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const int rank = (int)c->meeting->rank, size = (int)c->meeting->size;
  for (int i = 1; i < size; i++) {
    const int to = (rank + i) % size;
    const cu_address room = r->slabs[to] + (cu_address)hr_slab_copies((int)x->place, size, to, rank);
    HR_TRY(HR_CU(&hr_rank_cuda(c)->driver, cuMemcpyDtoDAsync_v2,
                 (room, (cu_address)(uintptr_t)x->send, (size_t)bytes_of(x, x->count), stream), error));
  }
  return HR_OK;
}

/* Outside of recordings a kernel sends: the driver stops threads once many copies are under way, with a lock that the
 * other ranks of the process need to send what these copies wait for. */
static hr_status send(const hr_communicator *c, const hr_collective_call *x, cu_stream stream, hr_error *error)
{
  int captures = 0;
  cu_function sends;
  HR_TRY(HR_CU(&hr_rank_cuda(c)->driver, cuStreamIsCapturing, (stream, &captures), error));
  if (captures)
    return copy_to_others(c, x, stream, error);
  HR_TRY(function_of(c, x->dtype, "copies_send", &sends, error));
  return launch(c, x, sends, blocks_of(x, SENDING_BLOCKS_MAX), HR_COPIES_THREADS, stream, error);
}

hr_status hr_cuda_begin_copies(const hr_communicator *c, const hr_collective_call *x, cu_stream stream, hr_error *error)
{
  cu_function waits, tells;
  HR_TRY(function_of(c, x->dtype, "copies_wait", &waits, error));
  HR_TRY(function_of(c, x->dtype, "copies_tell", &tells, error));
  HR_TRY(launch(c, x, waits, 1, 32, stream, error));
  HR_TRY(send(c, x, stream, error));
  return launch(c, x, tells, 1, 32, stream, error);
}

hr_status hr_cuda_end_copies(const hr_communicator *c, const hr_collective_call *x, cu_stream stream, hr_error *error)
{
  cu_function adds;
  if (x->columns > 0) {
    HR_TRY(norm_function(c, x, &adds, error));
    return launch(c, x, adds, x->count / x->columns, HR_COPIES_THREADS, stream, error);
  }
  HR_TRY(function_of(c, x->dtype, "copies_add", &adds, error));
  return launch(c, x, adds, blocks_of(x, ADDING_BLOCKS_MAX), HR_COPIES_THREADS, stream, error);
}

/* ---- at the end ---- */

/* The numbers of all places, [place][number]. */
static hr_status read_places(const hr_communicator *c, unsigned *numbers, size_t bytes)
{
  const hr_cuda *cuda = hr_rank_cuda(c);
  const cu_address at = hr_rank_state(c)->slab + (cu_address)hr_slab_number_of_place(0, 0);
  HR_TRY(HR_CU(&cuda->driver, cuMemcpyDtoHAsync_v2, (numbers, at, bytes, cuda->stream), NULL));
  return HR_CU(&cuda->driver, cuStreamSynchronize, (cuda->stream), NULL);
}

static bool all_have_read(const hr_communicator *c, const unsigned *numbers)
{
  for (int place = 0; place < HR_COPIES_PLACES; place++, numbers += HR_PLACE_NUMBERS) {
    for (int r = 0; r < (int)c->meeting->size; r++) {
      if (r != (int)c->meeting->rank && numbers[HR_PLACE_READ + r] != numbers[HR_PLACE_SENT])
        return false;
    }
  }
  return true;
}

void hr_cuda_await_readers(const hr_communicator *c)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  unsigned numbers[HR_COPIES_PLACES * HR_PLACE_NUMBERS];
  const double until_ns = hr_clock_ns() + c->patience_s * 1e9;
  if (!r->slab || r->slabs[0] == 0 || c->meeting->size > HR_COPIES_RANKS_MAX)
    return;
  while (*r->missing == 0 && c->meeting->functions->check(c->meeting, NULL) == HR_OK && hr_clock_ns() < until_ns) {
    if (read_places(c, numbers, sizeof numbers) != HR_OK || all_have_read(c, numbers))
      return;
    sched_yield();
  }
}

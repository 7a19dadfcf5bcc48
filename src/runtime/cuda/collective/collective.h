/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on NVIDIA GPUs: NCCL, and for small all-reduces kernels that write into memory of the others' GPUs. Thread
 * safety: as communicators. */
#ifndef HR_RUNTIME_CUDA_COLLECTIVE_COLLECTIVE_H
#define HR_RUNTIME_CUDA_COLLECTIVE_COLLECTIVE_H

#include "runtime/communicator/communicator.h"
#include "runtime/cuda/collective/nccl.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/kernels/all_reduce_layout.h"

/** How an all-reduce goes. */
typedef enum hr_all_reduce_way {
  HR_WAY_NCCL,
  HR_WAY_ONE_SHOT,
  HR_WAY_TWO_SHOT,
  HR_WAY_BLOCKS,
  HR_WAY_COUNT
} hr_all_reduce_way;

#define HR_WAYS_KEPT 40 /* powers of two of bytes */

/** hr_communicator.state of a CUDA device. */
typedef struct hr_cuda_ranks {
  hr_nccl nccl;   /* handle NULL: not there */
  nccl_comm comm; /* NULL: none */
  hr_error no_nccl;
  cu_address slab; /* own; 0: GPUs that do not see each other's memory */
  hr_error no_peers;
  cu_address slabs[HR_ALL_REDUCE_RANKS_MAX];
  bool opened[HR_ALL_REDUCE_RANKS_MAX]; /* of another process */
  volatile int *missing;                /* of the host: 1 + a rank that has not come, which kernels write */
  cu_address missing_on_device;
  cu_event reached; /* of hr_communicator_wait() */
  struct {
    bool known;
    hr_all_reduce_way way;
  } ways[HR_WAYS_KEPT]; /* by the logarithm of the bytes */
} hr_cuda_ranks;

/** The open GPU of a rank, and its state. */
static inline const hr_cuda *hr_rank_cuda(const hr_communicator *c)
{
  return c->device->state;
}

static inline hr_cuda_ranks *hr_rank_state(const hr_communicator *c)
{
  return c->state;
}

/** hr_backend's functions. */
hr_status hr_cuda_connect(hr_communicator *const *communicators, int64_t count, hr_error *error);
void hr_cuda_disconnect(hr_communicator *communicator);
hr_status hr_cuda_prepare_call(hr_communicator *communicator, const hr_collective_call *call, hr_error *error);
hr_status hr_cuda_communicate(hr_communicator *communicator, const hr_collective_call *call, void *stream,
                              hr_error *error);
hr_status hr_cuda_await_ranks(hr_communicator *communicator, void *stream, hr_error *error);

/** HR_ERROR_UNAVAILABLE once a kernel has waited in vain; it has added zeros for the rank that it names. */
hr_status hr_cuda_check_missing(const hr_communicator *communicator, hr_error *error);

/** Makes slabs and shows them to the others; *why says why not, if that is no error. In no context. */
hr_status hr_cuda_share_slabs(hr_communicator *const *communicators, int64_t count, hr_error *error);
void hr_cuda_free_slab(const hr_communicator *communicator);

/** Loads the programs of an all-reduce. In the device's context. */
hr_status hr_cuda_load_ways(const hr_communicator *communicator, const hr_collective_call *call, hr_error *error);

/** An all-reduce by own kernels, of any size. In the device's context. */
hr_status hr_cuda_reduce_in_slabs(const hr_communicator *communicator, const hr_collective_call *call,
                                  hr_all_reduce_way way, cu_stream stream, hr_error *error);

/** hr_backend.takes_norm, whether one shot does, and such a call; in the device's context. */
bool hr_cuda_takes_norm(const hr_communicator *communicator, const hr_collective_call *call);
bool hr_cuda_one_shot_takes_norm(const hr_communicator *communicator, const hr_collective_call *call);
hr_status hr_cuda_reduce_with_norm(const hr_communicator *communicator, const hr_collective_call *call,
                                   cu_stream stream, hr_error *error);

/** The way that takes the least time on the slowest rank, measured once for each power of two of bytes. Every rank
 *  calls it; in the device's context, on a stream that is not captured. */
hr_status hr_cuda_choose_way(hr_communicator *communicator, const hr_collective_call *call, cu_stream stream,
                             hr_all_reduce_way *way, hr_error *error);

/** Calls whose messages copy engines bring: hr_backend.sends_beside, whether one ends with a norm, their programs, and
 *  the two parts. But for the first two in the device's context. */
bool hr_cuda_sends_beside(const hr_communicator *communicator, const hr_collective_call *call);
bool hr_cuda_copies_take_norm(const hr_communicator *communicator, const hr_collective_call *call);
hr_status hr_cuda_load_copies(const hr_communicator *communicator, const hr_collective_call *call, hr_error *error);
hr_status hr_cuda_begin_copies(const hr_communicator *communicator, const hr_collective_call *call, cu_stream stream,
                               hr_error *error);
hr_status hr_cuda_end_copies(const hr_communicator *communicator, const hr_collective_call *call, cu_stream stream,
                             hr_error *error);

/** Waits until the others have added up all messages that were sent to them: then they write no more into the slab of
 *  this rank. Not for ranks that are gone or have given up, and as long as patience allows. In the device's context. */
void hr_cuda_await_readers(const hr_communicator *communicator);

/** The parameter of programs for `count` elements from `first` on. */
hr_all_reduce_call hr_cuda_call_of(const hr_communicator *communicator, const hr_collective_call *call, int64_t first,
                                   int64_t count);

/** One call by one way. In the device's context. */
hr_status hr_cuda_reduce(hr_communicator *communicator, const hr_collective_call *call, hr_all_reduce_way way,
                         cu_stream stream, hr_error *error);

#endif

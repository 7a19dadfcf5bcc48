/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that work on one step together: threads of a process, or processes of one host or several, with a device each;
 * and what they send each other.
 *
 * Thread safety: one thread at a time may use a communicator; those of the other ranks are used at the same time. */
#ifndef HEADROOM_EXPERIMENTAL_COMMUNICATOR_H
#define HEADROOM_EXPERIMENTAL_COMMUNICATOR_H

#include <headroom/collective.h>
#include <headroom/device.h>
#include <headroom/dtype.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_communicator hr_communicator;

typedef struct hr_communicator_options {
  size_t struct_size;  /* sizeof(hr_communicator_options), set by hr_communicator_options_default() */
  double patience_s;   /* how long the others may be missing; 0, the default: 10 */
  int64_t rank, size;  /* of hr_communicator_join(): this process and the number of all */
  int64_t local_rank;  /* the same: its number on its host, and that of its GPU */
  int64_t port;        /* the same: at which rank 0 listens */
  char address[256];   /* the same: of the host of rank 0, a name or an IP address */
  int64_t small_bytes; /* messages up to this size go through memory of the peers' GPUs by Headroom's own kernels, and
                          the library takes larger ones; 0, the default: what a measurement at the start finds best;
                          −1: none */
  int64_t local_size;  /* of hr_communicator_environment(): processes on this host; 0: not known */
} hr_communicator_options;

/** 10 seconds; one process. */
HR_API void hr_communicator_options_init(hr_communicator_options *options, size_t size);
HR_DEFAULT(hr_communicator_options)

/** Fills rank, size, local_rank, local_size, address and port from the variables that torchrun (WORLD_SIZE, RANK,
 *  LOCAL_RANK, LOCAL_WORLD_SIZE), Open MPI's mpirun (OMPI_COMM_WORLD_SIZE, …_RANK, …_LOCAL_RANK, …_LOCAL_SIZE) or Slurm
 *  (SLURM_STEP_NUM_TASKS, SLURM_PROCID, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE) set, the first whose size is there.
 *  The address is MASTER_ADDR, else the first host of SLURM_STEP_NODELIST, else this host if all are here, else "". The
 *  port is HEADROOM_PORT, else the one behind MASTER_PORT, where torchrun listens, else one of SLURM_JOB_ID.
 *  HR_ERROR_NOT_FOUND without a launcher; HR_ERROR_INVALID names a variable that is missing or no number. */
HR_API hr_status hr_communicator_environment(hr_communicator_options *options, hr_error *error);

/** Joins `count` devices of this process: communicators[i] is rank i, to be used by a thread of its own. The caller
 *  frees each of them before its device. HR_ERROR_INVALID for devices of several kinds and for a GPU that is given
 *  twice; errors of hr_communicator_join(). `options` NULL: the default. */
HR_API hr_status hr_communicators_create(hr_device *const *devices, int64_t count,
                                         const hr_communicator_options *options, hr_communicator **communicators,
                                         hr_error *error);

/** Joins this process to the others, which call it, too: rank 0 listens at address and port, the others connect. The
 *  caller frees *communicator before the device. HR_ERROR_INVALID for a rank that is not below size, for a rank or a
 *  GPU that two processes have, and without an address; HR_ERROR_UNAVAILABLE if the others do not come in time, or have
 *  another version. */
HR_API hr_status hr_communicator_join(hr_device *device, const hr_communicator_options *options,
                                      hr_communicator **communicator, hr_error *error);

/** Leaves the others, whose calls fail from then on: once all ranks' calls are over. NULL is ignored. */
HR_API void hr_communicator_free(hr_communicator *communicator);

/** This one, from 0. */
HR_API int64_t hr_communicator_rank(const hr_communicator *communicator);

/** The number of all. */
HR_API int64_t hr_communicator_size(const hr_communicator *communicator);

/** A call, or the first or second of two that are an all-reduce: hr_collective_call.part. */
typedef enum hr_call_part { HR_CALL_WHOLE, HR_CALL_BEGIN, HR_CALL_END } hr_call_part;

#define HR_CALLS_UNDER_WAY 8 /* all-reduces that may have begun and not ended */

/** A call that every rank makes, in the same order. Addresses are of the communicator's device. */
typedef struct hr_collective_call {
  size_t struct_size; /* sizeof(hr_collective_call), set by hr_collective_call_default() */
  hr_collective_kind kind;
  hr_dtype dtype;   /* fp32, bf16 or fp16; sums are made in fp32, in the order of the ranks */
  int64_t count;    /* elements, as HR_COLLECTIVE_LIST counts bytes */
  int64_t peer;     /* of a broadcast the rank that has the data; of a message the rank that gets `send` */
  int64_t source;   /* of a message the rank that `receive` comes from */
  const void *send; /* NULL: of a message, nothing is sent */
  void *receive; /* the same; may be `send` of an all-reduce and a broadcast. Of a reduce-scatter [count / size], which
                       may be the rank's part of `send`, as that of an all-gather may be the rank's part of this */
  /* An all-reduce with columns > 0 has rows of that many elements: residual_sum = the sum + residual, in whose place it
     may be, and receive = that, divided by its root mean square over a row (Zhang and Sennrich 2019, arXiv 1910.07467)
     and times norm_weight [columns]. What is rounded in between is the sum over the ranks. */
  int64_t columns;
  const void *residual, *norm_weight;
  void *residual_sum;
  double epsilon; /* added to the mean of squares */
  /* An all-reduce in two calls, between which a device does other work: the first, on a stream beside, sends, and the
     second, on the stream that waits for it, has the result; the operands of both are the same, and stay as they are in
     between, but that a norm, and the place of its result, is that of the second. Calls that are under way have places
     of their own. */
  hr_call_part part;
  int64_t place; /* 0 to HR_CALLS_UNDER_WAY − 1 */
} hr_collective_call;

/** An all-reduce of nothing, in fp32. */
HR_API void hr_collective_call_init(hr_collective_call *call, size_t size);
HR_DEFAULT(hr_collective_call)

/** Queues the call on a stream of the device's context (NULL: the default stream; not read by CPUs), where it can be
 *  captured; a CPU has done it when it returns. The first call of a kind, dtype and count compares it with the others'
 *  on the host: HR_ERROR_INVALID names the rank that asks for something else. HR_ERROR_UNAVAILABLE names a rank that
 *  has not come within `patience_s`, or that has given up; from then on every call fails so. Each result has the same
 *  bits on all ranks, and in each run. */
HR_API hr_status hr_communicate(hr_communicator *communicator, const hr_collective_call *call, void *stream,
                                hr_error *error);

/** Whether hr_communicate() takes an all-reduce with a norm: on CPUs always; on GPUs that see each other's memory up to
 *  a MiB of rows of up to 16 KiB, with addresses and rows that are multiples of 8 bytes; of an all-reduce in two parts
 *  where the first leaves multiprocessors free, with multiples of 16 bytes and rows of up to 32 KiB. */
HR_API bool hr_communicator_takes_norm(const hr_communicator *communicator, const hr_collective_call *call);

/** Whether the first part of such an all-reduce leaves multiprocessors free: of up to 16 MiB between 2 to 4 GPUs that
 *  see each other's memory, whose messages copy engines bring where the stream is captured. Elsewhere the first part
 *  does all, on a CPU the second. */
HR_API bool hr_communicator_sends_beside(const hr_communicator *communicator, const hr_collective_call *call);

/** Waits until what was queued on the stream is over. HR_ERROR_UNAVAILABLE as above: kernels that wait for a rank that
 *  does not come end after `patience_s`. */
HR_API hr_status hr_communicator_wait(hr_communicator *communicator, void *stream, hr_error *error);

/** Waits for all ranks, however long they take, until one has given up. */
HR_API hr_status hr_communicator_meet(hr_communicator *communicator, hr_error *error);

/** Gives every rank what all have on their hosts: `bytes` of `mine`, which go to `all` [size, bytes] in the order of
 *  the ranks. Errors of hr_communicate(). */
HR_API hr_status hr_communicator_share(hr_communicator *communicator, const void *mine, size_t bytes, void *all,
                                       hr_error *error);

/** Gives up: every call of every rank fails from then on, and says this rank and the reason. */
HR_API void hr_communicator_give_up(hr_communicator *communicator, const char *reason);

#ifdef __cplusplus
}
#endif
#endif

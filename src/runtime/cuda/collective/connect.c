/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/collective/collective.h"

#include "base/error.h"
#include "runtime/device/clock.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOKS_AT_OTHERS 4096 /* polls between them */

/* ---- joining ---- */

/* Rank 0 makes the name of the meeting. */
static hr_status share_id(hr_communicator *const *cs, const hr_nccl *nccl, nccl_id *id, hr_error *error)
{
  nccl_id own = {{0}};
  const int64_t size = cs[0]->meeting->size;
  if (cs[0]->meeting->rank == 0)
    HR_TRY(HR_CHECK_NCCL(nccl, ncclGetUniqueId, (&own), error));
  *id = own;
  if (cs[0]->meeting->one_process)
    return HR_OK;
  nccl_id *all = malloc((size_t)size * sizeof *all);
  if (!all)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " ranks", size);
  hr_status status = hr_communicator_exchange(cs[0], "NCCL", &own, sizeof own, all, error);
  if (status == HR_OK)
    *id = all[0];
  free(all);
  return status;
}

static hr_status start_comm(hr_communicator *c, nccl_id id, hr_error *error)
{
  hr_cuda_ranks *r = hr_rank_state(c);
  HR_TRY(hr_cuda_enter(hr_rank_cuda(c), error));
  hr_status status =
      HR_CHECK_NCCL(&r->nccl, ncclCommInitRank, (&r->comm, (int)c->meeting->size, id, (int)c->meeting->rank), error);
  hr_cuda_leave(hr_rank_cuda(c));
  return status;
}

static hr_status start_nccl(hr_communicator *const *cs, int64_t count, hr_error *error)
{
  const hr_nccl *nccl = &hr_rank_state(cs[0])->nccl;
  nccl_id id;
  HR_TRY(share_id(cs, nccl, &id, error));
  HR_TRY(HR_CHECK_NCCL(nccl, ncclGroupStart, (), error));
  hr_status status = HR_OK;
  for (int64_t i = 0; i < count && status == HR_OK; i++)
    status = start_comm(cs[i], id, error);
  const nccl_result ended = nccl->ncclGroupEnd();
  return status == HR_OK ? hr_nccl_check(nccl, ended, "ncclGroupEnd", error) : status;
}

/* All ranks or none: a process without the library is known to all. */
static hr_status find_nccl(hr_communicator *const *cs, int64_t count, bool *found, hr_error *error)
{
  bool own = true, all[HR_ALL_REDUCE_RANKS_MAX * 128] = {false};
  for (int64_t i = 0; i < count; i++) {
    hr_cuda_ranks *r = hr_rank_state(cs[i]);
    own = hr_nccl_open(&r->nccl, &r->no_nccl) == HR_OK && own;
  }
  *found = own;
  if (cs[0]->meeting->one_process)
    return HR_OK;
  HR_TRY(hr_communicator_exchange(cs[0], "NCCL", &own, sizeof own, all, error));
  for (int64_t i = 0; i < cs[0]->meeting->size; i++) {
    if (*found && !all[i])
      hr_fail(&hr_rank_state(cs[0])->no_nccl, HR_ERROR_UNAVAILABLE, "rank %" PRId64 " has no NCCL", i);
    *found = *found && all[i];
  }
  return HR_OK;
}

/* NCCL refuses two ranks of one GPU, which tests have. */
static bool shares_gpus(hr_communicator *const *cs, int64_t count)
{
  for (int64_t i = 1; i < count; i++) {
    if (hr_rank_cuda(cs[i])->context == hr_rank_cuda(cs[0])->context)
      return true;
  }
  return false;
}

hr_status hr_cuda_connect(hr_communicator *const *cs, int64_t count, hr_error *error)
{
  bool found = false;
  if (cs[0]->meeting->size == 1)
    return HR_OK;
  for (int64_t i = 0; i < count; i++) {
    cs[i]->state = calloc(1, sizeof(hr_cuda_ranks));
    if (!cs[i]->state)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " ranks", count);
  }
  if (cs[0]->small_bytes >= 0)
    HR_TRY(hr_cuda_share_slabs(cs, count, error));
  if (shares_gpus(cs, count))
    hr_fail(&hr_rank_state(cs[0])->no_nccl, HR_ERROR_UNAVAILABLE, "ranks share a GPU");
  else
    HR_TRY(find_nccl(cs, count, &found, error));
  if (found)
    return start_nccl(cs, count, error);
  const hr_cuda_ranks *r = hr_rank_state(cs[0]);
  if (r->slabs[0] == 0)
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s%s%s", r->no_nccl.message, r->no_peers.message[0] ? ", and " : "",
                   r->no_peers.message);
  return HR_OK;
}

/* Calls may be in any stream. Those that wait for a rank that is gone end. */
void hr_cuda_disconnect(hr_communicator *c)
{
  hr_cuda_ranks *r = hr_rank_state(c);
  if (hr_cuda_enter(hr_rank_cuda(c), NULL) == HR_OK) {
    if (r->missing && *r->missing == 0 && c->meeting->functions->check(c->meeting, NULL) != HR_OK)
      *r->missing = 1 + (int)c->meeting->rank;
    hr_rank_cuda(c)->driver.cuCtxSynchronize();
    hr_cuda_await_readers(c);
    if (r->comm)
      r->nccl.ncclCommAbort(r->comm); /* destroying one waits for the others, which may have gone */
    hr_cuda_free_slab(c);
    hr_cuda_leave(hr_rank_cuda(c));
  }
  hr_nccl_close(&r->nccl);
  free(r);
  c->state = NULL;
}

/* ---- waiting ---- */

/* Kernels that wait look at `missing`, and end. */
static hr_status end_kernels(const hr_communicator *c, const hr_error *reason, hr_error *error)
{
  hr_cuda_ranks *r = hr_rank_state(c);
  if (r->missing && *r->missing == 0)
    *r->missing = 1 + (int)c->meeting->rank;
  if (r->comm)
    r->nccl.ncclCommAbort(r->comm);
  r->comm = NULL;
  return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s", reason->message);
}

static hr_status wait_for_event(const hr_communicator *c, hr_error *error)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const hr_driver *driver = &hr_rank_cuda(c)->driver;
  for (int64_t polls = 1;; polls++) {
    hr_error reason;
    const cu_result result = driver->cuEventQuery(r->reached);
    if (result == CU_SUCCESS)
      return HR_OK;
    if (result != CU_NOT_READY)
      return hr_driver_check(driver, result, "cuEventQuery", error);
    if (polls % LOOKS_AT_OTHERS == 0) {
      if (c->meeting->functions->check(c->meeting, &reason) != HR_OK)
        return end_kernels(c, &reason, error);
      sched_yield();
    }
  }
}

static hr_status wait_in_context(const hr_communicator *c, cu_stream stream, hr_error *error)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const hr_driver *driver = &hr_rank_cuda(c)->driver;
  if (!r || !r->reached)
    return HR_CU(driver, cuStreamSynchronize, (stream), error);
  HR_TRY(HR_CU(driver, cuEventRecord, (r->reached, stream), error));
  HR_TRY(wait_for_event(c, error));
  return hr_cuda_check_missing(c, error);
}

hr_status hr_cuda_check_missing(const hr_communicator *c, hr_error *error)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  if (!r || !r->missing || *r->missing == 0)
    return HR_OK;
  const int rank = *r->missing - 1;
  char reason[96];
  snprintf(reason, sizeof reason, "rank %d has not come to an all-reduce", rank);
  hr_communicator_give_up((hr_communicator *)(uintptr_t)c, reason);
  return hr_fail(error, HR_ERROR_UNAVAILABLE, "rank %d of %" PRId64 " has not come to an all-reduce within %g s", rank,
                 c->meeting->size, c->patience_s);
}

hr_status hr_cuda_await_ranks(hr_communicator *c, void *stream, hr_error *error)
{
  HR_TRY(c->meeting->functions->check(c->meeting, error));
  HR_TRY(hr_cuda_enter(hr_rank_cuda(c), error));
  hr_status status = wait_in_context(c, stream, error);
  hr_cuda_leave(hr_rank_cuda(c));
  return status;
}

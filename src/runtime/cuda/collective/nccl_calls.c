/* SPDX-License-Identifier: Apache-2.0 */
/* Calls through NCCL, and the two ways of an all-reduce. */
#include "runtime/cuda/collective/collective.h"

#include "base/error.h"

static int type_of(hr_dtype dtype)
{
  return dtype == HR_FP32 ? NCCL_FP32 : dtype == HR_BF16 ? NCCL_BF16 : NCCL_FP16;
}

static hr_status exchange_parts(const hr_communicator *c, const hr_collective_call *x, cu_stream stream,
                                hr_error *error)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const int64_t size = c->meeting->size, part = x->count / size;
  const size_t bytes = (size_t)part * hr_dtype_bytes(x->dtype);
  const int type = type_of(x->dtype);
  HR_TRY(HR_CHECK_NCCL(&r->nccl, ncclGroupStart, (), error));
  hr_status status = HR_OK;
  for (int64_t i = 0; i < size && status == HR_OK; i++) {
    const char *from = (const char *)x->send + (size_t)i * bytes;
    char *to = (char *)x->receive + (size_t)i * bytes;
    status = HR_CHECK_NCCL(&r->nccl, ncclSend, (from, (size_t)part, type, (int)i, r->comm, stream), error);
    if (status == HR_OK)
      status = HR_CHECK_NCCL(&r->nccl, ncclRecv, (to, (size_t)part, type, (int)i, r->comm, stream), error);
  }
  const nccl_result ended = r->nccl.ncclGroupEnd();
  return status == HR_OK ? hr_nccl_check(&r->nccl, ended, "ncclGroupEnd", error) : status;
}

static hr_status pass_message(const hr_communicator *c, const hr_collective_call *x, cu_stream stream, hr_error *error)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const int type = type_of(x->dtype);
  hr_status status = HR_OK;
  HR_TRY(HR_CHECK_NCCL(&r->nccl, ncclGroupStart, (), error));
  if (x->send)
    status = HR_CHECK_NCCL(&r->nccl, ncclSend, (x->send, (size_t)x->count, type, (int)x->peer, r->comm, stream), error);
  if (x->receive && status == HR_OK)
    status =
        HR_CHECK_NCCL(&r->nccl, ncclRecv, (x->receive, (size_t)x->count, type, (int)x->source, r->comm, stream), error);
  const nccl_result ended = r->nccl.ncclGroupEnd();
  return status == HR_OK ? hr_nccl_check(&r->nccl, ended, "ncclGroupEnd", error) : status;
}

static hr_status call_nccl(const hr_communicator *c, const hr_collective_call *x, cu_stream stream, hr_error *error)
{
  const hr_cuda_ranks *r = hr_rank_state(c);
  const int type = type_of(x->dtype);
  const size_t count = (size_t)x->count, part = count / (size_t)c->meeting->size;
  if (!r->comm)
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s: %s",
                   x->kind == HR_ALL_REDUCE ? "an all-reduce through NCCL" : "this collective goes through NCCL",
                   r->no_nccl.message);
  switch (x->kind) {
  case HR_ALL_REDUCE:
    return HR_CHECK_NCCL(&r->nccl, ncclAllReduce, (x->send, x->receive, count, type, NCCL_SUM, r->comm, stream), error);
  case HR_ALL_GATHER:
    return HR_CHECK_NCCL(&r->nccl, ncclAllGather, (x->send, x->receive, part, type, r->comm, stream), error);
  case HR_REDUCE_SCATTER:
    return HR_CHECK_NCCL(&r->nccl, ncclReduceScatter, (x->send, x->receive, part, type, NCCL_SUM, r->comm, stream),
                         error);
  case HR_BROADCAST:
    return HR_CHECK_NCCL(&r->nccl, ncclBroadcast, (x->send, x->receive, count, type, (int)x->peer, r->comm, stream),
                         error);
  case HR_ALL_TO_ALL: return exchange_parts(c, x, stream, error);
  case HR_POINT_TO_POINT: return pass_message(c, x, stream, error);
  case HR_COLLECTIVE_COUNT: break;
  }
  return HR_OK;
}

hr_status hr_cuda_reduce(hr_communicator *c, const hr_collective_call *call, hr_all_reduce_way way, cu_stream stream,
                         hr_error *error)
{
  return way == HR_WAY_NCCL ? call_nccl(c, call, stream, error) : hr_cuda_reduce_in_slabs(c, call, way, stream, error);
}

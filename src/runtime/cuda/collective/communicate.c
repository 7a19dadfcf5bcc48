/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/collective/collective.h"

#include "base/error.h"

bool hr_cuda_takes_norm(const hr_communicator *c, const hr_collective_call *x)
{
  return x->part == HR_CALL_END ? hr_cuda_copies_take_norm(c, x) : hr_cuda_one_shot_takes_norm(c, x);
}

static bool goes_beside(const hr_communicator *c, const hr_collective_call *x)
{
  return c->meeting->size > 1 && x->part != HR_CALL_WHOLE && hr_cuda_sends_beside(c, x);
}

/* One rank alone has it all. */
static hr_status copy(const hr_communicator *c, const hr_collective_call *x, cu_stream stream, hr_error *error)
{
  const size_t bytes = (size_t)x->count * hr_dtype_bytes(x->dtype);
  if (!x->send || !x->receive || x->send == x->receive)
    return HR_OK;
  return HR_CU(&hr_rank_cuda(c)->driver, cuMemcpyDtoDAsync_v2,
               ((cu_address)(uintptr_t)x->receive, (cu_address)(uintptr_t)x->send, bytes, stream), error);
}

static hr_status run(hr_communicator *c, const hr_collective_call *x, cu_stream stream, hr_error *error)
{
  hr_all_reduce_way way = HR_WAY_NCCL;
  if (x->count == 0)
    return HR_OK;
  if (goes_beside(c, x))
    return x->part == HR_CALL_BEGIN ? hr_cuda_begin_copies(c, x, stream, error)
                                    : hr_cuda_end_copies(c, x, stream, error);
  if (x->part == HR_CALL_END)
    return HR_OK;
  if (c->meeting->size == 1)
    return copy(c, x, stream, error);
  if (x->columns > 0)
    return hr_cuda_reduce_with_norm(c, x, stream, error);
  if (x->kind == HR_ALL_REDUCE)
    HR_TRY(hr_cuda_choose_way(c, x, stream, &way, error));
  return hr_cuda_reduce(c, x, way, stream, error);
}

hr_status hr_cuda_communicate(hr_communicator *c, const hr_collective_call *call, void *stream, hr_error *error)
{
  HR_TRY(hr_cuda_check_missing(c, error));
  HR_TRY(hr_cuda_enter(hr_rank_cuda(c), error));
  hr_status status = run(c, call, stream, error);
  hr_cuda_leave(hr_rank_cuda(c));
  return status;
}

hr_status hr_cuda_prepare_call(hr_communicator *c, const hr_collective_call *call, hr_error *error)
{
  HR_TRY(hr_cuda_enter(hr_rank_cuda(c), error));
  hr_status status = goes_beside(c, call) ? hr_cuda_load_copies(c, call, error) : hr_cuda_load_ways(c, call, error);
  hr_cuda_leave(hr_rank_cuda(c));
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL, opened at run time. Thread safety: that of the library; a communicator is used by one thread at a time. */
#ifndef HR_RUNTIME_CUDA_COLLECTIVE_NCCL_H
#define HR_RUNTIME_CUDA_COLLECTIVE_NCCL_H

#include "runtime/cuda/driver/driver.h"

typedef int nccl_result;
typedef struct nccl_comm_st *nccl_comm;
typedef struct nccl_id {
  char bytes[128];
} nccl_id;

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_SUM = 0, NCCL_FP16 = 6, NCCL_FP32 = 7, NCCL_BF16 = 9 };

#define HR_NCCL_LIST(ROW)                                                                                         \
  ROW(ncclGetVersion, (int *version))                                                                             \
  ROW(ncclGetUniqueId, (nccl_id * id))                                                                            \
  ROW(ncclCommInitRank, (nccl_comm * comm, int ranks, nccl_id id, int rank))                                      \
  ROW(ncclCommDestroy, (nccl_comm comm))                                                                          \
  ROW(ncclCommAbort, (nccl_comm comm))                                                                            \
  ROW(ncclGroupStart, (void))                                                                                     \
  ROW(ncclGroupEnd, (void))                                                                                       \
  ROW(ncclAllReduce,                                                                                              \
      (const void *send, void *receive, size_t count, int type, int operation, nccl_comm comm, cu_stream stream)) \
  ROW(ncclBroadcast,                                                                                              \
      (const void *send, void *receive, size_t count, int type, int root, nccl_comm comm, cu_stream stream))      \
  ROW(ncclReduceScatter,                                                                                          \
      (const void *send, void *receive, size_t count, int type, int operation, nccl_comm comm, cu_stream stream)) \
  ROW(ncclAllGather, (const void *send, void *receive, size_t count, int type, nccl_comm comm, cu_stream stream)) \
  ROW(ncclSend, (const void *send, size_t count, int type, int peer, nccl_comm comm, cu_stream stream))           \
  ROW(ncclRecv, (void *receive, size_t count, int type, int peer, nccl_comm comm, cu_stream stream))

typedef struct hr_nccl {
  void *handle;
#define HR_NCCL_MEMBER(name, parameters) nccl_result(*name) parameters;
  HR_NCCL_LIST(HR_NCCL_MEMBER)
#undef HR_NCCL_MEMBER
  const char *(*ncclGetErrorString)(nccl_result result);
} hr_nccl;

/** Opens the library. HR_ERROR_UNAVAILABLE says how to get it. */
hr_status hr_nccl_open(hr_nccl *nccl, hr_error *error);
void hr_nccl_close(hr_nccl *nccl);

/** "2.28.9". */
void hr_nccl_version(const hr_nccl *nccl, char *text, size_t size);

/** Turns the result of the call named `call` into a status. */
hr_status hr_nccl_check(const hr_nccl *nccl, nccl_result result, const char *call, hr_error *error);

#define HR_CHECK_NCCL(nccl, name, arguments, error) hr_nccl_check(nccl, (nccl)->name arguments, #name, error)

#endif

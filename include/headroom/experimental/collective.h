/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/collective.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_COLLECTIVE_H
#define HEADROOM_EXPERIMENTAL_COLLECTIVE_H

#include <headroom/collective.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each row is a library whose kernels a collective runs: enumerator, name. Where NCCL is faster, others than DeepEP
 * take its time. DeepEP, as a server calls it, sends a token once to each device, or node, that has an expert of it;
 * its kernels of low latency (_LL) send a copy for each expert. */
#define HR_LIBRARY_LIST(ROW)                                                                    \
  ROW(HR_LIBRARY_NCCL, "nccl")                                                                  \
  ROW(HR_LIBRARY_HEADROOM, "headroom") /* this library's own all-reduces */                     \
  ROW(HR_LIBRARY_SERVERS, "servers")   /* what inference servers' all-reduces have in common */ \
  ROW(HR_LIBRARY_TRTLLM, "trtllm")     /* a server's own */                                     \
  ROW(HR_LIBRARY_VLLM, "vllm")                                                                  \
  ROW(HR_LIBRARY_SGLANG, "sglang")                                                              \
  ROW(HR_LIBRARY_DEEPEP_TRTLLM, "deepep_trtllm")                                                \
  ROW(HR_LIBRARY_DEEPEP_VLLM, "deepep_vllm")                                                    \
  ROW(HR_LIBRARY_DEEPEP_SGLANG, "deepep_sglang")                                                \
  ROW(HR_LIBRARY_DEEPEP_LL_TRTLLM, "deepep_ll_trtllm")                                          \
  ROW(HR_LIBRARY_DEEPEP_LL_VLLM, "deepep_ll_vllm")                                              \
  ROW(HR_LIBRARY_DEEPEP_LL_SGLANG, "deepep_ll_sglang")

typedef enum hr_collective_library {
#define HR_LIBRARY_ENUM(enumerator, name) enumerator,
  HR_LIBRARY_LIST(HR_LIBRARY_ENUM)
#undef HR_LIBRARY_ENUM
      HR_LIBRARY_COUNT
} hr_collective_library;

/** One call by every device of a group.
 *
 *  Devices are numbered through all nodes; neighbours in the group are `stride` numbers apart. Tensor-parallel groups
 *  have stride 1. A group whose neighbours differ in another degree (data-parallel replicas of t devices each, pipeline
 *  stages) has the number of devices between two of them, here t. So a node of d devices holds max(1, ⌊d / stride⌋) of
 *  the group. */
typedef struct hr_collective {
  size_t struct_size; /* sizeof(hr_collective), set by hr_collective_default() */
  hr_collective_kind kind;
  int64_t devices; /* that take part; 1: nothing is sent. Of HR_POINT_TO_POINT the sender and the receiver, 2 */
  int64_t stride;  /* default 1 */
  int64_t bytes;   /* see HR_COLLECTIVE_LIST */
  hr_collective_library library; /* default HR_LIBRARY_NCCL */
  int64_t copies;                /* of each token in `bytes`, one for each of its experts; default 0: not of experts */
} hr_collective;

/** An all-reduce of 0 bytes on one device. */
HR_API void hr_collective_init(hr_collective *collective, size_t size);
HR_DEFAULT(hr_collective)

/** HR_OK if kind and library exist, devices and stride are 1 … 2^40 (point to point: at most 2 devices),
 *  bytes 0 … 2^62 and copies 0 … 2^40; otherwise HR_ERROR_INVALID naming the member. */
HR_API hr_status hr_collective_check(const hr_collective *collective, hr_error *error);

/** Bus bandwidth over algorithm bandwidth (bytes / time), as nccl-tests defines it: 2·(n − 1)/n for an all-reduce, 1
 *  point to point and for a broadcast, (n − 1)/n otherwise; 0 for one device. It is the share of `bytes` that each
 *  device sends in a ring. Source: github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md. */
HR_API double hr_collective_bus_share(hr_collective_kind kind, int64_t devices);

/** "all_reduce", …, "point_to_point". Static storage. */
HR_API const char *hr_collective_name(hr_collective_kind kind);

/** Reads such a name. HR_ERROR_NOT_FOUND for any other; *kind is then untouched. */
HR_API hr_status hr_collective_parse(const char *name, hr_collective_kind *kind);

/** "nccl", …, "deepep_ll_sglang". Static storage. */
HR_API const char *hr_collective_library_name(hr_collective_library library);

/** Reads such a name. HR_ERROR_NOT_FOUND for any other; *library is then untouched. */
HR_API hr_status hr_collective_library_parse(const char *name, hr_collective_library *library);

#ifdef __cplusplus
}
#endif
#endif

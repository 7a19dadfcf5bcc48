/* SPDX-License-Identifier: Apache-2.0 */
/* Collective communication between devices. Thread safety: values; pure functions; nothing is allocated. */
#ifndef HEADROOM_COLLECTIVE_H
#define HEADROOM_COLLECTIVE_H

#include <headroom/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One row per collective: enumerator, name. `bytes` of an hr_collective, as nccl-tests counts them: */
#define HR_COLLECTIVE_LIST(ROW)                                                                         \
  ROW(HR_ALL_REDUCE, "all_reduce")         /* the buffer of one device */                               \
  ROW(HR_ALL_GATHER, "all_gather")         /* the gathered result */                                    \
  ROW(HR_REDUCE_SCATTER, "reduce_scatter") /* the input of one device, before it is split */            \
  ROW(HR_ALL_TO_ALL, "all_to_all")         /* what one device holds for all of them, itself included */ \
  ROW(HR_POINT_TO_POINT, "point_to_point") /* the message from one device to one other */

typedef enum hr_collective_kind {
#define HR_COLLECTIVE_ENUM(enumerator, name) enumerator,
  HR_COLLECTIVE_LIST(HR_COLLECTIVE_ENUM)
#undef HR_COLLECTIVE_ENUM
      HR_COLLECTIVE_COUNT
} hr_collective_kind;

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
} hr_collective;

/** An all-reduce of 0 bytes on one device. */
HR_API hr_collective hr_collective_default(void);

/** HR_OK if the kind exists, devices and stride are 1 … 2^40 (point to point: at most 2 devices) and bytes 0 … 2^62;
 *  otherwise HR_ERROR_INVALID naming the member. */
HR_API hr_status hr_collective_check(const hr_collective *collective, hr_error *error);

/** Bus bandwidth over algorithm bandwidth (bytes / time), as nccl-tests defines it: 2·(n − 1)/n for an all-reduce, 1
 *  point to point, (n − 1)/n otherwise; 0 for one device. It is the share of `bytes` that each device sends in a ring.
 *  Source: github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md. */
HR_API double hr_collective_bus_share(hr_collective_kind kind, int64_t devices);

/** "all_reduce", …, "point_to_point". Static storage. */
HR_API const char *hr_collective_name(hr_collective_kind kind);

/** Reads such a name. HR_ERROR_NOT_FOUND for any other; *kind is then untouched. */
HR_API hr_status hr_collective_parse(const char *name, hr_collective_kind *kind);

#ifdef __cplusplus
}
#endif
#endif

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
  ROW(HR_POINT_TO_POINT, "point_to_point") /* the message from one device to one other */               \
  ROW(HR_BROADCAST, "broadcast")           /* the buffer of the device that has it */

typedef enum hr_collective_kind {
#define HR_COLLECTIVE_ENUM(enumerator, name) enumerator,
  HR_COLLECTIVE_LIST(HR_COLLECTIVE_ENUM)
#undef HR_COLLECTIVE_ENUM
      HR_COLLECTIVE_COUNT
} hr_collective_kind;

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of a decode step that one kernel runs, which stays on the device for all of them. Thread safety: as runs of
 * plans. */
#ifndef HR_RUNTIME_DEVICE_PERSISTENT_H
#define HR_RUNTIME_DEVICE_PERSISTENT_H

#include "runtime/device/experts.h"
#include "runtime/device/kv_cache.h"

#include <headroom/decode.h>

/** A linear layer, which may be a router's or of experts that a router before it chooses; or the heads of new tokens,
 *  their K and V into the cache, and attention, whose Q is what `heads` made of theirs. */
typedef struct hr_persistent_part {
  const hr_linear_arguments *linear; /* NULL: attention */
  const hr_router_arguments *router; /* whose linear layer it is; NULL: none */
  const hr_kv_append *append;
  const hr_kv_heads *heads; /* NULL: Q and K are cached as they are */
  const hr_decode *decode;
  const hr_decode_arguments *arguments;
  const char *name; /* of the operator, static; NULL: unknown */
} hr_persistent_part;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Partition of a flash attention problem into work items, and the layout of a thread's slot of the workspace. */
#ifndef HR_RUNTIME_CPU_FLASH_BLOCKS_H
#define HR_RUNTIME_CPU_FLASH_BLOCKS_H

#include "runtime/cpu/flash/flash.h"

#include <headroom/attention.h>

/** Sizes, from the problem, the version and the number of threads. */
typedef struct hr_flash_blocks {
  int64_t depth, values;               /* as in hr_flash_step */
  int64_t groups, group_heads;         /* hr_flash_groups(); query heads of each */
  int64_t item_heads, item_queries;    /* of an item, at most; its rows are item_heads · item_queries */
  int64_t head_parts, query_blocks;    /* items of a group, and of a sequence */
  int64_t items;                       /* batch · groups · head_parts · query_blocks */
  size_t q, o, total, row, k, v, s, p; /* bytes from the slot's start; `row`: five arrays of item rows */
  size_t slot_bytes;                   /* independent of the number of keys */
} hr_flash_blocks;

/** Groups of query heads that share no K or V head with another group. */
int64_t hr_flash_groups(const hr_attention *attention);

/** `cache_bytes`: of one core's L2; 0: unknown. */
hr_flash_blocks hr_flash_cut(const hr_attention *attention, const hr_flash_version *version, int threads,
                             int64_t cache_bytes);

#endif

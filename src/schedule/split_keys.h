/* SPDX-License-Identifier: Apache-2.0 */
/* How Headroom's decode kernels divide the keys of a sequence among thread blocks. The kernels' plans and the
 * predictions of their times use the same rules. */
#ifndef HR_SCHEDULE_SPLIT_KEYS_H
#define HR_SCHEDULE_SPLIT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

/** Into how many splits, 1 to `most`, the `keys` keys of a sequence are divided, for `groups` groups of query heads and
 *  `slots` workers that run at a time: the number with the least waves(groups · n / slots) · (keys / n + cost), where
 *  `cost` is what a split costs in keys; the smallest if several are equal. Each split has at least `tile` keys. */
int64_t hr_decode_splits(int64_t groups, int64_t keys, int64_t slots, int64_t tile, int64_t cost, int64_t most);

/** A call of the GPU kernel decode_split: groups of query heads, each with `keys` keys of `key_bytes` bytes. */
typedef struct hr_split_problem {
  int64_t groups, keys, key_bytes;
  int64_t multiprocessors;
  int64_t tile;    /* keys that a block processes at a time */
  int blocks;      /* of a group's splits that run on a multiprocessor at a time */
  int cluster_max; /* blocks of a cluster; 1: none */
  int64_t heads;   /* groups of a sequence, of which a block each has the same equal share; 0: no equal shares */
  int64_t rows;    /* of a group, with WGMMA; 0: up to a tile, or mma.sync */
  double pace;     /* time of products in that of reads while all multiprocessors read; 0: reading takes all of it */
} hr_split_problem;

typedef struct hr_split_choice {
  int64_t splits;
  int cluster; /* splits, if the blocks of a group are a cluster and combine them without global memory; otherwise 1 */
  int64_t shares; /* of all sequences' keys, a block for each group of a sequence; 0: splits of each group's keys */
} hr_split_choice;

#define HR_SPLITS_MAX 128

/** The splits of that kernel, at most HR_SPLITS_MAX. */
hr_split_choice hr_divide_keys(const hr_split_problem *problem);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/split_keys.h"

#include "base/checked.h"

#include <math.h>

/* Times are in bytes that a block reads while all multiprocessors read; on an H200 34 kB are 1 µs. Combining costs as
 * much time as reading SPLIT_COST_BYTES through global memory, CLUSTER_COST_BYTES in a cluster. Where clusters leave
 * multiprocessors idle, their blocks need CLUSTER_TIME per byte. */
#define SPLIT_COST_BYTES 98304
#define CLUSTER_COST_BYTES 16384
#define CLUSTER_TIME 0.65

int64_t hr_decode_splits(int64_t groups, int64_t keys, int64_t slots, int64_t tile, int64_t cost, int64_t most)
{
  int64_t tiles = hr_ceil_div(keys, tile), best = 1;
  double least = (double)INFINITY;
  for (int64_t n = 1; n <= hr_min64(most, tiles); n++) {
    double time = (double)hr_ceil_div(groups * n, slots) * (double)(hr_ceil_div(tiles, n) * tile + cost);
    if (time < least) {
      least = time;
      best = n;
    }
  }
  return best;
}

/* Clusters of `size` blocks, one of them per multiprocessor, that run at a time: pairs are always found, larger ones
 * leave some multiprocessors of a GPC out (an H200 takes 66, 30, 15 and 7 of 2, 4, 8 and 16). */
static int64_t clusters_at_a_time(int64_t multiprocessors, int size)
{
  return size == 2 ? multiprocessors / 2 : multiprocessors * 9 / 10 / size;
}

/* Divides the keys of each group among the blocks of a cluster, if that takes less than `least`; times are in keys that
 * a block reads when all multiprocessors do. */
static void choose_cluster(const hr_split_problem *p, double least, hr_split_choice *choice)
{
  for (int size = 2; size <= p->cluster_max && p->keys >= size * p->tile; size *= 2) {
    double all = (double)(p->groups * p->keys) / (double)p->multiprocessors,
           own = CLUSTER_TIME * (double)p->keys / size;
    double time = fmax(all, own) + CLUSTER_COST_BYTES / (double)p->key_bytes;
    if (p->groups > clusters_at_a_time(p->multiprocessors, size) || time >= least)
      continue;
    *choice = (hr_split_choice){.splits = size, .cluster = size};
    least = time;
  }
}

hr_split_choice hr_divide_keys(const hr_split_problem *p)
{
  int64_t cost = SPLIT_COST_BYTES / p->key_bytes;
  hr_split_choice choice = {.cluster = 1};
  choice.splits = hr_decode_splits(p->groups, p->keys, p->blocks * p->multiprocessors, p->tile, cost, HR_SPLITS_MAX);
  if (choice.splits > 1 && p->blocks == 1)
    choose_cluster(p, (double)(hr_ceil_div(p->keys, choice.splits) + cost), &choice);
  return choice;
}

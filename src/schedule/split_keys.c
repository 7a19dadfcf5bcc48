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
/* Equal shares take SHARES_TIME per byte, and SHARES_COST_BYTES as their blocks have parts of two sequences: fitted on
 * an H100 to calls of 1 to 160 sequences of 4096 keys (docs/notes/decode-gpu.md), whose shares are SHARE_BYTES_MIN or
 * more. A sequence's last part waits for the others, which are few. */
#define SHARES_COST_BYTES 163840
#define SHARES_TIME 1.04
#define SHARES_OF_SEQUENCE 6
#define ROWS_OF_SHARES 32 /* with WGMMA these rows cost as much again, on an H200 */
#define SHARE_BYTES_MIN 786432

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

/* Divides the keys of each group among the blocks of a cluster, if that takes less than `least`; returns the lesser of
 * both. Times are in keys that a block reads when all multiprocessors do. */
static double choose_cluster(const hr_split_problem *p, double least, hr_split_choice *choice)
{
  for (int size = 2; size <= p->cluster_max && p->keys >= size * p->tile; size *= 2) {
    double all = (double)(p->groups * p->keys) / (double)p->multiprocessors,
           own = fmax(CLUSTER_TIME, p->pace) * (double)p->keys / size;
    double time = fmax(all, own) + CLUSTER_COST_BYTES / (double)p->key_bytes;
    if (p->groups > clusters_at_a_time(p->multiprocessors, size) || time >= least)
      continue;
    *choice = (hr_split_choice){.splits = size, .cluster = size};
    least = time;
  }
  return least;
}

/* Takes equal shares of all sequences' keys if that takes less than `least`. */
static void choose_shares(const hr_split_problem *p, double least, hr_split_choice *choice)
{
  int64_t shares = p->heads > 0 ? p->blocks * p->multiprocessors / p->heads : 0;
  if (shares < 2 || shares > SHARES_OF_SEQUENCE * (p->groups / p->heads))
    return;
  double own = (double)(p->groups * p->keys) / (double)(shares * p->heads), bytes = own * (double)p->key_bytes;
  double cost = SHARES_COST_BYTES * (1 + (double)p->rows / ROWS_OF_SHARES);
  if (bytes >= SHARE_BYTES_MIN && SHARES_TIME * own + cost / (double)p->key_bytes < least)
    *choice = (hr_split_choice){.splits = 1, .cluster = 1, .shares = shares};
}

/* Time of `n` splits: of whole waves, and of the blocks of a last one, which read faster as they are fewer. */
static double time_of_splits(const hr_split_problem *p, int64_t n, double cost)
{
  double waves = (double)(p->groups * n) / (double)(p->blocks * p->multiprocessors), whole = floor(waves);
  double last = waves > whole ? fmax(waves - whole, fmax(CLUSTER_TIME, p->pace)) : 0;
  return (whole * fmax(1, p->pace) + last) * (double)hr_ceil_div(p->keys, n) + ceil(waves) * cost;
}

/* The splits that take the least time. */
static int64_t fastest_splits(const hr_split_problem *p, double cost)
{
  int64_t best = 1;
  for (int64_t n = 2; n <= hr_min64(HR_SPLITS_MAX, hr_ceil_div(p->keys, p->tile)); n++)
    if (time_of_splits(p, n, cost) < time_of_splits(p, best, cost))
      best = n;
  return best;
}

hr_split_choice hr_divide_keys(const hr_split_problem *p)
{
  const double pace = fmax(1, p->pace);
  int64_t cost = (int64_t)(SPLIT_COST_BYTES / (double)p->key_bytes / pace), slots = p->blocks * p->multiprocessors;
  hr_split_choice choice = {.cluster = 1};
  const bool wgmma = p->rows > 0;
  choice.splits = wgmma ? fastest_splits(p, (double)cost)
                        : hr_decode_splits(p->groups, p->keys, slots, p->tile, cost, HR_SPLITS_MAX);
  double keys = pace * (double)(hr_ceil_div(p->keys, choice.splits) + cost);
  double time = wgmma ? time_of_splits(p, choice.splits, (double)cost)
                      : keys * (double)hr_ceil_div(p->groups * choice.splits, slots);
  if (choice.splits > 1 && p->blocks == 1) {
    double clustered = choose_cluster(p, keys, &choice);
    time = choice.cluster > 1 ? clustered : time;
  }
  choose_shares(p, time, &choice);
  return choice;
}

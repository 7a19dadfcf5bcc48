/* SPDX-License-Identifier: Apache-2.0 */
/* Causal tiles on multiprocessors: the longest first, each on the multiprocessor that is free first. */
#include "analysis/predict/terms.h"

#include "base/checked.h"

#include <math.h>

#define SLOTS_MOST 512
#define WAVES_MOST 12  /* of tiles; in more the gaps at the end hardly count */
#define ROW_GRANULE 64 /* of a warpgroup, which skips rows beyond the end */

/* The work of tile `i` counted from the end, in score entries. */
static double work_of(const hr_attention *a, int64_t q_tile, int64_t kv_tile, int64_t first_row)
{
  int64_t rows = hr_min64(q_tile, hr_round_up(a->q_len - first_row, ROW_GRANULE));
  int64_t keys = hr_min64(a->kv_len, hr_max64(1, a->kv_len - a->q_len + first_row + q_tile));
  if (a->window > 0)
    keys = hr_min64(keys, a->window + q_tile);
  return (double)rows * (double)hr_round_up(keys, kv_tile);
}

/* Adds work to the multiprocessor that has least, which is loads[0] of a heap. */
static void give_least(double *loads, int64_t count, double work)
{
  double load = loads[0] + work;
  int64_t at = 0;
  for (int64_t child = 1; child < count; child = 2 * at + 1) {
    child += child + 1 < count && loads[child + 1] < loads[child];
    if (loads[child] >= load)
      break;
    loads[at] = loads[child];
    at = child;
  }
  loads[at] = load;
}

double hr_predict_longest_first(const hr_attention *a, int64_t q_tile, int64_t kv_tile, int64_t slots)
{
  double loads[SLOTS_MOST] = {0}, all = 0, most = 0;
  double tiles = (double)hr_ceil_div(a->q_len, q_tile), heads = (double)a->q_heads * (double)a->batch;
  if (a->mask == HR_MASK_NONE || slots > SLOTS_MOST || tiles * heads <= (double)slots ||
      tiles * heads > WAVES_MOST * (double)slots)
    return 1;
  for (int64_t row = (hr_ceil_div(a->q_len, q_tile) - 1) * q_tile; row >= 0; row -= q_tile) {
    double work = work_of(a, q_tile, kv_tile, row);
    all += heads * work;
    for (int64_t head = 0; head < a->q_heads * a->batch; head++)
      give_least(loads, slots, work);
  }
  for (int64_t i = 0; i < slots; i++)
    most = fmax(most, loads[i]);
  return most * (double)slots / all;
}

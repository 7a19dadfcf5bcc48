/* SPDX-License-Identifier: Apache-2.0 */
/* The work items of Headroom's attention kernel for Hopper on its workers, which are teams of consumer warpgroups: each
 * claims the next item, long ones first, as it ends one (kernels/attention_producer_sm90.cuh, produce_q()). */
#include "analysis/predict/flash_schedule.h"

#include "base/checked.h"

#include <math.h>

/* The last worker ends by this share of a mean item later than all of them would with equal loads: fitted, and as good
 * as a simulation of the claims (docs/notes/prediction.md). */
#define LAST_SHARE 0.25

/* K/V tiles that rows of work item number `item` of a head, counted from the first row, see. */
static int64_t tiles_of(const hr_attention *a, const hr_flash_grid *grid, int64_t item)
{
  int64_t first_row = item * grid->rows, last_row = hr_min64(a->q_len, first_row + grid->rows);
  int64_t before = a->kv_len - a->q_len, end = a->kv_len, first = 0;
  if (a->mask == HR_MASK_CAUSAL)
    end = hr_min64(a->kv_len, hr_max64(1, before + last_row));
  if (a->window > 0)
    first = hr_max64(0, hr_min64(end - 1, before + first_row + 1 - a->window));
  return hr_ceil_div(end, grid->tiles.keys) - first / grid->tiles.keys;
}

#define COUNTED_MAX 512 /* items of a head: of more, evenly spaced ones stand for all */

static double mean_tiles(const hr_attention *a, const hr_flash_grid *grid)
{
  const int64_t count = hr_min64(grid->q_tiles, COUNTED_MAX);
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += (double)tiles_of(a, grid, (grid->q_tiles - 1) * i / hr_max64(1, count - 1));
  return sum / (double)count;
}

hr_flash_load hr_flash_mean_load(const hr_attention *a, const hr_flash_grid *grid)
{
  double share = (double)grid->work_items / (double)grid->at_once;
  return (hr_flash_load){.tiles = share * mean_tiles(a, grid), .items = share};
}

hr_flash_load hr_flash_longest_load(const hr_attention *a, const hr_flash_grid *grid)
{
  hr_flash_load mean = hr_flash_mean_load(a, grid);
  double first = (double)tiles_of(a, grid, 0), last = (double)tiles_of(a, grid, grid->q_tiles - 1);
  double items = ceil(mean.items);
  if (items <= 1)
    return (hr_flash_load){.tiles = last, .items = 1};
  if (grid->tiles.cluster > 1 || first == last) /* every at_once-th item, all of one length */
    return (hr_flash_load){.tiles = items * first, .items = items};
  return (hr_flash_load){.tiles = fmax(mean.tiles * (1 + LAST_SHARE / mean.items), last), .items = mean.items};
}

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

/* Σ ⌊(start + step · i) / divisor⌋ for i = 0 … count − 1. Terms that are `divisor` apart differ by `step`, so that
 * those of each residue are an arithmetic series. */
static double sum_of_quotients(int64_t start, int64_t step, int64_t divisor, int64_t count)
{
  double sum = 0;
  for (int64_t i = 0; i < hr_min64(divisor, count); i++) {
    double first = (double)((start + step * i) / divisor), terms = (double)hr_ceil_div(count - i, divisor);
    sum += terms * first + (double)step * terms * (terms - 1) / 2;
  }
  return sum;
}

/* Sums over the work items of a head of the K/V tiles up to the last one that an item sees, and before the first. */
static double tiles_up_to_the_last(const hr_attention *a, const hr_flash_grid *grid)
{
  int64_t keys = grid->tiles.keys, rows = grid->rows, before = a->kv_len - a->q_len;
  int64_t all = hr_ceil_div(a->kv_len, keys), others = grid->q_tiles - 1;
  if (a->mask != HR_MASK_CAUSAL)
    return (double)grid->q_tiles * (double)all;
  int64_t blind = before < 0 ? hr_min64(-before / rows, others) : 0; /* items without a visible key read one tile */
  return (double)(blind + all) + sum_of_quotients(before + (blind + 1) * rows + keys - 1, rows, keys, others - blind);
}

static double tiles_before_the_first(const hr_attention *a, const hr_flash_grid *grid)
{
  int64_t rows = grid->rows, first = a->kv_len - a->q_len + 1 - a->window;
  int64_t from_start = first < 0 ? hr_min64(hr_ceil_div(-first, rows), grid->q_tiles) : 0; /* the window hides no key */
  if (a->window == 0)
    return 0;
  return sum_of_quotients(first + from_start * rows, rows, grid->tiles.keys, grid->q_tiles - from_start);
}

hr_flash_load hr_flash_mean_load(const hr_attention *a, const hr_flash_grid *grid)
{
  double tiles = tiles_up_to_the_last(a, grid) - tiles_before_the_first(a, grid);
  double share = (double)grid->work_items / (double)grid->at_once;
  return (hr_flash_load){.tiles = share * tiles / (double)grid->q_tiles, .items = share};
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The time of Headroom's attention kernel for Hopper, attention_flash_sm90, from its tiles and work items. Its workers
 * are teams of consumer warpgroups: each claims the next item, long ones first, as it ends one
 * (kernels/attention_producer_sm90.cuh, produce_q()). */
#include "analysis/predict/flash.h"

#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "hardware/hardware.h"

#include <math.h>
#include <string.h>

#define DIM_MAX 256
#define COPY_BYTES 16    /* rows are multiples of it, or another kernel runs */
#define BLOCK_ROWS 128.0 /* of a work item, to which element_ns refers */
/* A call that keeps all multiprocessors busy with useful FLOPs runs at a lower clock than one that leaves gaps:
 * (busy⁶ + useful⁶)^⅙. Fitted, docs/notes/prediction.md. */
#define POWER_EXPONENT 6.0
#define LOAD_EXPONENT 1.5 /* how compute and memory overlap: the first tiles of each item are not prefetched */
#define GROUP_SHARE 0.66  /* of a tile's time that falls with the warpgroups that have no rows */

/* ---- work items ---- */

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

/* ---- time ---- */

bool hr_predict_is_flash(const hr_hardware *hardware, const hr_attention *a, hr_framework framework)
{
  int64_t bytes = (int64_t)hr_dtype_bytes(a->dtype);
  return framework == HR_FRAMEWORK_HEADROOM && strcmp(hardware->about.architecture, "hopper") == 0 &&
         hardware->prefill_headroom.launch_ns > 0 && bytes <= 2 && a->qk_dim <= DIM_MAX && a->v_dim <= DIM_MAX &&
         a->qk_dim * bytes % COPY_BYTES == 0 && a->v_dim * bytes % COPY_BYTES == 0;
}

/* Returns the share of the library's rate at the highest clock. */
static double share_of(const hr_hardware *hardware, const hr_attention *a, const hr_flash_tiles *tiles)
{
  hr_attention_share share = hr_predict_attention_share(hardware, hr_max64(a->qk_dim, a->v_dim));
  if (tiles->keys <= HR_FLASH_SHORT_KEYS && a->kv_len <= HR_FLASH_SHORT_MAX && share.short_share > 0)
    return share.short_share;
  return share.headroom_share > 0 ? share.headroom_share : share.forward_share;
}

double hr_predict_flash(const hr_hardware *hardware, const hr_attention *a, double flops, double bytes,
                        double library_rate, hr_prediction *p)
{
  const hr_prefill_cost *cost = &hardware->prefill_headroom;
  hr_flash_grid grid = hr_flash_sm90_grid(a, hardware->multiprocessors, (size_t)hardware->l2_bytes);
  double rate = library_rate * share_of(hardware, a, &grid.tiles) / 1e9, slots = (double)hardware->multiprocessors;
  double group_rows = HR_FLASH_GROUP_ROWS, rows = (double)grid.tiles.consumers * group_rows;
  double groups = fmin(1, ceil((double)a->q_len / group_rows) / (double)grid.tiles.consumers); /* that have rows */
  double dims = (double)(hr_round_up(a->qk_dim, 16) + hr_round_up(a->v_dim, 16));
  double teams = fmin(grid.tiles.teams, fmax(1, (double)grid.work_items / slots)); /* that compute side by side */
  double tile_ns =
      2 * rows * teams * (double)grid.tiles.keys * dims / (rate / slots) * (1 - GROUP_SHARE * (1 - groups));
  double item_ns = cost->block_ns + cost->element_ns * (double)hr_max64(a->qk_dim, a->v_dim) * rows / BLOCK_ROWS;
  hr_flash_load mean = hr_flash_mean_load(a, &grid);
  hr_flash_load longest = hr_flash_longest_load(a, &grid);
  double filled_ns = mean.tiles * tile_ns + mean.items * item_ns;
  double longest_ns = fmax(longest.tiles * tile_ns + longest.items * item_ns, filled_ns);
  double useful_ns = flops / rate;
  double busy_ns = pow(pow(longest_ns, POWER_EXPONENT) + pow(useful_ns, POWER_EXPONENT), 1 / POWER_EXPONENT);
  p->matrix_ns = fmin(flops / library_rate * 1e9, useful_ns);
  p->memory_ns = hr_transfer_ns(hardware, bytes, cost->load_share);
  p->tile_m = grid.rows;
  p->tile_n = grid.tiles.keys;
  p->tiles = grid.work_items;
  p->waves = hr_ceil_div(grid.work_items, grid.at_once);
  p->splits = 1;
  p->tile_waste = fmax(0, 1 - useful_ns / fmax(filled_ns, useful_ns));
  p->wave_waste = fmax(0, 1 - filled_ns / longest_ns);
  p->tile_ns = fmax(filled_ns - p->matrix_ns, 0);
  p->wave_ns = fmax(busy_ns - fmax(filled_ns, p->matrix_ns), 0);
  p->launch_ns += cost->busy_ns * fmin(1, mean.items);
  return pow(pow(busy_ns, LOAD_EXPONENT) + pow(p->memory_ns, LOAD_EXPONENT), 1 / LOAD_EXPONENT);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which work items the workers of Headroom's attention kernel for Hopper process, by its schedule: items come in the
 * order of kernels/attention_tiles_sm90.cuh, find_item(). A worker, a team of consumer warpgroups, begins with the item
 * of its own number and claims the next one when all of K of its last item is under way
 * (kernels/attention_producer_sm90.cuh, produce_q()). */
#include "analysis/predict/flash_schedule.h"

#include "base/checked.h"

#include <math.h>

#define WORKERS_MAX 512
#define ITEMS_MAX 24     /* of a worker; in more the end hardly counts */
#define AHEAD_KEYS 256.0 /* of K, that are under way */

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

/* The same of the work item that is number `index` in the order of processing. */
static int64_t tiles_at(const hr_attention *a, const hr_flash_grid *grid, int64_t index)
{
  int64_t band_items = grid->band_heads * grid->q_tiles, band = hr_min64(index / band_items, grid->bands);
  int64_t rest = index - band * band_items, all = a->q_heads * a->batch;
  int64_t heads = band < grid->bands ? grid->band_heads : all - band * grid->band_heads;
  return tiles_of(a, grid, grid->q_tiles - 1 - rest / heads);
}

typedef struct worker {
  double ends, claims; /* its claimed items; when it claims another: in K/V tiles */
  hr_flash_load load;
} worker;

typedef struct schedule {
  const hr_attention *a;
  const hr_flash_grid *grid;
  double item_tiles; /* what an item costs besides its tiles, in tiles */
  double ahead;      /* K/V tiles of an item that are left when the next one is claimed */
  int64_t next;      /* item that nobody has claimed */
  worker workers[WORKERS_MAX];
  int heap[WORKERS_MAX]; /* the worker that claims first on top */
  int running;
} schedule;

static void claim(schedule *s, worker *w)
{
  double tiles = (double)tiles_at(s->a, s->grid, s->next++);
  w->claims = w->ends + fmax(0, tiles - s->ahead);
  w->ends += tiles + s->item_tiles;
  w->load.tiles += tiles;
  w->load.items += 1;
}

/* Moves the top of the heap to its place. */
static void sift(schedule *s)
{
  int moved = s->heap[0], at = 0;
  for (int child = 1; child < s->running; child = 2 * at + 1) {
    if (child + 1 < s->running && s->workers[s->heap[child + 1]].claims < s->workers[s->heap[child]].claims)
      child++;
    if (s->workers[s->heap[child]].claims >= s->workers[moved].claims)
      break;
    s->heap[at] = s->heap[child];
    at = child;
  }
  s->heap[at] = moved;
}

/* First items. Later workers have shorter ones, if any: sorted by insertion from behind. */
static void start(schedule *s, int workers)
{
  for (int i = 0; i < workers && s->next < s->grid->work_items; i++, s->running++)
    claim(s, &s->workers[i]);
  for (int i = s->running - 1, sorted = 0; i >= 0; i--, sorted++) {
    int at = sorted;
    for (; at > 0 && s->workers[s->heap[at - 1]].claims > s->workers[i].claims; at--)
      s->heap[at] = s->heap[at - 1];
    s->heap[at] = i;
  }
}

static void run(schedule *s)
{
  while (s->next < s->grid->work_items) {
    claim(s, &s->workers[s->heap[0]]);
    sift(s);
  }
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

hr_flash_load hr_flash_longest_load(const hr_attention *a, const hr_flash_grid *grid, double item_tiles)
{
  hr_flash_load mean = hr_flash_mean_load(a, grid), most = {0, 0};
  double items = ceil(mean.items), end = 0;
  if (items <= 1)
    return (hr_flash_load){.tiles = (double)tiles_of(a, grid, grid->q_tiles - 1), .items = 1};
  if (grid->tiles.cluster > 1) /* every at_once-th item, all of one length */
    return (hr_flash_load){.tiles = items * (double)tiles_of(a, grid, 0), .items = items};
  if (grid->at_once > WORKERS_MAX || mean.items > ITEMS_MAX)
    return (hr_flash_load){.tiles = mean.tiles + mean.tiles / mean.items / 2, .items = mean.items};
  schedule s = {.a = a, .grid = grid, .item_tiles = item_tiles, .ahead = AHEAD_KEYS / (double)grid->tiles.keys};
  start(&s, (int)grid->at_once);
  run(&s);
  for (int64_t i = 0; i < grid->at_once; i++) {
    if (s.workers[i].ends > end)
      end = s.workers[i].ends, most = s.workers[i].load;
  }
  return most;
}

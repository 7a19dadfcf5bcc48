/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses points of a sweep and their order. */
#include "base/error.h"
#include "base/random.h"
#include "base/struct_size.h"
#include "experiment/sweep/sweep.h"

#include <stdlib.h>

void hr_sweep_choice_init(hr_sweep_choice *choice, size_t size)
{
  HR_INIT(choice, size, (hr_sweep_choice){.shard = 1, .shards = 1, .seed = 1});
}

/* All indices, sorted by series, within a series in the order of the file. starts[i] is the place of series i. */
static void by_series(const hr_sweep *sweep, size_t *indices, size_t *starts)
{
  for (size_t i = 0; i < sweep->point_count; i++)
    starts[sweep->point_series[i] + 1]++;
  for (size_t i = 0; i < sweep->series_count; i++)
    starts[i + 1] += starts[i];
  for (size_t i = 0; i < sweep->point_count; i++)
    indices[starts[sweep->point_series[i]]++] = i;
  for (size_t i = sweep->series_count; i > 0; i--) /* each start has advanced to the next series */
    starts[i] = starts[i - 1];
  starts[0] = 0;
}

/* Returns how many of `take` places, spread evenly over `all`, are among the first `before`. */
static size_t spread(size_t before, size_t all, size_t take)
{
  return all ? (size_t)((uint64_t)before * take / all) : 0;
}

/* Keeps `points` of the indices: if possible one of each series, the rest in proportion to the series' lengths, spread
 * from the first to the last of a series. Returns how many. */
static size_t thin(const hr_sweep *sweep, const size_t *indices, const size_t *starts, size_t points, size_t *kept)
{
  size_t series = sweep->series_count, count = 0;
  size_t sure = points < series ? 0 : 1; /* of each series */
  size_t all = sweep->point_count - sure * series, left = points - sure * series;
  for (size_t i = 0; i < series; i++) {
    size_t length = starts[i + 1] - starts[i];
    size_t before = starts[i] - sure * i, after = starts[i + 1] - sure * (i + 1);
    size_t take = sure + spread(after, all, left) - spread(before, all, left);
    for (size_t j = 0; j < take; j++) {
      size_t place = take > 1 ? j * (length - 1) / (take - 1) : length / 2;
      kept[count++] = indices[starts[i] + place];
    }
  }
  return count;
}

static void shuffle(size_t *indices, size_t count, uint64_t seed)
{
  for (size_t i = count; i > 1; i--) {
    uint64_t random, most = UINT64_MAX - UINT64_MAX % i; /* larger numbers would favour some places */
    do
      random = hr_next_random(&seed);
    while (random >= most);
    size_t other = (size_t)(random % i), kept = indices[i - 1];
    indices[i - 1] = indices[other];
    indices[other] = kept;
  }
}

static size_t take_share(size_t *indices, size_t count, const hr_sweep_choice *choice)
{
  size_t kept = 0;
  for (size_t i = (size_t)choice->shard - 1; i < count; i += (size_t)choice->shards)
    indices[kept++] = indices[i];
  return kept;
}

hr_status hr_sweep_order(const hr_sweep *sweep, const hr_sweep_choice *choice, size_t **indices, size_t *count,
                         hr_error *error)
{
  HR_NEED(error, sweep, choice, indices, count);
  HR_TAKE(hr_sweep_choice, choice, error);
  if (choice->shards < 1 || choice->shard < 1 || choice->shard > choice->shards || choice->shards > UINT32_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "shard %lld of %lld: expected 1 to the count of shards",
                   (long long)choice->shard, (long long)choice->shards);
  size_t *all = malloc(sweep->point_count * sizeof *all);
  size_t *chosen = malloc(sweep->point_count * sizeof *chosen);
  size_t *starts = calloc(sweep->series_count + 1, sizeof *starts);
  if (!all || !chosen || !starts) {
    free(all);
    free(chosen);
    free(starts);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory for the order of the points", sweep->name);
  }
  by_series(sweep, all, starts);
  bool fewer = choice->points > 0 && (uint64_t)choice->points < sweep->point_count;
  size_t kept = thin(sweep, all, starts, fewer ? (size_t)choice->points : sweep->point_count, chosen);
  free(all);
  free(starts);
  shuffle(chosen, kept, choice->seed);
  *count = take_share(chosen, kept, choice);
  *indices = chosen;
  return HR_OK;
}

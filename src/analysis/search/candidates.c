/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/candidates.h"

#include <stdlib.h>
#include <string.h>

void hr_search_front_add(hr_search_front *front, const hr_search_point *point)
{
  size_t low = 0, high = front->count; /* the first point that is not faster */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (front->points[middle].time_ns < point->time_ns)
      low = middle + 1;
    else
      high = middle;
  }
  if (low > 0 && front->points[low - 1].useful >= point->useful)
    return;
  if (low < front->count && front->points[low].time_ns <= point->time_ns && front->points[low].useful >= point->useful)
    return;
  size_t after = low;
  while (after < front->count && front->points[after].useful <= point->useful)
    after++;
  if (after == low && front->count == HR_SEARCH_FRONT_MAX) {
    if (low == front->count)
      return;
    front->count--;
  }
  memmove(&front->points[low + 1], &front->points[after], (front->count - after) * sizeof *point);
  front->points[low] = *point;
  front->count += 1 + low - after;
}

/* Sizes for which every library has a kernel. */
static bool is_usual_head(const hr_search_point *point)
{
  return point->heads.head_dim == 64 || point->heads.head_dim == 128 || point->heads.head_dim == 256;
}

bool hr_search_before(const hr_search_point *a, const hr_search_point *b)
{
  if (a->time_ns != b->time_ns)
    return a->time_ns < b->time_ns;
  if (a->parameters != b->parameters)
    return a->parameters > b->parameters;
  if (is_usual_head(a) != is_usual_head(b))
    return is_usual_head(a);
  if (a->hidden != b->hidden)
    return a->hidden < b->hidden;
  if (a->layers != b->layers)
    return a->layers < b->layers;
  if (a->heads.q_heads != b->heads.q_heads)
    return a->heads.q_heads < b->heads.q_heads;
  if (a->heads.head_dim != b->heads.head_dim)
    return a->heads.head_dim < b->heads.head_dim;
  if (a->heads.k_heads != b->heads.k_heads)
    return a->heads.k_heads < b->heads.k_heads;
  return a->mlp_width != b->mlp_width ? a->mlp_width < b->mlp_width : a->vocabulary < b->vocabulary;
}

static int compare(const void *a, const void *b)
{
  return hr_search_before(a, b) ? -1 : hr_search_before(b, a) ? 1 : 0;
}

void hr_search_sort(hr_search_point *points, size_t count)
{
  qsort(points, count, sizeof *points, compare);
}

static void sink(hr_search_pool *pool, hr_search_point point)
{
  size_t hole = 0;
  for (;;) {
    size_t child = 2 * hole + 1;
    if (child >= pool->count)
      break;
    if (child + 1 < pool->count && hr_search_before(&pool->points[child], &pool->points[child + 1]))
      child++;
    if (!hr_search_before(&point, &pool->points[child]))
      break;
    pool->points[hole] = pool->points[child];
    hole = child;
  }
  pool->points[hole] = point;
}

void hr_search_pool_add(hr_search_pool *pool, const hr_search_point *point)
{
  if (pool->count == HR_SEARCH_POOL_MAX) {
    if (hr_search_before(point, &pool->points[0]))
      sink(pool, *point);
    return;
  }
  size_t hole = pool->count++;
  while (hole > 0 && hr_search_before(&pool->points[(hole - 1) / 2], point)) {
    pool->points[hole] = pool->points[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  pool->points[hole] = *point;
}

typedef struct picking {
  size_t count, limit;
  int64_t apart;
  hr_search_point *picked;
} picking;

/* Picks a point unless two of its hidden, layers and heads have been picked, or one with nearly the same parameters, or
 * `of_hidden` of its hidden size. */
static void pick_point(picking *pick, const hr_search_point *point, size_t of_hidden)
{
  size_t alike = 0, hidden = 0;
  for (size_t i = 0; i < pick->count; i++) {
    const hr_search_point *other = &pick->picked[i];
    hidden += other->hidden == point->hidden;
    if (other->hidden != point->hidden || other->layers != point->layers ||
        other->heads.q_heads != point->heads.q_heads || other->heads.head_dim != point->heads.head_dim)
      continue;
    alike++;
    if (llabs(other->parameters - point->parameters) < pick->apart)
      return;
  }
  if (pick->count < pick->limit && alike < 2 && hidden < of_hidden)
    pick->picked[pick->count++] = *point;
}

static size_t no_slower(const hr_search_point *sorted, size_t count, double slowest_ns)
{
  while (count > 0 && sorted[count - 1].time_ns > slowest_ns)
    count--;
  return count;
}

size_t hr_search_pick(const hr_search_front *front, const hr_search_pool *pool, double slowest_ns, int64_t apart,
                      size_t limit, hr_search_point *picked)
{
  picking pick = {0, limit, apart, picked};
  size_t of_front = no_slower(front->points, front->count, slowest_ns), from_front = (limit + 1) / 2;
  if (from_front > of_front)
    from_front = of_front;
  for (size_t i = 0; i < from_front; i++)
    pick_point(&pick, &front->points[from_front == 1 ? 0 : i * (of_front - 1) / (from_front - 1)], limit);
  size_t of_pool = no_slower(pool->points, pool->count, slowest_ns), of_hidden = limit / 4 > 2 ? limit / 4 : 2;
  for (size_t i = 0; i < of_pool; i++)
    pick_point(&pick, &pool->points[i], of_hidden);
  for (size_t i = 0; i < of_pool && pick.count < limit; i++)
    pick_point(&pick, &pool->points[i], limit);
  return pick.count;
}

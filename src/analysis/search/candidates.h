/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes that a search keeps, in bounded memory: a Pareto front and the fastest shapes. */
#ifndef HR_ANALYSIS_SEARCH_CANDIDATES_H
#define HR_ANALYSIS_SEARCH_CANDIDATES_H

#include "analysis/search/space.h"

#define HR_SEARCH_FRONT_MAX 16384
#define HR_SEARCH_POOL_MAX 8192

/** A Pareto front: no point is slower than another with at least as many useful parameters. */
typedef struct hr_search_front {
  size_t count;
  hr_search_point points[HR_SEARCH_FRONT_MAX]; /* fastest first, so fewest useful parameters first */
} hr_search_front;

/** Adds a point unless another dominates it, and drops the points that it dominates. A full front drops its slowest. */
void hr_search_front_add(hr_search_front *front, const hr_search_point *point);

/** The fastest points so far, at most HR_SEARCH_POOL_MAX: a heap with the slowest on top. */
typedef struct hr_search_pool {
  size_t count;
  hr_search_point points[HR_SEARCH_POOL_MAX];
} hr_search_pool;

/** Adds a point; a full pool drops its slowest. */
void hr_search_pool_add(hr_search_pool *pool, const hr_search_point *point);

/** Whether a sorts before b: faster, then more parameters, then heads of 64, 128 or 256, then smaller sizes, so that
 *  the order does not depend on that of enumeration. */
bool hr_search_before(const hr_search_point *a, const hr_search_point *b);

/** Sorts by hr_search_before(). */
void hr_search_sort(hr_search_point *points, size_t count);

/** Picks at most `limit` points, none slower than `slowest_ns`: about half spread over the front, then the fastest of
 *  the pool. Of each hidden size, layers and heads it picks at most two, whose parameters differ by at least `apart`;
 *  of each hidden size at most a quarter of `limit`, unless no others are left. Returns the number; `picked` has room
 *  for `limit`. */
size_t hr_search_pick(const hr_search_front *front, const hr_search_pool *pool, double slowest_ns, int64_t apart,
                      size_t limit, hr_search_point *picked);

#endif

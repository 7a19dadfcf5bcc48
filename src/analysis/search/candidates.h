/* What a search remembers of the shapes it passes: a Pareto front and the fastest of each kind, in bounded memory. */
#ifndef HR_ANALYSIS_SEARCH_CANDIDATES_H
#define HR_ANALYSIS_SEARCH_CANDIDATES_H

#include "analysis/search/space.h"

#define HR_SEARCH_FRONT_MAX 16384
#define HR_SEARCH_POOL_MAX 8192

/** No point of the front is both slower and of fewer useful parameters than another (or equal to it in both). */
typedef struct hr_search_front {
  size_t count;
  hr_search_point points[HR_SEARCH_FRONT_MAX]; /* fastest first, so fewest useful parameters first */
} hr_search_front;

/** Adds a point unless the front has a better one, and drops those that it betters. A full front loses its slowest. */
void hr_search_front_add(hr_search_front *front, const hr_search_point *point);

/** The fastest points it has seen, at most HR_SEARCH_POOL_MAX: a heap with the slowest on top. */
typedef struct hr_search_pool {
  size_t count;
  hr_search_point points[HR_SEARCH_POOL_MAX];
} hr_search_pool;

/** Adds a point; a full pool loses its slowest. */
void hr_search_pool_add(hr_search_pool *pool, const hr_search_point *point);

/** Whether a stands before b: faster, then more parameters, then smaller numbers, so that the order never depends on
 *  how the shapes were enumerated. */
bool hr_search_before(const hr_search_point *a, const hr_search_point *b);

/** Sorts by hr_search_before(). */
void hr_search_sort(hr_search_point *points, size_t count);

/** Picks at most `limit` of the front and the pool, none slower than `slowest_ns`: about half of them spread over the
 *  front, then the fastest of the pool, at most two of each hidden, layers and heads, whose parameters are at least
 *  `apart` from each other, and a quarter of `limit` of each hidden size until that leaves none. Returns how many;
 *  `picked` has room for `limit`. */
size_t hr_search_pick(const hr_search_front *front, const hr_search_pool *pool, double slowest_ns, int64_t apart,
                      size_t limit, hr_search_point *picked);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of validated rows by kind and size, and the worst rows. */
#include "analysis/validate/rows.h"

#include "base/error.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>

/* Ends of the sizes, of predicted times. */
static const double ends_ns[] = {0, 1e4, 1e5, 1e6, (double)INFINITY};
#define SIZE_COUNT (sizeof ends_ns / sizeof *ends_ns - 1)

/* A time and the place of its row in the group. */
typedef struct ranked_time {
  double ns;
  size_t row;
} ranked_time;

/* Rows of a group and space for what is sorted. */
typedef struct group_rows {
  size_t count;
  const hr_validated_row **rows;
  double *predicted_ranks, *measured_ranks;
  ranked_time *times;
} group_rows;

/* Sorts the times and sets the rank of each row. Equal times share the mean of their ranks. */
static void rank(ranked_time *times, size_t count, double *ranks)
{
  qsort(times, count, sizeof *times, hr_compare_numbers);
  for (size_t first = 0, behind = 0; first < count; first = behind) {
    while (behind < count && times[behind].ns == times[first].ns)
      behind++;
    for (size_t i = first; i < behind; i++)
      ranks[times[i].row] = (double)(first + behind - 1) / 2;
  }
}

/* Pearson's correlation of the ranks. */
static double correlation(const group_rows *g)
{
  double middle = ((double)g->count - 1) / 2, both = 0, a = 0, b = 0;
  if (g->count < 3)
    return (double)NAN;
  for (size_t i = 0; i < g->count; i++)
    g->times[i] = (ranked_time){g->rows[i]->prediction.time_ns, i};
  rank(g->times, g->count, g->predicted_ranks);
  for (size_t i = 0; i < g->count; i++)
    g->times[i] = (ranked_time){g->rows[i]->measured_ns, i};
  rank(g->times, g->count, g->measured_ranks);
  for (size_t i = 0; i < g->count; i++) {
    double x = g->predicted_ranks[i] - middle, y = g->measured_ranks[i] - middle;
    both += x * y, a += x * x, b += y * y;
  }
  return a > 0 && b > 0 ? both / sqrt(a * b) : (double)NAN;
}

/* Ascending; of equal errors the first row comes last. */
static int by_error(const void *a, const void *b)
{
  const hr_validated_row *x = *(const hr_validated_row *const *)a, *y = *(const hr_validated_row *const *)b;
  return x->error != y->error ? hr_compare_numbers(&x->error, &y->error) : (x < y) - (x > y);
}

void hr_validated_group_fill(hr_validated_group *group, const hr_validated_row **rows, size_t count)
{
  double logs = 0, signed_logs = 0, n = (double)count;
  size_t within = 0;
  for (size_t i = 0; i < count; i++) {
    const hr_validated_row *row = rows[i];
    logs += log1p(row->error);
    signed_logs += log(row->prediction.time_ns / row->measured_ns);
    within += row->measured_ns >= row->prediction.low_ns && row->measured_ns <= row->prediction.high_ns;
  }
  qsort(rows, count, sizeof *rows, by_error);
  group->rows = (int64_t)count;
  group->median = (rows[(count - 1) / 2]->error + rows[count / 2]->error) / 2;
  group->p90 = rows[(size_t)ceil(0.9 * n) - 1]->error;
  group->mean = expm1(logs / n);
  group->bias = expm1(signed_logs / n);
  group->coverage = (double)within / n;
}

static size_t choose(const hr_validation *v, const hr_validated_group *group, group_rows *g)
{
  g->count = 0;
  for (size_t i = 0; i < v->row_count; i++) {
    double time_ns = v->rows[i].prediction.time_ns;
    if (v->rows[i].kind == group->kind && time_ns >= group->min_ns && time_ns < group->max_ns)
      g->rows[g->count++] = &v->rows[i];
  }
  return g->count;
}

static void fill_groups(hr_validation *v, group_rows *g)
{
  for (int kind = 0; kind < HR_INTERVAL_KIND_COUNT; kind++) {
    for (size_t size = 0; size <= SIZE_COUNT; size++) {
      hr_validated_group *group = &v->groups[v->group_count];
      *group = (hr_validated_group){.kind = (hr_interval_kind)kind,
                                    .min_ns = size ? ends_ns[size - 1] : 0,
                                    .max_ns = size ? ends_ns[size] : (double)INFINITY};
      if (choose(v, group, g) == 0)
        continue;
      group->rank_correlation = correlation(g);
      hr_validated_group_fill(group, g->rows, g->count);
      v->group_count++;
    }
  }
}

static void find_worst(hr_validation *v, const hr_validated_row **rows)
{
  for (size_t i = 0; i < v->row_count; i++)
    rows[i] = &v->rows[i];
  qsort(rows, v->row_count, sizeof *rows, by_error);
  for (size_t i = v->row_count; i > 0 && v->worst_count < HR_VALIDATED_WORST; i--)
    v->worst[v->worst_count++] = (size_t)(rows[i - 1] - v->rows);
}

hr_status hr_validation_sum_up(hr_validation *v, hr_error *error)
{
  size_t n = v->row_count;
  double *numbers = malloc(2 * n * sizeof *numbers);
  group_rows g = {.rows = malloc(n * sizeof *g.rows), .times = malloc(n * sizeof *g.times)};
  free(v->groups);
  v->group_count = v->worst_count = 0;
  v->groups = calloc(HR_INTERVAL_KIND_COUNT * (SIZE_COUNT + 1) + 1, sizeof *v->groups);
  bool enough = numbers && g.rows && g.times && v->groups;
  if (enough) {
    g.predicted_ranks = numbers, g.measured_ranks = numbers + n;
    fill_groups(v, &g);
    find_worst(v, g.rows);
  }
  free(numbers);
  free(g.rows);
  free(g.times);
  return enough ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", n);
}

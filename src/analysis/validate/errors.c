/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of validated rows by kind and size, and the worst rows. */
#include "analysis/validate/errors.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

/* Ends of the sizes, of predicted times. */
static const double ends_ns[] = {0, 1e4, 1e5, 1e6, (double)INFINITY};
#define SIZE_COUNT (sizeof ends_ns / sizeof *ends_ns - 1)

/* Rows of a group and space for what is sorted. */
typedef struct group_rows {
  size_t count;
  const hr_validated_row **rows;
  double *errors, *predicted_ranks, *measured_ranks;
} group_rows;

static int compare_numbers(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int by_prediction(const void *a, const void *b)
{
  const hr_validated_row *x = *(const hr_validated_row *const *)a, *y = *(const hr_validated_row *const *)b;
  int order = compare_numbers(&x->prediction.time_ns, &y->prediction.time_ns);
  return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int by_measurement(const void *a, const void *b)
{
  const hr_validated_row *x = *(const hr_validated_row *const *)a, *y = *(const hr_validated_row *const *)b;
  int order = compare_numbers(&x->measured_ns, &y->measured_ns);
  return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Equal values share the mean of their ranks. */
static void rank(const group_rows *g, const hr_validated_row *rows, bool measured, double *ranks)
{
  qsort(g->rows, g->count, sizeof(*g->rows), measured ? by_measurement : by_prediction);
  for (size_t first = 0; first < g->count;) {
    size_t behind = first;
    double value = measured ? g->rows[first]->measured_ns : g->rows[first]->prediction.time_ns;
    while (behind < g->count &&
           (measured ? g->rows[behind]->measured_ns : g->rows[behind]->prediction.time_ns) == value)
      behind++;
    for (size_t i = first; i < behind; i++)
      ranks[g->rows[i] - rows] = (double)(first + behind - 1) / 2;
    first = behind;
  }
}

/* Pearson's correlation of the ranks. */
static double correlation(const group_rows *g, const hr_validated_row *rows)
{
  double middle = ((double)g->count - 1) / 2, both = 0, a = 0, b = 0;
  if (g->count < 3)
    return (double)NAN;
  rank(g, rows, false, g->predicted_ranks);
  rank(g, rows, true, g->measured_ranks);
  for (size_t i = 0; i < g->count; i++) {
    double x = g->predicted_ranks[g->rows[i] - rows] - middle, y = g->measured_ranks[g->rows[i] - rows] - middle;
    both += x * y, a += x * x, b += y * y;
  }
  return a > 0 && b > 0 ? both / sqrt(a * b) : (double)NAN;
}

static void fill(hr_validated_group *group, const group_rows *g, const hr_validated_row *rows)
{
  double logs = 0, signed_logs = 0;
  size_t within = 0;
  for (size_t i = 0; i < g->count; i++) {
    const hr_validated_row *row = g->rows[i];
    g->errors[i] = row->error;
    logs += log1p(row->error);
    signed_logs += log(row->prediction.time_ns / row->measured_ns);
    within += row->measured_ns >= row->prediction.low_ns && row->measured_ns <= row->prediction.high_ns;
  }
  qsort(g->errors, g->count, sizeof *g->errors, compare_numbers);
  double n = (double)g->count;
  group->rows = (int64_t)g->count;
  group->median = (g->errors[(g->count - 1) / 2] + g->errors[g->count / 2]) / 2;
  group->p90 = g->errors[(size_t)ceil(0.9 * n) - 1];
  group->mean = expm1(logs / n);
  group->bias = expm1(signed_logs / n);
  group->coverage = (double)within / n;
  group->rank_correlation = correlation(g, rows);
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
      fill(group, g, v->rows);
      v->group_count++;
    }
  }
}

static void find_worst(hr_validation *v)
{
  for (size_t i = 0; i < v->row_count; i++) {
    size_t at = v->worst_count;
    while (at > 0 && v->rows[v->worst[at - 1]].error < v->rows[i].error)
      at--;
    if (at == HR_VALIDATED_WORST)
      continue;
    v->worst_count += v->worst_count < HR_VALIDATED_WORST;
    for (size_t later = v->worst_count - 1; later > at; later--)
      v->worst[later] = v->worst[later - 1];
    v->worst[at] = i;
  }
}

hr_status hr_validation_sum_up(hr_validation *v, hr_error *error)
{
  size_t n = v->row_count;
  group_rows g = {.rows = malloc(n * sizeof *g.rows),
                  .errors = malloc(n * sizeof *g.errors),
                  .predicted_ranks = malloc(n * sizeof *g.predicted_ranks),
                  .measured_ranks = malloc(n * sizeof *g.measured_ranks)};
  v->groups = calloc(HR_INTERVAL_KIND_COUNT * (SIZE_COUNT + 1) + 1, sizeof *v->groups);
  bool enough = g.rows && g.errors && g.predicted_ranks && g.measured_ranks && v->groups;
  if (enough) {
    fill_groups(v, &g);
    find_worst(v);
  }
  free(g.rows);
  free(g.errors);
  free(g.predicted_ranks);
  free(g.measured_ranks);
  return enough ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", n);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/compare.h>

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "experiment/compare/ratio.h"
#include "experiment/compare/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdict_names[] = {[HR_VERDICT_SAME] = "same",
                                            [HR_VERDICT_FASTER] = "faster",
                                            [HR_VERDICT_SLOWER] = "slower",
                                            [HR_VERDICT_NOISY] = "noisy"};

HR_DEFINE_NAME(hr_verdict_name, hr_verdict, verdict_names, HR_VERDICT_COUNT)

void hr_compare_side_init(hr_compare_side *side, size_t size)
{
  HR_INIT(side, size, (hr_compare_side){0});
}

static bool is_timed(const hr_compared_row *row)
{
  return isfinite(row->median_ns);
}

/* A doubtful row has a ratio for people to see, but no part in a verdict. */
static bool is_doubtful(const hr_compared_point *point)
{
  return point->a.status != HR_OK || point->b.status != HR_OK || !isfinite(point->ratio.low) ||
         !isfinite(point->ratio.high);
}

static hr_compared_point point_of(const hr_compare_row *a, const hr_compare_row *b, double tolerance)
{
  hr_compared_point point = {.sweep = a->sweep,
                             .series = a->series,
                             .axes = a->axes,
                             .problem = a->problem,
                             .product = a->product,
                             .a = a->measured,
                             .b = b->measured,
                             .lost = !is_timed(&b->measured)};
  point.ratio = point.lost ? (hr_ratio){(double)NAN, (double)NAN, (double)NAN} : hr_ratio_of(&point.a, &point.b);
  point.verdict = is_doubtful(&point) ? HR_VERDICT_NOISY : hr_ratio_verdict(&point.ratio, tolerance);
  return point;
}

/* Both sides are sorted by point; a point without a time in A cannot be compared. */
static void match(hr_compare_result *result, const hr_compare_rows *a, const hr_compare_rows *b, hr_compare_key key)
{
  size_t i = 0, k = 0;
  while (i < a->count || k < b->count) {
    int order = i == a->count ? 1 : k == b->count ? -1 : hr_compare_points(&a->rows[i], &b->rows[k], key);
    result->a.alone += order < 0;
    result->b.alone += order > 0;
    if (order == 0 && is_timed(&a->rows[i].measured))
      result->points[result->count++] = point_of(&a->rows[i], &b->rows[k], result->tolerance);
    i += order <= 0;
    k += order >= 0;
  }
}

/* `ratios` has room for `count`. */
static hr_compared_sum sum_of(const hr_compared_point *points, size_t count, double tolerance, hr_ratio *ratios)
{
  hr_compared_sum sum = {.points = (int64_t)count};
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    sum.lost += points[i].lost;
    sum.verdicts[points[i].verdict] += !points[i].lost;
    if (!points[i].lost && !is_doubtful(&points[i]))
      ratios[used++] = points[i].ratio;
  }
  sum.ratio = hr_ratio_mean(ratios, used);
  sum.verdict = hr_ratio_verdict(&sum.ratio, tolerance);
  return sum;
}

static void sum_up(hr_compare_result *result, hr_ratio *ratios)
{
  for (size_t i = 0; i < result->count; i++) {
    if (i == 0 || strcmp(result->points[i].sweep, result->points[i - 1].sweep) != 0)
      result->sweeps[result->sweep_count++] = (hr_compared_sweep){.name = result->points[i].sweep, .first = i};
    result->sweeps[result->sweep_count - 1].count++;
  }
  for (size_t i = 0; i < result->sweep_count; i++) {
    hr_compared_sweep *sweep = &result->sweeps[i];
    sweep->sum = sum_of(&result->points[sweep->first], sweep->count, result->tolerance, ratios);
  }
  result->total = sum_of(result->points, result->count, result->tolerance, ratios);
}

static hr_status compare_rows(hr_compare_result *result, hr_compare_rows *a, hr_compare_rows *b, hr_error *error)
{
  hr_compare_key of_a = hr_compare_varies(a), of_b = hr_compare_varies(b);
  hr_compare_key key = {.product = of_a.product || of_b.product, .threads = of_a.threads || of_b.threads};
  hr_compare_latest(a, key);
  hr_compare_latest(b, key);
  size_t most = (a->count < b->count ? a->count : b->count) + 1;
  result->points = calloc(most, sizeof *result->points);
  result->sweeps = calloc(most, sizeof *result->sweeps);
  hr_ratio *ratios = calloc(most, sizeof *ratios);
  if (!result->points || !result->sweeps || !ratios) {
    free(ratios);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu points", most);
  }
  result->count = result->sweep_count = 0;
  match(result, a, b, key);
  sum_up(result, ratios);
  free(ratios);
  return HR_OK;
}

hr_status hr_compare_stores(const hr_compare_side *a, const hr_compare_side *b, double tolerance,
                            hr_compare_result **result, hr_error *error)
{
  HR_NEED(error, a, b, result);
  HR_TAKE(hr_compare_side, a, error);
  HR_TAKE(hr_compare_side, b, error);
  HR_NEED(error, a->store, b->store);
  if (!(tolerance >= 0 && tolerance <= 1))
    return hr_fail(error, HR_ERROR_INVALID, "tolerance: expected 0 … 1, found %g", tolerance);
  hr_compare_result *made = calloc(1, sizeof *made);
  hr_compare_rows *rows_a = calloc(1, sizeof *rows_a), *rows_b = calloc(1, sizeof *rows_b);
  if (!made || !rows_a || !rows_b) {
    free(made);
    free(rows_a);
    free(rows_b);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a comparison");
  }
  *made = (hr_compare_result){.tolerance = tolerance, .rows_a = rows_a, .rows_b = rows_b};
  hr_status status = hr_compare_read(a->store, a, rows_a, &made->a, error);
  if (status == HR_OK)
    status = hr_compare_read(b->store, b, rows_b, &made->b, error);
  if (status == HR_OK)
    status = compare_rows(made, rows_a, rows_b, error);
  if (status != HR_OK) {
    hr_compare_free(made);
    return status;
  }
  *result = made;
  return HR_OK;
}

void hr_compare_free(hr_compare_result *result)
{
  if (!result)
    return;
  hr_compare_rows_free(result->rows_a);
  hr_compare_rows_free(result->rows_b);
  free(result->rows_a);
  free(result->rows_b);
  free(result->points);
  free(result->sweeps);
  free(result);
}

bool hr_compare_is_worse(const hr_compare_result *result, bool strict)
{
  bool worse = result->total.lost > 0 || result->total.verdict == HR_VERDICT_SLOWER;
  for (size_t i = 0; i < result->sweep_count; i++)
    worse = worse || result->sweeps[i].sum.verdict == HR_VERDICT_SLOWER;
  return worse || (strict && result->total.verdicts[HR_VERDICT_SLOWER] > 0);
}

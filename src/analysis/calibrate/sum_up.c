/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of a fit by kind and size, the band and the intervals. */
#include "analysis/calibrate/fit.h"

#include "analysis/predict/terms.h"
#include "base/error.h"
#include "base/names.h"
#include "base/sort.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- intervals: where nine of ten measured times lie, by kind and size of prediction ---- */

#define MIN_ROWS 40 /* of a size class; fewer are joined with the next one */
#define MIN_OF_KIND 20
#define TAIL 0.04 /* a little less than 0.05, as percentiles of few rows vary */
#define BEYOND_ALL 1e18

/* Ends of the size classes, of predicted times: six for each of 13 kinds, and for three number formats of four kinds of
 * GEMMs, which are 150 of HR_INTERVALS_MAX. */
static const double ends_ns[] = {1e4, 3e4, 1e5, 3e5, 1e6, BEYOND_ALL};
#define CLASSES (sizeof ends_ns / sizeof *ends_ns)

typedef struct ratio {
  double ratio; /* measured over predicted */
  double predicted_ns;
} ratio;

/* Between the order statistics at (n + 1) · share, which in the mean leave that share outside. */
static double percentile(const ratio *sorted, size_t count, double share)
{
  double at = fmin(fmax((double)(count + 1) * share - 1, 0), (double)count - 1);
  size_t below = (size_t)at, above = below + 1 < count ? below + 1 : count - 1;
  return sorted[below].ratio + (sorted[above].ratio - sorted[below].ratio) * (at - (double)below);
}

/* The number format that a row's intervals are of: GEMMs of 32 bits and more have kernels of their own. */
static hr_dtype format_of(const hr_validated_row *row)
{
  bool gemm = row->kind == HR_INTERVAL_GEMM || row->kind == HR_INTERVAL_GEMM_MISALIGNED ||
              row->kind == HR_INTERVAL_BMM || row->kind == HR_INTERVAL_BMM_MISALIGNED;
  return gemm && hr_dtype_bytes(row->gemm.dtype) >= 4 ? row->gemm.dtype : HR_DTYPE_COUNT;
}

/* `half`: of every second row of a kind, whatever its format. */
static size_t choose(const hr_validated_row *rows, size_t count, hr_interval_kind kind, hr_dtype dtype, bool half,
                     ratio *to)
{
  size_t used = 0, number = 0;
  for (size_t i = 0; i < count; i++) {
    const hr_validated_row *row = &rows[i];
    if (hr_validated_row_interval(row) != kind)
      continue;
    bool left_out = number++ % 2 == 1 && half;
    if (format_of(row) == dtype && !left_out)
      to[used++] = (ratio){row->measured_ns / row->prediction.time_ns, row->prediction.time_ns};
  }
  return used;
}

static int by_prediction(const void *a, const void *b)
{
  const ratio *x = a, *y = b;
  if (x->predicted_ns != y->predicted_ns)
    return x->predicted_ns < y->predicted_ns ? -1 : 1;
  return hr_compare_numbers(a, b);
}

/* Ends are not known to more than three places. */
static double rounded(double end)
{
  return round(1000 * end) / 1000;
}

static hr_interval interval_of(double below_ns, ratio *members, size_t count)
{
  qsort(members, count, sizeof *members, hr_compare_numbers);
  return (hr_interval){.below_ns = below_ns,
                       .low = fmin(1, rounded(percentile(members, count, TAIL))),
                       .high = fmax(1, rounded(percentile(members, count, 1 - TAIL)))};
}

/* Cuts the ratios of one kind and format into classes. A class with too few goes to the next, the last to the one
 * before. */
static size_t intervals_of(hr_interval_kind kind, hr_dtype dtype, ratio *found, size_t count,
                           hr_interval intervals[CLASSES])
{
  size_t used = 0, first[CLASSES + 1] = {0}, behind = 0;
  double ends[CLASSES];
  qsort(found, count, sizeof *found, by_prediction);
  for (size_t class = 0; class < CLASSES; class ++) {
    while (behind < count && found[behind].predicted_ns < ends_ns[class])
      behind++;
    if (behind - first[used] < MIN_ROWS)
      continue;
    ends[used++] = ends_ns[class];
    first[used] = behind;
  }
  used += used == 0;
  first[used] = count;
  ends[used - 1] = BEYOND_ALL;
  for (size_t i = 0; i < used; i++) {
    intervals[i] = interval_of(ends[i], found + first[i], first[i + 1] - first[i]);
    intervals[i].kind = kind, intervals[i].dtype = dtype;
  }
  return used;
}

/* Takes as many as the list has room for. */
static void append(hr_hardware *hardware, const hr_interval *intervals, size_t count)
{
  for (size_t i = 0; i < count && hardware->interval_count < HR_INTERVALS_MAX; i++)
    hardware->intervals[hardware->interval_count++] = intervals[i];
}

/* Replaces the intervals of each kind that has enough of all rows or of half of them, of GEMMs of 32 bits and more of
 * each kind and number format; others keep theirs. */
static hr_status fit_intervals(const hr_validation *held, bool half, hr_hardware *hardware, hr_error *error)
{
  const hr_hardware old = *hardware;
  ratio *found = malloc((held->row_count + 1) * sizeof *found);
  if (!found)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", held->row_count);
  hardware->interval_count = 0;
  for (int i = 0; i < HR_INTERVAL_KIND_COUNT * (HR_DTYPE_COUNT + 1); i++) {
    const hr_interval_kind kind = (hr_interval_kind)(i / (HR_DTYPE_COUNT + 1));
    const hr_dtype dtype = (hr_dtype)(i % (HR_DTYPE_COUNT + 1));
    hr_interval fitted[CLASSES];
    const size_t members = choose(held->rows, held->row_count, kind, dtype, half, found);
    if (members >= MIN_OF_KIND)
      append(hardware, fitted, intervals_of(kind, dtype, found, members, fitted));
    for (size_t at = 0; at < old.interval_count && members < MIN_OF_KIND; at++)
      append(hardware, &old.intervals[at], old.intervals[at].kind == kind && old.intervals[at].dtype == dtype);
  }
  free(found);
  return HR_OK;
}

/* Whether the row's measured time lies in the interval of its predicted one, or in the band. */
static bool interval_covers(const hr_hardware *hardware, const hr_validated_row *row)
{
  double factor = row->measured_ns / row->prediction.time_ns, band = 1 + hardware->error_band;
  const hr_interval *interval =
      hr_interval_for(hardware, hr_validated_row_interval(row), format_of(row), row->prediction.time_ns);
  if (interval)
    return factor >= interval->low && factor <= interval->high;
  return factor >= 1 / band && factor <= band;
}

/* ---- errors ---- */

const char *hr_calibrated_size_name(hr_calibrated_size size)
{
  static const char *const names[] = {"all", "below 30 us", "30 us and more"};
  return hr_name_of(names, HR_CALIBRATED_SIZE_COUNT, (int)size);
}

static bool belongs(const hr_validated_row *row, hr_interval_kind kind, hr_calibrated_size size)
{
  bool small = row->measured_ns < HR_CALIBRATED_SHORT_NS;
  return row->kind == kind && (size == HR_CALIBRATED_ANY || small == (size == HR_CALIBRATED_SHORT));
}

/* The errors of the rows of a kind and size; zeros without any. `rows` has room for all. */
static hr_validated_group errors_of(const hr_validation *v, const hr_calibrated_kind *of, const hr_validated_row **rows)
{
  size_t count = 0;
  hr_validated_group errors = {.rows = 0};
  for (size_t i = 0; i < v->row_count; i++) {
    if (belongs(&v->rows[i], of->kind, of->size))
      rows[count++] = &v->rows[i];
  }
  if (count > 0)
    hr_validated_group_fill(&errors, rows, count);
  return errors;
}

/* `half`: a device with the intervals of every second row, held against the others. */
static double coverage_of(const hr_validation *held, const hr_hardware *half, const hr_calibrated_kind *of)
{
  double tested = 0, inside = 0;
  size_t number = 0;
  for (size_t i = 0; i < held->row_count; i++) {
    bool odd = held->rows[i].kind == of->kind && number++ % 2 == 1;
    if (!odd || !belongs(&held->rows[i], of->kind, of->size))
      continue;
    tested++;
    inside += interval_covers(half, &held->rows[i]);
  }
  return tested > 0 ? inside / tested : (double)NAN;
}

static void fill_kinds(const hr_validation *before, const hr_validation *fitted, const hr_hardware *half,
                       const hr_validated_row **rows, hr_calibrate_result *result)
{
  for (int i = 0; i < HR_INTERVAL_KIND_COUNT * HR_CALIBRATED_SIZE_COUNT; i++) {
    hr_calibrated_kind *to = &result->kinds[result->kind_count];
    *to = (hr_calibrated_kind){.kind = (hr_interval_kind)(i / HR_CALIBRATED_SIZE_COUNT),
                               .size = (hr_calibrated_size)(i % HR_CALIBRATED_SIZE_COUNT)};
    const hr_validated_group held = errors_of(result->held_out, to, rows);
    if (held.rows == 0)
      continue;
    to->rows = held.rows;
    to->held_out = held.mean, to->held_out_bias = held.bias;
    to->held_out_p90 = held.p90, to->held_out_median = held.median;
    to->coverage = coverage_of(result->held_out, half, to);
    to->before = errors_of(before, to, rows).mean;
    to->fitted = errors_of(fitted, to, rows).mean;
    result->kind_count++;
  }
}

hr_status hr_calibrate_sum_up(const hr_validation *before, const hr_validation *fitted, hr_calibrate_result *result,
                              hr_error *error)
{
  const hr_validation *held = result->held_out;
  hr_validated_group all;
  const hr_validated_row **rows = malloc((held->row_count + 1) * sizeof *rows);
  if (!rows)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", held->row_count);
  for (size_t i = 0; i < held->row_count; i++)
    rows[i] = &held->rows[i];
  hr_validated_group_fill(&all, rows, held->row_count);
  result->hardware->error_band = fmin(ceil(100 * all.p90) / 100, 100); /* of nine of ten held-out rows */
  hr_hardware half = *result->hardware;
  hr_status status = fit_intervals(held, true, &half, error);
  if (status == HR_OK)
    fill_kinds(before, fitted, &half, rows, result);
  free(rows);
  return status == HR_OK ? fit_intervals(held, false, result->hardware, error) : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/calibrate/intervals.h"

#include "analysis/predict/terms.h"
#include "analysis/validate/rows.h"
#include "base/error.h"
#include "base/sort.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* HR_DTYPE_COUNT of other rows than GEMMs. */
static hr_dtype gemm_dtype(const hr_validated_row *row)
{
  bool gemm = row->kind == HR_INTERVAL_GEMM || row->kind == HR_INTERVAL_GEMM_MISALIGNED ||
              row->kind == HR_INTERVAL_BMM || row->kind == HR_INTERVAL_BMM_MISALIGNED;
  return gemm ? row->gemm.dtype : HR_DTYPE_COUNT;
}

/* The number format that a row's intervals are of: GEMMs of 32 bits and more have kernels of their own. */
static hr_dtype format_of(const hr_validated_row *row)
{
  return hr_dtype_bytes(gemm_dtype(row)) >= 4 ? gemm_dtype(row) : HR_DTYPE_COUNT;
}

/* Every second row of a kind, whatever its format. */
static size_t choose(const hr_validated_row *rows, size_t count, hr_interval_kind kind, hr_dtype dtype,
                     hr_row_choice choice, ratio *to)
{
  size_t used = 0, number = 0;
  for (size_t i = 0; i < count; i++) {
    const hr_validated_row *row = &rows[i];
    if (hr_validated_row_interval(row) != kind)
      continue;
    bool odd = number++ % 2 == 1;
    if (format_of(row) != dtype)
      continue;
    if (choice == HR_ROWS_BOTH || odd == (choice == HR_ROWS_ODD))
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

/* Cuts the ratios of one kind into classes. A class with too few goes to the next, the last to the one before. */
static size_t intervals_of(ratio *found, size_t count, hr_interval intervals[CLASSES])
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
  for (size_t i = 0; i < used; i++)
    intervals[i] = interval_of(ends[i], found + first[i], first[i + 1] - first[i]);
  return used;
}

/* Below 0: before the intervals of a kind and format; 0: one of these. */
static int compare_class(const hr_interval *interval, hr_interval_kind kind, hr_dtype dtype)
{
  return interval->kind != kind ? (int)interval->kind - (int)kind : (int)interval->dtype - (int)dtype;
}

static void replace(hr_hardware *hardware, hr_interval_kind kind, hr_dtype dtype, const hr_interval *intervals,
                    size_t count)
{
  hr_interval kept[HR_INTERVALS_MAX];
  size_t used = 0, i = 0;
  for (; i < hardware->interval_count && compare_class(&hardware->intervals[i], kind, dtype) < 0; i++)
    kept[used++] = hardware->intervals[i];
  for (size_t j = 0; j < count && used < HR_INTERVALS_MAX; j++) {
    kept[used] = intervals[j];
    kept[used].kind = kind;
    kept[used++].dtype = dtype;
  }
  for (; i < hardware->interval_count && used < HR_INTERVALS_MAX; i++) {
    if (compare_class(&hardware->intervals[i], kind, dtype) > 0)
      kept[used++] = hardware->intervals[i];
  }
  memcpy(hardware->intervals, kept, used * sizeof *kept);
  hardware->interval_count = used;
}

static void fit_class(const hr_validated_row *rows, size_t count, hr_row_choice choice, hr_interval_kind kind,
                      hr_dtype dtype, ratio *found, hr_hardware *hardware)
{
  hr_interval intervals[CLASSES];
  size_t members = choose(rows, count, kind, dtype, choice, found);
  if (members >= MIN_OF_KIND)
    replace(hardware, kind, dtype, intervals, intervals_of(found, members, intervals));
}

hr_status hr_fit_intervals(const hr_validated_row *rows, size_t count, hr_row_choice choice, hr_hardware *hardware,
                           hr_error *error)
{
  ratio *found = malloc((count + 1) * sizeof *found);
  if (!found)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", count);
  for (int kind = 0; kind < HR_INTERVAL_KIND_COUNT; kind++) {
    for (int dtype = 0; dtype <= HR_DTYPE_COUNT; dtype++)
      fit_class(rows, count, choice, (hr_interval_kind)kind, (hr_dtype)dtype, found, hardware);
  }
  free(found);
  return HR_OK;
}

bool hr_interval_covers(const hr_hardware *hardware, const hr_validated_row *row)
{
  double factor = row->measured_ns / row->prediction.time_ns, band = 1 + hardware->error_band;
  const hr_interval *interval =
      hr_interval_for(hardware, hr_validated_row_interval(row), gemm_dtype(row), row->prediction.time_ns);
  if (interval)
    return factor >= interval->low && factor <= interval->high;
  return factor >= 1 / band && factor <= band;
}

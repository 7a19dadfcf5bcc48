/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/calibrate/intervals.h"

#include "analysis/validate/rows.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_ROWS 40 /* of a size class; fewer are joined with the next one */
#define LEAST_OF_KIND 20
#define TAIL 0.04 /* a little less than 0.05, as percentiles of few rows vary */
#define BEYOND_ALL 1e18

/* Ends of the size classes, of predicted times. Six for each kind: 72 of HR_INTERVALS_MAX. */
static const double ends_ns[] = {1e4, 3e4, 1e5, 3e5, 1e6, BEYOND_ALL};
#define CLASSES (sizeof ends_ns / sizeof *ends_ns)

typedef struct ratio {
  double predicted_ns, ratio; /* measured over predicted */
} ratio;

static int by_ratio(const void *a, const void *b)
{
  double x = ((const ratio *)a)->ratio, y = ((const ratio *)b)->ratio;
  return (x > y) - (x < y);
}

/* Between the order statistics at (n + 1) · share, which in the mean leave that share outside. */
static double percentile(const ratio *sorted, size_t count, double share)
{
  double at = fmin(fmax((double)(count + 1) * share - 1, 0), (double)count - 1);
  size_t below = (size_t)at, above = below + 1 < count ? below + 1 : count - 1;
  return sorted[below].ratio + (sorted[above].ratio - sorted[below].ratio) * (at - (double)below);
}

static size_t choose(const hr_validated_row *rows, size_t count, hr_interval_kind kind, hr_row_choice choice, ratio *to)
{
  size_t used = 0, number = 0;
  for (size_t i = 0; i < count; i++) {
    const hr_validated_row *row = &rows[i];
    if (hr_validated_row_interval(row) != kind)
      continue;
    bool odd = number++ % 2 == 1;
    if (choice == HR_ROWS_BOTH || odd == (choice == HR_ROWS_ODD))
      to[used++] = (ratio){row->prediction.time_ns, row->measured_ns / row->prediction.time_ns};
  }
  return used;
}

static int by_prediction(const void *a, const void *b)
{
  const ratio *x = a, *y = b;
  if (x->predicted_ns != y->predicted_ns)
    return x->predicted_ns < y->predicted_ns ? -1 : 1;
  return by_ratio(a, b);
}

static hr_interval interval_of(hr_interval_kind kind, double below_ns, ratio *members, size_t count)
{
  qsort(members, count, sizeof *members, by_ratio);
  return (hr_interval){.kind = kind,
                       .below_ns = below_ns,
                       .low = fmin(1, percentile(members, count, TAIL)),
                       .high = fmax(1, percentile(members, count, 1 - TAIL))};
}

/* Cuts the ratios of one kind into classes. A class with too few goes to the next, the last to the one before. */
static size_t intervals_of(hr_interval_kind kind, ratio *found, size_t count, hr_interval intervals[CLASSES])
{
  size_t used = 0, first[CLASSES + 1] = {0}, behind = 0;
  double ends[CLASSES];
  qsort(found, count, sizeof *found, by_prediction);
  for (size_t class = 0; class < CLASSES; class ++) {
    while (behind < count && found[behind].predicted_ns < ends_ns[class])
      behind++;
    if (behind - first[used] < LEAST_ROWS)
      continue;
    ends[used++] = ends_ns[class];
    first[used] = behind;
  }
  used += used == 0;
  first[used] = count;
  ends[used - 1] = BEYOND_ALL;
  for (size_t i = 0; i < used; i++)
    intervals[i] = interval_of(kind, ends[i], found + first[i], first[i + 1] - first[i]);
  return used;
}

static void replace(hr_hardware *hardware, hr_interval_kind kind, const hr_interval *intervals, size_t count)
{
  hr_interval kept[HR_INTERVALS_MAX];
  size_t used = 0;
  for (size_t i = 0; i < hardware->interval_count && hardware->intervals[i].kind < kind; i++)
    kept[used++] = hardware->intervals[i];
  for (size_t i = 0; i < count && used < HR_INTERVALS_MAX; i++)
    kept[used++] = intervals[i];
  for (size_t i = 0; i < hardware->interval_count && used < HR_INTERVALS_MAX; i++) {
    if (hardware->intervals[i].kind > kind)
      kept[used++] = hardware->intervals[i];
  }
  memcpy(hardware->intervals, kept, used * sizeof *kept);
  hardware->interval_count = used;
}

hr_status hr_fit_intervals(const hr_validated_row *rows, size_t count, hr_row_choice choice, hr_hardware *hardware,
                           hr_error *error)
{
  hr_interval intervals[CLASSES];
  ratio *found = malloc((count + 1) * sizeof *found);
  if (!found)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", count);
  for (int kind = 0; kind < HR_INTERVAL_KIND_COUNT; kind++) {
    size_t members = choose(rows, count, (hr_interval_kind)kind, choice, found);
    if (members >= LEAST_OF_KIND)
      replace(hardware, (hr_interval_kind)kind, intervals,
              intervals_of((hr_interval_kind)kind, found, members, intervals));
  }
  free(found);
  return HR_OK;
}

bool hr_interval_covers(const hr_hardware *hardware, const hr_validated_row *row)
{
  hr_interval_kind kind = hr_validated_row_interval(row);
  double factor = row->measured_ns / row->prediction.time_ns, band = 1 + hardware->error_band;
  for (size_t i = 0; i < hardware->interval_count; i++) {
    const hr_interval *interval = &hardware->intervals[i];
    if (interval->kind == kind && row->prediction.time_ns < interval->below_ns)
      return factor >= interval->low && factor <= interval->high;
  }
  return factor >= 1 / band && factor <= band;
}

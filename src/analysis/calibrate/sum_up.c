/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/calibrate/sum_up.h"

#include "analysis/calibrate/intervals.h"
#include "base/error.h"
#include "base/names.h"
#include "base/sort.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>

#define IN_BAND 0.9 /* of the held-out rows */

const char *hr_calibrated_size_name(hr_calibrated_size size)
{
  static const char *const names[] = {"all", "below 30 us", "30 us and more"};
  return hr_name_of(names, HR_CALIBRATED_SIZE_COUNT, (int)size);
}

/* The error that a share of the rows has at most. */
static double ranked(double *errors, size_t count, double share)
{
  qsort(errors, count, sizeof *errors, hr_compare_numbers);
  return errors[(size_t)fmax(ceil(share * (double)count) - 1, 0)];
}

static bool belongs(const hr_validated_row *row, hr_interval_kind kind, hr_calibrated_size size)
{
  bool small = row->measured_ns < HR_CALIBRATED_SHORT_NS;
  return row->kind == kind && (size == HR_CALIBRATED_ANY || small == (size == HR_CALIBRATED_SHORT));
}

static double mean_of(const hr_validation *v, const hr_calibrated_kind *of)
{
  double logs = 0;
  for (size_t i = 0; i < v->row_count; i++)
    logs += belongs(&v->rows[i], of->kind, of->size) ? log1p(v->rows[i].error) : 0;
  return expm1(logs / (double)of->rows);
}

/* `half`: a device with the intervals of every second row, held against the others. */
static void fill(const hr_validation *held, const hr_hardware *half, double *errors, hr_calibrated_kind *to)
{
  double logs = 0, tested = 0, inside = 0;
  size_t count = 0, number = 0;
  for (size_t i = 0; i < held->row_count; i++) {
    const hr_validated_row *row = &held->rows[i];
    bool odd = row->kind == to->kind && number++ % 2 == 1;
    if (!belongs(row, to->kind, to->size))
      continue;
    errors[count++] = row->error;
    logs += log(row->prediction.time_ns / row->measured_ns);
    tested += odd;
    inside += odd && hr_interval_covers(half, row);
  }
  to->rows = (int64_t)count;
  if (count == 0)
    return;
  to->held_out = mean_of(held, to);
  to->held_out_bias = expm1(logs / (double)count);
  to->held_out_p90 = ranked(errors, count, 0.9);
  to->held_out_median = (errors[(count - 1) / 2] + errors[count / 2]) / 2;
  to->coverage = tested > 0 ? inside / tested : (double)NAN;
}

static void fill_kinds(const hr_validation *before, const hr_validation *fitted, const hr_hardware *half,
                       double *errors, hr_calibrate_result *result)
{
  for (int kind = 0; kind < HR_INTERVAL_KIND_COUNT; kind++) {
    for (int size = 0; size < HR_CALIBRATED_SIZE_COUNT; size++) {
      hr_calibrated_kind *to = &result->kinds[result->kind_count];
      *to = (hr_calibrated_kind){.kind = (hr_interval_kind)kind, .size = (hr_calibrated_size)size};
      fill(result->held_out, half, errors, to);
      if (to->rows == 0)
        continue;
      to->before = mean_of(before, to);
      to->fitted = mean_of(fitted, to);
      result->kind_count++;
    }
  }
}

hr_status hr_calibrate_sum_up(const hr_validation *before, const hr_validation *fitted, hr_calibrate_result *result,
                              hr_error *error)
{
  const hr_validation *held = result->held_out;
  double *errors = malloc((held->row_count + 1) * sizeof *errors);
  if (!errors)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", held->row_count);
  for (size_t i = 0; i < held->row_count; i++)
    errors[i] = held->rows[i].error;
  result->hardware->error_band = fmin(ceil(100 * ranked(errors, held->row_count, IN_BAND)) / 100, 100);
  hr_hardware half = *result->hardware;
  hr_status status = hr_fit_intervals(held->rows, held->row_count, HR_ROWS_EVEN, &half, error);
  if (status == HR_OK)
    fill_kinds(before, fitted, &half, errors, result);
  free(errors);
  return status == HR_OK ? hr_fit_intervals(held->rows, held->row_count, HR_ROWS_BOTH, result->hardware, error)
                         : status;
}

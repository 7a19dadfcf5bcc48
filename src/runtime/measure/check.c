/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a kernel's result with the float64 reference on a sample of rows, and in large GEMMs on a sample of their
 * columns. docs/notes/measuring-derivations.md describes the sample. */
#include "runtime/measure/check.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/host.h"
#include "runtime/device/plan.h"
#include "runtime/measure/checks.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/experimental/decode.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* A random number below `count`, determined by seed, row and range. */
static int64_t drawn(uint64_t seed, int64_t row, int64_t range, int64_t count)
{
  uint64_t spread = (seed + (uint64_t)row + HR_CHECKED_ROWS_MAX * (uint64_t)range) * 0x9E3779B97F4A7C15u;
  return (int64_t)((spread >> 16) % (uint64_t)count);
}

/* The last row, the first, and one random row of each of count − 2 equal stretches between them. */
int64_t hr_sampled_row(int64_t rows, int64_t count, int64_t index, uint64_t seed)
{
  if (index < 2)
    return index == 0 ? rows - 1 : 0;
  int64_t between = rows - 2, stretches = count - 2, at = index - 2;
  int64_t first = between / stretches * at + hr_min64(between % stretches, at);
  int64_t length = between / stretches + (at < between % stretches);
  return 1 + first + drawn(seed, index, 0, length);
}

/* First column of range `range` in the index-th sampled row: a random one in each of `ranges` equal stretches, but the
 * very end of the last row and the very beginning of the first. */
static int64_t sampled_column(const hr_sample *s, int64_t index, int64_t range)
{
  int64_t stretch = s->length / s->ranges, room = stretch - s->width;
  if (index == 0 && range == s->ranges - 1)
    return s->length - s->width;
  if (index == 1 && range == 0)
    return 0;
  return range * stretch + drawn(s->seed, index, range + 1, room + 1);
}

static bool selects(const hr_runner *s)
{
  const hr_check *check = hr_check_of(s->problem.operation);
  return check->selects && check->selects(&s->problem);
}

static hr_status check_range(const hr_checked_range *range, hr_host_set *host, double *scratch, hr_measurement *m,
                             hr_error *error)
{
  const hr_runner *s = range->runner;
  const hr_sample *of = range->of;
  const hr_check *check = hr_check_of(s->problem.operation);
  double *expected = scratch + of->scratch, *swapped = expected + 2 * of->width;
  hr_reference_query query = {.out = expected, .norm = expected + of->width};
  HR_TRY(check->fetch(range, host, error));
  check->reference(range, host, scratch, &query);
  if (selects(s))
    check->swaps(range, host, &query, scratch, swapped);
  const size_t output = s->operands.inputs + of->output;
  const hr_dtype dtype = hr_operand_dtype(&s->problem, &s->operands, output);
  int64_t start = check->row_start(&s->problem, of->output, range->row) + range->column;
  for (int64_t j = 0; j < of->width; j++) {
    double found = hr_number_load(dtype, host->operands[output], (size_t)(start + j));
    expected[j] = hr_dtype_saturate(dtype, expected[j]);
    double off = fabs(found - expected[j]), bound = check->bound(s->plan, &query, j) + swapped[j];
    if (!(off <= m->max_error))
      m->max_error = off;
    if (!(off <= bound)) /* also if NaN */
      return hr_fail(error, HR_ERROR_WRONG_RESULT, "%s: row %" PRId64 ", column %" PRId64 ": %g, the reference is %g",
                     hr_plan_kernel(s->plan), range->row, range->column + j, found, expected[j]);
  }
  return HR_OK;
}

static hr_status check_row(const hr_runner *s, hr_host_set *host, const hr_sample *of, int64_t index, double *scratch,
                           hr_measurement *m, hr_error *error)
{
  hr_checked_range checked = {s, of, hr_sampled_row(of->rows, of->count, index, of->seed), 0};
  for (int64_t range = 0; range < of->ranges; range++) {
    checked.column = sampled_column(of, index, range);
    HR_TRY(check_range(&checked, host, scratch, m, error));
  }
  m->rows_checked++;
  return HR_OK;
}

/* Returns the largest error of the rows that are checked. */
static double selection_error(const hr_runner *s, const hr_host_set *host, const hr_sample *of, double *scratch)
{
  int64_t rows[HR_CHECKED_ROWS_MAX];
  for (int64_t i = 0; i < of->count; i++)
    rows[i] = hr_sampled_row(of->rows, of->count, i, of->seed);
  return hr_check_of(s->problem.operation)->selection_error(s, host, rows, of->count, scratch);
}

/* Returns how much the device's free memory fell, by the workspace and by allocations of driver and libraries. Memory
 * is allocated in large pages, so that a small workspace may not show; then its own size counts. */
static double device_memory_taken(const hr_runner *s)
{
  size_t after = hr_device_memory_available(s->device);
  if (s->free_before == 0 || after == 0)
    return (double)NAN;
  return fmax((double)s->free_before - (double)after, (double)hr_plan_workspace_bytes(s->plan));
}

/* The first run, and the memory it takes in addition to the operands. */
static hr_status run_first(hr_runner *s, hr_measurement *m, hr_error *error)
{
  const hr_backend *backend = s->device->backend;
  size_t before = backend->own_memory ? 0 : hr_host_peak_begin();
  s->next = 0;
  HR_TRY(hr_runner_run(s, error));
  if (backend->own_memory && backend->wait)
    HR_TRY(backend->wait(s->device, error));
  if (backend->own_memory)
    m->peak_bytes = device_memory_taken(s);
  else
    m->peak_bytes = before > 0 ? hr_host_peak_since(before) : (double)NAN;
  return HR_OK;
}

static hr_status check_output(hr_runner *s, hr_host_set *host, const hr_sample *of, hr_measurement *m, hr_error *error)
{
  double *scratch = calloc(of->scratch + 3 * (size_t)of->width, sizeof *scratch);
  if (!scratch)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to check rows of %" PRId64 " elements",
                   of->length);
  hr_status status = HR_OK;
  for (int64_t i = 0; i < of->count && status == HR_OK; i++)
    status = check_row(s, host, of, i, scratch, m, error);
  if (status == HR_OK && selects(s))
    m->selection_error = selection_error(s, host, of, scratch);
  free(scratch);
  return status;
}

hr_status hr_runner_check(hr_runner *runner, uint64_t seed, hr_measurement *m, hr_error *error)
{
  HR_TRY(run_first(runner, m, error));
  m->max_error = 0;
  hr_host_set host = {{NULL}, {NULL}, {{0, 0}}};
  hr_status status = hr_host_set_begin(runner, &host, error);
  for (size_t i = 0; i < runner->operands.count - runner->operands.inputs && status == HR_OK; i++) {
    hr_sample of = hr_check_of(runner->problem.operation)->sample(&runner->problem, i);
    of.seed = seed;
    of.output = i;
    status = check_output(runner, &host, &of, m, error);
  }
  hr_host_set_end(runner, &host);
  return status;
}

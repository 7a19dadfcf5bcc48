/* SPDX-License-Identifier: Apache-2.0 */
/* `results show`: everything about one row of the store. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "report/document.h"
#include "report/json.h"
#include "report/measurement.h"
#include "runtime/store/format.h"

#include <inttypes.h>
#include <math.h>

static void device(const void *row, hr_cell *cell)
{
  const hr_result *r = row;
  if (r->threads > 0)
    hr_cell_format(cell, "%s: %s, %" PRId64 " threads", r->device, r->product, r->threads);
  else
    hr_cell_format(cell, "%s%s%s", r->device, r->product[0] ? ": " : "", r->product);
}

static void status(const void *row, hr_cell *cell)
{
  const hr_measurement *m = &((const hr_result *)row)->measurement;
  hr_cell_format(cell, "%s%s%s", hr_status_name(m->status), m->reason[0] ? ": " : "", m->reason);
}

static void median(const void *row, hr_cell *cell)
{
  const hr_measurement *m = &((const hr_result *)row)->measurement;
  char time[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE], interval[160] = "";
  if (!isfinite(m->median_ns))
    return;
  hr_write_time(time, sizeof time, m->median_ns);
  hr_write_time(low, sizeof low, m->median_low_ns);
  hr_write_time(high, sizeof high, m->median_high_ns);
  if (isfinite(m->median_low_ns))
    snprintf(interval, sizeof interval, " (%s %s to %s)", hr_interval_words(m), low, high);
  hr_cell_format(cell, "median %s%s, %" PRId64 " sample%s, %s", time, interval, m->samples, m->samples == 1 ? "" : "s",
                 m->warm ? "warm" : "cold");
}

static void of_ceiling(const void *row, hr_cell *cell)
{
  const hr_result *r = row;
  char share[HR_NUMBER_SIZE];
  hr_write_share(share, sizeof share, r->ceiling_share);
  if (isfinite(r->ceiling_share))
    hr_cell_format(cell, "%s of the instruction ceiling", share);
}

static void of_library(const void *row, hr_cell *cell)
{
  const hr_result *r = row;
  char share[HR_NUMBER_SIZE];
  hr_write_share(share, sizeof share, r->library_share);
  if (isfinite(r->library_share))
    hr_cell_format(cell, "%s of the library's best GEMM", share);
}

static void set_reading(hr_cell *cell, double value, const char *unit)
{
  if (isfinite(value))
    hr_cell_format(cell, "%.4g %s", value, unit);
}

static void megahertz(const void *member, hr_cell *cell)
{
  set_reading(cell, *(const double *)member * 1e-6, "MHz");
}

static void watts(const void *member, hr_cell *cell)
{
  set_reading(cell, *(const double *)member, "W");
}

static void celsius(const void *member, hr_cell *cell)
{
  set_reading(cell, *(const double *)member, "°C");
}

static void sustained(const void *row, hr_cell *cell)
{
  const hr_measurement *m = &((const hr_result *)row)->measurement;
  char energy[HR_NUMBER_SIZE], time[HR_NUMBER_SIZE];
  if (isnan(m->energy_j))
    return;
  hr_write_energy(energy, sizeof energy, m->energy_j);
  hr_write_time(time, sizeof time, m->sustained_ns);
  hr_cell_format(cell, "%s, %s, %.0f W at %.0f MHz", time, energy, m->sustained_power_w, m->sustained_clock_hz * 1e-6);
}

static void discarded(const void *row, hr_cell *cell)
{
  int64_t count = ((const hr_result *)row)->measurement.discarded;
  if (count > 0)
    hr_cell_format(cell, "%" PRId64 " samples disturbed by other processes", count);
}

static void data(const void *row, hr_cell *cell)
{
  const hr_result *r = row;
  hr_cell_format(cell, "seed %" PRIu64 ", %" PRId64 " buffer set%s", r->seed, r->measurement.buffer_sets,
                 r->measurement.buffer_sets == 1 ? "" : "s");
}

static void checked(const void *row, hr_cell *cell)
{
  const hr_measurement *m = &((const hr_result *)row)->measurement;
  if (m->rows_checked > 0 && isfinite(m->max_error))
    hr_cell_format(cell, "%" PRId64 " rows, largest difference %.3g", m->rows_checked, m->max_error);
}

#define RESULT(member) HR_OPTIONAL(hr_result, member)
#define CONDITION(function, member) HR_COMPUTED_OF(TEXT, function, hr_result, measurement.conditions.member)
static const hr_column fields[] = {
    {NULL, "id", HR_PLAIN, 0, RESULT(id)},
    {NULL, "date", HR_PLAIN, 0, RESULT(date)},
    {NULL, "sweep", HR_PLAIN, 0, RESULT(sweep)},
    {NULL, "series", HR_PLAIN, 0, RESULT(series)},
    {NULL, "axes", HR_PLAIN, 0, RESULT(axes)},
    {NULL, "problem", HR_PLAIN, 0, RESULT(problem)},
    {NULL, "device", HR_PLAIN, 0, HR_COMPUTED(TEXT, device)},
    {NULL, "kernel", HR_PLAIN, 0, RESULT(measurement.kernel)},
    {NULL, "asked for", HR_PLAIN, 0, RESULT(kernel_asked)},
    {NULL, "configuration", HR_PLAIN, 0, RESULT(measurement.configuration)},
    {NULL, "status", HR_PLAIN, 0, HR_COMPUTED(TEXT, status)},
    {NULL, "time", HR_PLAIN, 0, HR_COMPUTED(TEXT, median)},
    {NULL, "min", HR_TIME, 0, RESULT(measurement.min_ns)},
    {NULL, "p10", HR_TIME, 0, RESULT(measurement.p10_ns)},
    {NULL, "mean", HR_TIME, 0, RESULT(measurement.mean_ns)},
    {NULL, "p90", HR_TIME, 0, RESULT(measurement.p90_ns)},
    {NULL, "max", HR_TIME, 0, RESULT(measurement.max_ns)},
    {NULL, "stddev", HR_TIME, 0, RESULT(measurement.stddev_ns)},
    {NULL, "latency", HR_TIME, 0, RESULT(measurement.latency_ns)},
    {NULL, "rate", HR_FLOPS_RATE, 0, RESULT(measurement.flops_per_s)},
    {NULL, "bytes", HR_BYTES_RATE, 0, RESULT(measurement.bytes_per_s)},
    {NULL, "of ceiling", HR_PLAIN, 0, HR_COMPUTED(TEXT, of_ceiling)},
    {NULL, "of library", HR_PLAIN, 0, HR_COMPUTED(TEXT, of_library)},
    {NULL, "sustained", HR_PLAIN, 0, HR_COMPUTED(TEXT, sustained)},
    {NULL, "clock", HR_PLAIN, 0, CONDITION(megahertz, clock_hz)},
    {NULL, "memory clock", HR_PLAIN, 0, CONDITION(megahertz, memory_clock_hz)},
    {NULL, "power", HR_PLAIN, 0, CONDITION(watts, power_w)},
    {NULL, "temperature", HR_PLAIN, 0, CONDITION(celsius, temperature_c)},
    {NULL, "throttled", HR_PLAIN, 0, RESULT(measurement.conditions.throttled_by)},
    {NULL, "driver", HR_PLAIN, 0, RESULT(driver)},
    {NULL, "libraries", HR_PLAIN, 0, RESULT(libraries)},
    {NULL, "left out", HR_PLAIN, 0, HR_COMPUTED(TEXT, discarded)},
    {NULL, "data", HR_PLAIN, 0, HR_COMPUTED(TEXT, data)},
    {NULL, "checked", HR_PLAIN, 0, HR_COMPUTED(TEXT, checked)},
    {NULL, "host", HR_PLAIN, 0, RESULT(host)},
    {NULL, "headroom", HR_PLAIN, 0, RESULT(program)},
};

static hr_status write_json(FILE *out, const hr_result *result, hr_error *error)
{
  bool failed;
  hr_json document = hr_json_document("results/1", &failed);
  hr_json_put(document, "store", json_null());
  json_t *list = json_array();
  if (json_array_append_new(list, hr_result_json(result)) != 0) {
    json_decref(list);
    list = NULL;
  }
  hr_json_put(document, "results", list);
  return hr_json_write(out, document, error);
}

hr_status hr_report_result(FILE *out, const hr_report_options *options, const hr_result *result, hr_error *error)
{
  HR_NEED(error, out, options, result);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_result, result, error);
  hr_document document;
  hr_status outcome = HR_OK;
  hr_document_begin(&document, out, options);
  if (options->format == HR_FORMAT_CSV) {
    hr_csv_write_head(out);
    hr_csv_write_row(out, result);
  } else if (options->format == HR_FORMAT_JSON) {
    outcome = write_json(out, result, error);
  } else {
    hr_print_fields(&document, fields, HR_COUNT_OF(fields), result);
  }
  return hr_document_end(&document, outcome, error);
}

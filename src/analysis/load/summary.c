/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a simulation: quantiles, rates, and what happened in each part of its time. */
#include "analysis/load/simulation.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>

/* ---- quantiles ---- */

static int by_value(const void *a, const void *b)
{
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* The smallest value that at least `share` of all are not above. */
static double quantile(const double *sorted, size_t count, double share)
{
  size_t place = (size_t)ceil(share * (double)count);
  return sorted[place > 0 ? place - 1 : 0];
}

static hr_load_quantiles quantiles_of(double *values, size_t count)
{
  double sum = 0;
  if (count == 0)
    return (hr_load_quantiles){NAN, NAN, NAN, NAN};
  qsort(values, count, sizeof *values, by_value);
  for (size_t i = 0; i < count; i++)
    sum += values[i];
  return (hr_load_quantiles){.mean = sum / (double)count,
                             .p50 = quantile(values, count, 0.5),
                             .p90 = quantile(values, count, 0.9),
                             .p99 = quantile(values, count, 0.99)};
}

static double ttft_of(const hr_load_record *record)
{
  return record->first_ns - record->arrival_ns;
}

static double queue_of(const hr_load_record *record)
{
  return record->admitted_ns - record->arrival_ns;
}

static double request_of(const hr_load_record *record)
{
  return record->finish_ns - record->arrival_ns;
}

/* From the first token to the last one. */
static double later_of(const hr_load_record *record)
{
  return record->finish_ns - record->first_ns;
}

/* Negative where there is but one token. */
static double tpot_of(const hr_load_record *record)
{
  return record->output > 1 ? (record->finish_ns - record->first_ns) / (double)(record->output - 1) : -1;
}

static void fill_quantiles(const hr_load_record *records, size_t count, double *values, hr_load_point *point)
{
  const struct {
    double (*value_of)(const hr_load_record *record);
    hr_load_quantiles *to;
  } figures[] = {{ttft_of, &point->ttft_ns},
                 {tpot_of, &point->tpot_ns},
                 {queue_of, &point->queue_ns},
                 {request_of, &point->request_ns}};
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    size_t some = 0;
    for (size_t j = 0; j < count; j++) {
      double value = figures[i].value_of(&records[j]);
      if (value >= 0)
        values[some++] = value;
    }
    *figures[i].to = quantiles_of(values, some);
  }
}

/* ---- time ---- */

/* The part of begin … end that lies in an interval, as a share of the interval. */
static double share_in(const hr_load_interval *interval, double begin, double end)
{
  double common = fmin(end, interval->end_ns) - fmax(begin, interval->begin_ns);
  return common > 0 ? common / (interval->end_ns - interval->begin_ns) : 0;
}

static void add_to_interval(const hr_load_record *record, hr_load_interval *interval)
{
  bool last = record->finish_ns <= interval->end_ns;
  double decoding = record->finish_ns - record->first_ns, width_s = (interval->end_ns - interval->begin_ns) * 1e-9;
  interval->arrivals += record->arrival_ns >= interval->begin_ns && record->arrival_ns < interval->end_ns;
  interval->waiting += share_in(interval, record->arrival_ns, record->admitted_ns);
  interval->resident += share_in(interval, record->admitted_ns, record->finish_ns);
  if (decoding > 0)
    interval->output_tokens_per_s +=
        (double)record->output / decoding * 1e9 * share_in(interval, record->first_ns, record->finish_ns);
  else if (last && record->finish_ns > interval->begin_ns)
    interval->output_tokens_per_s += (double)record->output / width_s;
}

static void fill_timeline(const hr_load_record *records, size_t count, double begin_ns, hr_load_point *point)
{
  double width = point->duration_ns / HR_LOAD_INTERVALS;
  for (size_t i = 0; i < HR_LOAD_INTERVALS; i++) {
    hr_load_interval *interval = &point->timeline[i];
    *interval =
        (hr_load_interval){.begin_ns = begin_ns + width * (double)i, .end_ns = begin_ns + width * (double)(i + 1)};
    for (size_t j = 0; j < count; j++)
      add_to_interval(&records[j], interval);
  }
}

typedef double (*time_of)(const hr_load_record *record);

static double mean_of(time_of time, const hr_load_record *records, size_t begin, size_t end)
{
  double sum = 0;
  for (size_t i = begin; i < end; i++)
    sum += time(&records[i]);
  return end > begin ? sum / (double)(end - begin) : 0;
}

/* A wait that grows as long as requests arrive is 1.8 times as long in their last fifth as in the middle one; that of a
 * server which keeps up stays short beside a request. */
static bool wait_grows(time_of time, const hr_load_record *records, size_t count, const hr_load_point *point)
{
  double middle = mean_of(time, records, count * 2 / 5, count * 3 / 5);
  double last = mean_of(time, records, count * 4 / 5, count);
  return middle > 0 && last > 1.5 * middle && last > 0.1 * point->request_ns.p50;
}

/* Requests that may all be longer than the time in which they come. */
#define FEW 100

/* In the second half of the time in which requests arrive, about as many end. */
static bool ends_what_arrives(const hr_load_record *records, size_t count)
{
  double end_ns = records[count - 1].arrival_ns, begin_ns = (records[0].arrival_ns + end_ns) / 2;
  size_t arrived = 0, ended = 0;
  for (size_t i = 0; i < count; i++) {
    arrived += records[i].arrival_ns >= begin_ns;
    ended += records[i].finish_ns >= begin_ns && records[i].finish_ns <= end_ns;
  }
  return count < FEW || end_ns == records[0].arrival_ns || (double)ended >= 0.9 * (double)arrived;
}

hr_status hr_load_summarize(const hr_load_record *records, size_t count, const hr_load_counts *counts,
                            hr_load_point *point, hr_error *error)
{
  double *values = calloc(count, sizeof *values), begin_ns = records[0].arrival_ns, end_ns = 0, tokens = 0, inside = 0;
  if (!values)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  fill_quantiles(records, count, values, point);
  free(values);
  for (size_t i = 0; i < count; i++) {
    end_ns = fmax(end_ns, records[i].finish_ns);
    tokens += (double)records[i].output;
    inside += records[i].finish_ns - records[i].admitted_ns;
  }
  point->duration_ns = end_ns - begin_ns;
  point->resident_mean = inside / point->duration_ns;
  point->resident_max = counts->resident_max;
  point->preempted = counts->preempted;
  point->requests_per_s = (double)count / point->duration_ns * 1e9;
  point->output_tokens_per_s = tokens / point->duration_ns * 1e9;
  point->busy_share = counts->busy_ns / point->duration_ns;
  point->keeps_up = ends_what_arrives(records, count) && !wait_grows(ttft_of, records, count, point);
  if (point->prefill_instances > 0) /* requests wait for those that decode, too */
    point->keeps_up = point->keeps_up && !wait_grows(later_of, records, count, point);
  fill_timeline(records, count, begin_ns, point);
  return HR_OK;
}

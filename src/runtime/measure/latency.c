/* A run alone: with what groups of runs hide, the way to the device and back. */
#include "base/error.h"
#include "runtime/device/clock.h"
#include "runtime/measure/statistics.h"
#include "runtime/measure/subject.h"

#define RUNS 100

static hr_status time_alone(hr_subject *s, double *time_ns, hr_error *error)
{
  double start = hr_clock_ns();
  HR_TRY(hr_subject_run(s, error));
  if (s->device->backend->wait)
    HR_TRY(s->device->backend->wait(s->device, error));
  *time_ns = hr_clock_ns() - start;
  return HR_OK;
}

hr_status hr_subject_latency(hr_subject *subject, const hr_measure_options *options, double *latency_ns,
                             hr_error *error)
{
  double start = hr_clock_ns(), times[RUNS];
  int64_t count = 0;
  while (count == 0 || (count < RUNS && hr_clock_ns() - start < options->time_limit_ns)) {
    HR_TRY(hr_measure_ask(options, error));
    HR_TRY(time_alone(subject, &times[count++], error));
  }
  *latency_ns = hr_median_of(times, count).value;
  return HR_OK;
}

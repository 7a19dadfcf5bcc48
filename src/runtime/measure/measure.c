/* SPDX-License-Identifier: Apache-2.0 */
/* A measurement: open, check, warm up, sample until precise. One sequence of problems, or two interleaved. */
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "runtime/device/clock.h"
#include "runtime/measure/autotune.h"
#include "runtime/measure/check.h"
#include "runtime/measure/energy.h"
#include "runtime/measure/problem_list.h"
#include "runtime/measure/sampling.h"
#include "runtime/measure/settle.h"
#include "runtime/measure/statistics.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define LONG_NS 20e6        /* sequences this long hide their launches without a graph */
#define WARM_UP_NS 200e6    /* limit, after the first run */
#define CLOCK_FALL_NS 120e6 /* if the clock depends on the load: an H200 takes 60 to 120 ms after a rest */
#define WARM_UP_GROUP 5     /* samples whose medians are compared */
#define WARM_UP_AGREES 0.02
#define SAMPLES_LIMIT ((int64_t)1000000)

void hr_measure_options_init(hr_measure_options *options, size_t size)
{
  HR_INIT(
      options, size,
      (hr_measure_options){
          .time_limit_ns = 2e9, .precision = 0.005, .samples_min = 10, .samples_max = 1000, .check = true, .seed = 1});
}

static hr_status check_options(const hr_measure_options *o, hr_error *error)
{
  if (!(o->time_limit_ns > 0))
    return hr_fail(error, HR_ERROR_INVALID, "time_limit_ns: expected more than 0");
  if (!(o->precision > 0))
    return hr_fail(error, HR_ERROR_INVALID, "precision: expected more than 0");
  if (o->autotune < 0)
    return hr_fail(error, HR_ERROR_INVALID, "autotune: expected at least 0, found %" PRId64, o->autotune);
  if (o->decode_part < 0 || o->decode_part > 2)
    return hr_fail(error, HR_ERROR_INVALID, "decode_part: expected 0, 1 or 2, found %d", o->decode_part);
  if (o->samples_min < 1 || o->samples_max < o->samples_min || o->samples_max > SAMPLES_LIMIT)
    return hr_fail(error, HR_ERROR_INVALID,
                   "samples: expected 1 ≤ samples_min ≤ samples_max ≤ %" PRId64 ", found "
                   "%" PRId64 " and %" PRId64,
                   SAMPLES_LIMIT, o->samples_min, o->samples_max);
  return HR_OK;
}

hr_measurement hr_no_measurement(hr_status status, const char *reason)
{
  double none = (double)NAN;
  hr_conditions unknown = {.clock_hz = none, .memory_clock_hz = none, .power_w = none, .temperature_c = none};
  hr_measurement m = {.status = status,
                      .conditions = unknown,
                      .choice_speedup = none,
                      .min_ns = none,
                      .p10_ns = none,
                      .median_ns = none,
                      .mean_ns = none,
                      .p90_ns = none,
                      .max_ns = none,
                      .stddev_ns = none,
                      .median_low_ns = none,
                      .median_high_ns = none,
                      .latency_ns = none,
                      .flops_per_s = none,
                      .bytes_per_s = none,
                      .workspace_bytes = none,
                      .peak_bytes = none,
                      .max_error = none,
                      .selection_error = none,
                      .energy_j = none,
                      .sustained_ns = none,
                      .sustained_power_w = none,
                      .sustained_clock_hz = none};
  hr_copy_text(m.reason, sizeof m.reason, reason);
  return m;
}

static hr_status check_first_run(hr_timing *timing, const hr_measure_options *o, double *first_ns, hr_error *error)
{
  if (o->check)
    HR_TRY(hr_runner_check(&timing->runner, o->seed, timing->result, error));
  if (o->decode_part > 0) { /* a whole run fills the workspace for the second launch */
    HR_TRY(hr_runner_run(&timing->runner, error));
    timing->runner.part = o->decode_part;
  }
  return hr_runner_first_sample(&timing->runner, o, first_ns, error);
}

static hr_status warm_up(hr_runner *runner, const hr_measure_options *o, double first_ns, hr_error *error)
{
  double start = hr_clock_ns(), before = 0;
  /* The chip was idle while the host prepared and checked: two groups may agree before its clock falls. */
  bool clock_falls = runner->device->backend->settle_ns > 0;
  double most = clock_falls ? CLOCK_FALL_NS : WARM_UP_NS;
  HR_TRY(hr_runner_choose_group(runner, first_ns, error));
  if (runner->then && runner->group == 1 && first_ns < LONG_NS && runner->device->backend->time_runs)
    hr_runner_set_group(runner, 2); /* a group is one graph, which hides the launches */
  while (hr_clock_ns() - start < most) {
    double times[WARM_UP_GROUP];
    int64_t count = 0;
    while (count < WARM_UP_GROUP && (count == 0 || hr_clock_ns() - start < most)) {
      HR_TRY(hr_measure_check_cancelled(o, error));
      HR_TRY(hr_runner_sample(runner, &times[count++], error));
    }
    double now = hr_median_of(times, count).value;
    if (fabs(now - before) <= WARM_UP_AGREES * now && !clock_falls)
      break;
    before = now;
  }
  return HR_OK;
}

/* A failure may be a result: hr_timing_note() decides. */
static hr_status open_and_run(hr_timing *timing, hr_device *device, const hr_problem_list *sequence,
                              const hr_measure_options *options, double *first_ns, hr_error *reason)
{
  hr_measure_options o = *options;
  bool one = sequence->count == 1;
  o.check = o.check && one;
  o.kernel = sequence->kernel ? sequence->kernel : o.kernel;
  *timing->result = hr_no_measurement(HR_OK, "");
  timing->result->warm = o.warm;
  hr_status status = hr_runner_open_sequence(device, sequence->problems, sequence->count, &o, &timing->runner, reason);
  if (status == HR_OK && one && o.autotune > 1)
    status = hr_runner_autotune(&timing->runner, &o, timing->result, reason);
  if (timing->runner.plan && one) {
    hr_copy_text(timing->result->kernel, sizeof timing->result->kernel, hr_plan_kernel(timing->runner.plan));
    hr_copy_text(timing->result->configuration, sizeof timing->result->configuration,
                 hr_plan_configuration(timing->runner.plan));
    timing->result->workspace_bytes = (double)hr_plan_workspace_bytes(timing->runner.plan);
  }
  timing->result->buffer_sets = status == HR_OK ? timing->runner.sets : 0;
  return status == HR_OK ? check_first_run(timing, &o, first_ns, reason) : status;
}

static hr_status begin(hr_timing *timing, hr_device *device, const hr_problem_list *sequence,
                       const hr_measure_options *o, hr_error *error)
{
  double first_ns = 0;
  hr_error reason = {.message = ""};
  hr_status status = open_and_run(timing, device, sequence, o, &first_ns, &reason);
  if (status == HR_OK && !(timing->samples = malloc((size_t)o->samples_max * sizeof *timing->samples)))
    status = hr_fail(&reason, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " samples", o->samples_max);
  if (status == HR_OK)
    status = warm_up(&timing->runner, o, first_ns, &reason);
  timing->timed = status == HR_OK;
  return hr_timing_note(timing, status, &reason, error);
}

static void end(hr_timing *timing)
{
  free(timing->samples);
  hr_runner_close(&timing->runner);
}

static hr_status problem_flops(const hr_problem *p, int64_t *flops)
{
  const hr_operation_row *row = hr_operation_of(p->operation);
  return row->flops ? row->flops(p, flops) : HR_OK;
}

static hr_status problem_bytes(const hr_problem *p, int64_t *bytes)
{
  return hr_operation_of(p->operation)->bytes(p, bytes);
}

/* Sum over the problems of a run; 0 if one is not counted or does not fit. */
static double sum_of(const hr_runner *runner, hr_status (*figure_of)(const hr_problem *p, int64_t *figure))
{
  double sum = 0;
  for (const hr_runner *s = runner; s; s = s->then) {
    int64_t figure = 0;
    if (figure_of(&s->problem, &figure) != HR_OK)
      return 0;
    sum += (double)figure;
  }
  return sum;
}

static void close_result(hr_timing *timing, const hr_sampling *s)
{
  if (!timing->timed || s->count < 1)
    return;
  hr_measurement *m = timing->result;
  double flops = sum_of(&timing->runner, problem_flops), bytes = sum_of(&timing->runner, problem_bytes);
  hr_statistics(s->scratch, hr_sampling_gather(s, timing->samples), m);
  m->discarded = s->count - m->samples;
  m->conditions = s->conditions;
  if (flops > 0 && timing->runner.part == 0)
    m->flops_per_s = flops / m->median_ns * 1e9;
  if (bytes > 0 && timing->runner.part == 0)
    m->bytes_per_s = bytes / m->median_ns * 1e9;
  hr_sampling_judge(s, m);
}

/* Groups hide the latency of a run, so that short runs are also timed alone. */
static hr_status measure_latency(hr_timing *timing, const hr_measure_options *o, hr_error *error)
{
  if (!timing->timed || timing->runner.group == 1 || !(timing->result->median_ns < HR_SHORT_RUN_NS))
    return HR_OK;
  hr_error reason = {.message = ""};
  return hr_timing_note(timing, hr_runner_latency(&timing->runner, o, &timing->result->latency_ns, &reason), &reason,
                        error);
}

static hr_status measure_energy(hr_timing *timing, const hr_measure_options *o, hr_error *error)
{
  if (!o->energy || !timing->timed || timing->result->samples < 1)
    return HR_OK;
  hr_error reason = {.message = ""};
  hr_status status = hr_measure_energy(&timing->runner, o, timing->result, &reason);
  if (status == HR_ERROR_UNSUPPORTED) /* such as a recording on the default stream: the time stands without it */
    return HR_OK;
  return hr_timing_note(timing, status, &reason, error);
}

/* Times one sequence, or two interleaved. If one of two fails, the other is timed alone. `ratio` may be NULL. */
static hr_status measure(hr_device *device, const hr_problem_list *const *sequences, int runners,
                         const hr_measure_options *options, hr_measurement **results, hr_median *ratio, hr_error *error)
{
  hr_measure_options o = options ? *options : hr_measure_options_default();
  HR_TRY(check_options(&o, error));
  hr_timing timings[2] = {{.result = results[0]}, {.result = runners == 2 ? results[1] : NULL}};
  hr_sampling s;
  hr_status status = hr_sampling_make(&s, &o, error);
  if (status == HR_OK)
    status = hr_device_settle(device, &o, error);
  for (int i = 0; i < runners && status == HR_OK; i++)
    status = begin(&timings[i], device, sequences[i], &o, error);
  if (status == HR_OK && runners == 2)
    status = hr_sampling_warm_up_pair(timings, &o, error);
  if (status == HR_OK)
    status = hr_sampling_run(&s, timings, runners, error);
  if (status == HR_OK && ratio && timings[0].timed && timings[1].timed && s.count > 0)
    *ratio = hr_median_of(s.scratch, hr_sampling_gather(&s, s.watched));
  for (int i = 0; i < runners; i++) {
    if (status == HR_OK)
      close_result(&timings[i], &s);
    if (status == HR_OK && runners == 1)
      status = measure_latency(&timings[i], &o, error);
    if (status == HR_OK && runners == 1)
      status = measure_energy(&timings[i], &o, error);
    end(&timings[i]);
  }
  hr_sampling_free(&s);
  return status;
}

hr_status hr_measure_list(hr_device *device, const hr_problem_list *sequence, const hr_measure_options *options,
                          hr_measurement *measurement, hr_error *error)
{
  return measure(device, &sequence, 1, options, &measurement, NULL, error);
}

hr_status hr_measure_list_pair(hr_device *device, const hr_problem_list *before, const hr_problem_list *after,
                               const hr_measure_options *options, hr_comparison *comparison, hr_error *error)
{
  const hr_problem_list *sequences[2] = {before, after};
  hr_measurement *results[2] = {&comparison->before, &comparison->after};
  hr_median ratio = {(double)NAN, (double)NAN, (double)NAN};
  HR_TRY(measure(device, sequences, 2, options, results, &ratio, error));
  comparison->ratio = ratio.value;
  comparison->ratio_low = ratio.low;
  comparison->ratio_high = ratio.high;
  return HR_OK;
}

static hr_status measure_one(hr_device *device, hr_problem problem, const hr_measure_options *options,
                             hr_measurement *measurement, hr_error *error)
{
  const hr_problem_list one = {.problems = &problem, .count = 1};
  return hr_measure_list(device, &one, options, measurement, error);
}

hr_status hr_measure_gemm(hr_device *device, const hr_gemm *gemm, const hr_measure_options *options,
                          hr_measurement *measurement, hr_error *error)
{
  HR_NEED(error, device, gemm, measurement);
  HR_TAKE(hr_gemm, gemm, error);
  HR_TAKE(hr_measure_options, options, error);
  HR_TRY(hr_gemm_check(gemm, error));
  return measure_one(device, hr_gemm_problem(gemm), options, measurement, error);
}

hr_status hr_measure_attention(hr_device *device, const hr_attention *attention, const hr_measure_options *options,
                               hr_measurement *measurement, hr_error *error)
{
  HR_NEED(error, device, attention, measurement);
  HR_TAKE(hr_attention, attention, error);
  HR_TAKE(hr_measure_options, options, error);
  HR_TRY(hr_attention_check(attention, error));
  return measure_one(device, hr_attention_problem(attention), options, measurement, error);
}

hr_status hr_measure_attention_backward(hr_device *device, const hr_attention *forward,
                                        const hr_attention_backward *backward, const hr_measure_options *options,
                                        hr_measurement *measurement, hr_error *error)
{
  hr_backward both;
  HR_NEED(error, device, forward, measurement);
  HR_TRY(hr_backward_take(forward, backward, &both, error));
  HR_TAKE(hr_measure_options, options, error);
  HR_TRY(hr_attention_backward_check(&both.forward, &both.options, error));
  return measure_one(device, hr_attention_backward_problem(&both), options, measurement, error);
}

hr_status hr_measure_decode(hr_device *device, const hr_decode *decode, const hr_measure_options *options,
                            hr_measurement *measurement, hr_error *error)
{
  HR_NEED(error, device, decode, measurement);
  HR_TAKE(hr_decode, decode, error);
  HR_TAKE(hr_measure_options, options, error);
  HR_TRY(hr_decode_check(decode, error));
  return measure_one(device, hr_decode_problem(decode), options, measurement, error);
}

hr_status hr_measure_rowwise(hr_device *device, const hr_rowwise *rows, const hr_measure_options *options,
                             hr_measurement *measurement, hr_error *error)
{
  HR_NEED(error, device, rows, measurement);
  HR_TAKE(hr_rowwise, rows, error);
  HR_TAKE(hr_measure_options, options, error);
  HR_TRY(hr_rowwise_check(rows, error));
  return measure_one(device, hr_rowwise_problem(rows), options, measurement, error);
}

hr_status hr_measure_gemm_pair(hr_device *device, const hr_gemm *before, const hr_gemm *after,
                               const hr_measure_options *options, hr_comparison *comparison, hr_error *error)
{
  HR_NEED(error, device, before, after, comparison);
  HR_TAKE(hr_gemm, before, error);
  HR_TAKE(hr_gemm, after, error);
  HR_TAKE(hr_measure_options, options, error);
  HR_TRY(hr_gemm_check(before, error));
  HR_TRY(hr_gemm_check(after, error));
  const hr_problem problems[2] = {hr_gemm_problem(before), hr_gemm_problem(after)};
  const hr_problem_list sides[2] = {{.problems = &problems[0], .count = 1}, {.problems = &problems[1], .count = 1}};
  return hr_measure_list_pair(device, &sides[0], &sides[1], options, comparison, error);
}

hr_status hr_measure_first_run(hr_device *device, const hr_problem *problem, const hr_measure_options *options,
                               hr_measurement *measurement, hr_error *error)
{
  hr_measure_options o = options ? *options : hr_measure_options_default();
  HR_TRY(check_options(&o, error));
  hr_timing timing = {.result = measurement};
  const hr_problem_list one = {.problems = problem, .count = 1};
  double first_ns = 0;
  hr_error reason = {.message = ""};
  hr_status status = open_and_run(&timing, device, &one, &o, &first_ns, &reason);
  timing.timed = status == HR_OK;
  status = hr_timing_note(&timing, status, &reason, error);
  if (timing.timed)
    hr_statistics(&first_ns, 1, measurement);
  end(&timing);
  return status;
}

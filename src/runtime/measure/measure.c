/* The course of a measurement: open, check, warm up, sample until settled. One subject or two by turns. */
#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "runtime/device/clock.h"
#include "runtime/measure/statistics.h"
#include "runtime/measure/subject.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_NS 20e3        /* below this a run is timed in groups */
#define GROUP_NS 100e3       /* which last at least so long */
#define WARM_UP_NS 200e6     /* at most, after the first run */
#define WARM_UP_GROUP 5      /* samples whose medians are compared */
#define WARM_UP_AGREES 0.02
#define NOISY_FACTOR 10      /* an interval so many times wider than asked for is no result */
#define SAMPLES_MOST ((int64_t)1000000)

hr_measure_options hr_measure_options_default(void)
{
  return (hr_measure_options){.struct_size = sizeof(hr_measure_options), .time_limit_ns = 2e9, .precision = 0.005,
                              .samples_min = 10, .samples_max = 1000, .check = true, .seed = 1};
}

static hr_status check_options(const hr_measure_options *o, hr_error *error)
{
  if (!(o->time_limit_ns > 0))
    return hr_fail(error, HR_ERROR_INVALID, "time_limit_ns: expected more than 0");
  if (!(o->precision > 0))
    return hr_fail(error, HR_ERROR_INVALID, "precision: expected more than 0");
  if (o->samples_min < 1 || o->samples_max < o->samples_min || o->samples_max > SAMPLES_MOST)
    return hr_fail(error, HR_ERROR_INVALID, "samples: expected 1 ≤ samples_min ≤ samples_max ≤ %" PRId64 ", found "
                   "%" PRId64 " and %" PRId64, SAMPLES_MOST, o->samples_min, o->samples_max);
  return HR_OK;
}

/* One problem on its way through a measurement. */
typedef struct run_state {
  hr_subject subject;
  hr_measurement *result;
  double *samples;
  bool timed; /* result->status is still HR_OK: there is something to time */
} run_state;

static bool cancelled(const hr_measure_options *o)
{
  return o->cancelled && o->cancelled(o->context);
}

static hr_status interrupted(hr_error *error)
{
  return hr_fail(error, HR_ERROR_INTERRUPTED, "stopped by the caller");
}

static hr_measurement no_times(void)
{
  double none = (double)NAN;
  return (hr_measurement){.min_ns = none, .p10_ns = none, .median_ns = none, .mean_ns = none, .p90_ns = none,
                          .max_ns = none, .stddev_ns = none, .median_low_ns = none, .median_high_ns = none,
                          .flops_per_s = none, .bytes_per_s = none, .max_error = none};
}

/* What went wrong with a problem is a result; what is wrong with the question is an error of the call. */
static bool is_result(hr_status status)
{
  switch (status) {
  case HR_ERROR_UNSUPPORTED:
  case HR_ERROR_UNAVAILABLE:
  case HR_ERROR_OUT_OF_MEMORY:
  case HR_ERROR_TIMEOUT:
  case HR_ERROR_NOISY:
  case HR_ERROR_WRONG_RESULT:
  case HR_ERROR_BACKEND: return true;
  default: return false;
  }
}

static hr_status settle(run_state *state, hr_status status, const hr_error *reason, hr_error *error)
{
  if (status == HR_OK)
    return HR_OK;
  state->timed = false;
  if (!is_result(status))
    return hr_fail(error, status, "%s", reason->message);
  state->result->status = status;
  hr_copy_text(state->result->reason, sizeof state->result->reason, reason->message);
  return HR_OK;
}

static hr_status check_first_run(run_state *state, const hr_measure_options *o, double *first_ns, hr_error *error)
{
  if (o->check)
    HR_TRY(hr_subject_check(&state->subject, o->seed, state->result, error));
  HR_TRY(hr_subject_sample(&state->subject, first_ns, error));
  if (*first_ns > o->time_limit_ns)
    return hr_fail(error, HR_ERROR_TIMEOUT, "one run takes %.2f s, the limit is %.2f s", *first_ns * 1e-9,
                   o->time_limit_ns * 1e-9);
  return HR_OK;
}

/* Groups of runs are as long as GROUP_NS; a median of a few settles how many that is. */
static hr_status choose_group(hr_subject *subject, hr_error *error)
{
  double times[WARM_UP_GROUP];
  for (int i = 0; i < WARM_UP_GROUP; i++)
    HR_TRY(hr_subject_sample(subject, &times[i], error));
  double typical = hr_median_of(times, WARM_UP_GROUP).value;
  if (typical < SHORT_NS)
    subject->group = (int64_t)ceil(GROUP_NS / fmax(typical, 10));
  return HR_OK;
}

static hr_status warm_up(hr_subject *subject, const hr_measure_options *o, double first_ns, hr_error *error)
{
  double start = hr_clock_ns(), before = 0;
  if (first_ns < 10 * SHORT_NS) /* the first run may be slow; ten times too slow it is not */
    HR_TRY(choose_group(subject, error));
  while (hr_clock_ns() - start < WARM_UP_NS) {
    double times[WARM_UP_GROUP];
    int64_t count = 0;
    while (count < WARM_UP_GROUP && (count == 0 || hr_clock_ns() - start < WARM_UP_NS)) {
      if (cancelled(o))
        return interrupted(error);
      HR_TRY(hr_subject_sample(subject, &times[count++], error));
    }
    double now = hr_median_of(times, count).value;
    if (fabs(now - before) <= WARM_UP_AGREES * now)
      break;
    before = now;
  }
  return HR_OK;
}

static hr_status begin(run_state *state, hr_device *device, const hr_problem *problem, const hr_measure_options *o,
                       hr_error *error)
{
  *state->result = no_times();
  state->result->warm = o->warm;
  double first_ns = 0;
  hr_error reason = {.message = ""};
  hr_status status = hr_subject_open(device, problem, o, &state->subject, &reason);
  if (state->subject.plan)
    hr_copy_text(state->result->kernel, sizeof state->result->kernel, hr_plan_kernel(state->subject.plan));
  state->result->buffer_sets = status == HR_OK ? state->subject.sets : 0;
  if (status == HR_OK && !(state->samples = malloc((size_t)o->samples_max * sizeof *state->samples)))
    status = hr_fail(&reason, HR_ERROR_OUT_OF_MEMORY, "no memory for %" PRId64 " samples", o->samples_max);
  if (status == HR_OK)
    status = check_first_run(state, o, &first_ns, &reason);
  if (status == HR_OK)
    status = warm_up(&state->subject, o, first_ns, &reason);
  state->timed = status == HR_OK;
  return settle(state, status, &reason, error);
}

static void end(run_state *state)
{
  free(state->samples);
  hr_subject_close(&state->subject);
}

/* The interval of the median of `samples`, which stay in their order. */
static hr_median median_so_far(const double *samples, int64_t count, double *scratch)
{
  memcpy(scratch, samples, (size_t)count * sizeof *samples);
  return hr_median_of(scratch, count);
}

static bool precise(const double *samples, int64_t count, double precision, double *scratch)
{
  if (count < HR_SAMPLES_FOR_INTERVAL)
    return false;
  hr_median median = median_so_far(samples, count, scratch);
  return hr_median_spread(&median) <= precision;
}

/* What the stopping rule looks at: the times of one subject, or the ratios of a pair. */
static void note_sample(run_state *states, int subjects, int64_t at, double *watched)
{
  bool pair = subjects == 2 && states[0].timed && states[1].timed;
  const run_state *first = states[0].timed || subjects == 1 ? &states[0] : &states[1];
  watched[at] = pair ? states[0].samples[at] / states[1].samples[at] : first->samples[at];
}

static hr_status sample_round(run_state *states, int subjects, int64_t at, hr_error *error)
{
  for (int i = 0; i < subjects; i++) {
    if (!states[i].timed)
      continue;
    hr_error reason = {.message = ""};
    hr_status status = hr_subject_sample(&states[i].subject, &states[i].samples[at], &reason);
    HR_TRY(settle(&states[i], status, &reason, error));
  }
  return HR_OK;
}

static bool any_timed(const run_state *states, int subjects)
{
  return states[0].timed || (subjects == 2 && states[1].timed);
}

/* Samples by turns until what is watched is precise enough. The rule is asked after samples_min and then each time a
 * tenth more samples are there, so that asking costs nothing against sampling. */
static hr_status sample_all(run_state *states, int subjects, const hr_measure_options *o, double *watched,
                            double *scratch, int64_t *count, hr_error *error)
{
  double start = hr_clock_ns(), limit = o->time_limit_ns * subjects;
  int64_t ask_at = o->samples_min;
  *count = 0;
  while (*count < o->samples_max && any_timed(states, subjects)) {
    if (cancelled(o))
      return interrupted(error);
    HR_TRY(sample_round(states, subjects, *count, error));
    if (!any_timed(states, subjects))
      break;
    note_sample(states, subjects, *count, watched);
    ++*count;
    if (*count >= ask_at) {
      if (precise(watched, *count, o->precision, scratch))
        break;
      ask_at = *count + hr_max64(1, *count / 10);
    }
    if (hr_clock_ns() - start >= limit)
      break;
  }
  return HR_OK;
}

static void judge(hr_measurement *m, const hr_measure_options *o)
{
  hr_median median = {m->median_ns, m->median_low_ns, m->median_high_ns};
  if (m->samples < HR_SAMPLES_FOR_INTERVAL) {
    m->status = HR_ERROR_NOISY;
    snprintf(m->reason, sizeof m->reason, "%" PRId64 " samples within the limits; a 95%% interval needs %d", m->samples,
             HR_SAMPLES_FOR_INTERVAL);
  } else if (hr_median_spread(&median) > NOISY_FACTOR * o->precision) {
    m->status = HR_ERROR_NOISY;
    snprintf(m->reason, sizeof m->reason, "the 95%% interval of the median is ±%.1f%% after %" PRId64 " samples",
             100 * hr_median_spread(&median), m->samples);
  }
}

static void close_result(run_state *state, int64_t count, const hr_measure_options *o)
{
  if (!state->timed || count < 1)
    return;
  hr_measurement *m = state->result;
  const hr_problem *p = &state->subject.problem;
  int64_t flops = 0, bytes = 0;
  hr_statistics(state->samples, count, m);
  bool gemm = p->operation == HR_OPERATION_GEMM;
  if ((gemm ? hr_gemm_flops(&p->gemm, &flops) : hr_attention_flops(&p->attention, &flops)) == HR_OK)
    m->flops_per_s = (double)flops / m->median_ns * 1e9;
  if ((gemm ? hr_gemm_bytes(&p->gemm, &bytes) : hr_attention_bytes(&p->attention, &bytes)) == HR_OK)
    m->bytes_per_s = (double)bytes / m->median_ns * 1e9;
  judge(m, o);
}

/* Times one or two problems. Where one of two has no time the other is timed alone. `ratio` may be NULL. */
static hr_status measure(hr_device *device, const hr_problem *problems, int subjects, const hr_measure_options *options,
                         hr_measurement **results, hr_median *ratio, hr_error *error)
{
  hr_measure_options o = options ? *options : hr_measure_options_default();
  HR_TRY(check_options(&o, error));
  run_state states[2] = {{.result = results[0]}, {.result = subjects == 2 ? results[1] : NULL}};
  double *watched = malloc(2 * (size_t)o.samples_max * sizeof *watched);
  if (!watched)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for %" PRId64 " samples", o.samples_max);
  double *scratch = watched + o.samples_max;
  hr_status status = HR_OK;
  int64_t count = 0;
  for (int i = 0; i < subjects && status == HR_OK; i++)
    status = begin(&states[i], device, &problems[i], &o, error);
  if (status == HR_OK)
    status = sample_all(states, subjects, &o, watched, scratch, &count, error);
  if (status == HR_OK && ratio && states[0].timed && states[1].timed && count > 0)
    *ratio = median_so_far(watched, count, scratch);
  for (int i = 0; i < subjects; i++) {
    if (status == HR_OK)
      close_result(&states[i], count, &o);
    end(&states[i]);
  }
  free(watched);
  return status;
}

static hr_problem gemm_problem(const hr_gemm *gemm)
{
  return (hr_problem){.operation = HR_OPERATION_GEMM, .dtype = gemm->dtype, .gemm = *gemm};
}

hr_status hr_measure_gemm(hr_device *device, const hr_gemm *gemm, const hr_measure_options *options,
                          hr_measurement *measurement, hr_error *error)
{
  HR_TRY(hr_gemm_check(gemm, error));
  hr_problem problem = gemm_problem(gemm);
  return measure(device, &problem, 1, options, &measurement, NULL, error);
}

hr_status hr_measure_attention(hr_device *device, const hr_attention *attention, const hr_measure_options *options,
                               hr_measurement *measurement, hr_error *error)
{
  HR_TRY(hr_attention_check(attention, error));
  hr_problem problem = {.operation = HR_OPERATION_ATTENTION, .dtype = attention->dtype, .attention = *attention};
  return measure(device, &problem, 1, options, &measurement, NULL, error);
}

hr_status hr_measure_gemm_pair(hr_device *device, const hr_gemm *before, const hr_gemm *after,
                               const hr_measure_options *options, hr_comparison *comparison, hr_error *error)
{
  HR_TRY(hr_gemm_check(before, error));
  HR_TRY(hr_gemm_check(after, error));
  hr_problem problems[2] = {gemm_problem(before), gemm_problem(after)};
  hr_measurement *results[2] = {&comparison->before, &comparison->after};
  hr_median ratio = {(double)NAN, (double)NAN, (double)NAN};
  HR_TRY(measure(device, problems, 2, options, results, &ratio, error));
  comparison->ratio = ratio.value;
  comparison->ratio_low = ratio.low;
  comparison->ratio_high = ratio.high;
  return HR_OK;
}

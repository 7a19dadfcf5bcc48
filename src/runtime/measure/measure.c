/* The course of a measurement: open, check, warm up, sample until settled. One subject or two by turns. */
#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "runtime/device/clock.h"
#include "runtime/measure/sequence.h"
#include "runtime/measure/statistics.h"
#include "runtime/measure/subject.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SHORT_NS 20e3    /* below this a run is timed in groups */
#define GROUP_NS 100e3   /* which last at least so long */
#define LONG_NS 20e6     /* a sequence of problems this long is started while it runs, without a graph */
#define WARM_UP_NS 200e6 /* at most, after the first run */
#define SINKING_NS 120e6 /* always, where the clock depends on what ran: 60 to 120 ms an H200 needs after any rest */
#define WARM_UP_GROUP 5  /* samples whose medians are compared */
#define WARM_UP_AGREES 0.02
#define NOISY_FACTOR 10   /* an interval so many times wider than asked for is no result */
#define BLOCK_NS 2e6      /* samples that are judged together last at least so long */
#define WAITING_MOST 0.05 /* of the threads' time in a block of clean samples */
#define RETAKES_MOST 3    /* of samples whose clock was held down */
#define SAMPLES_MOST ((int64_t)1000000)

hr_measure_options hr_measure_options_default(void)
{
  return (hr_measure_options){.struct_size = sizeof(hr_measure_options),
                              .time_limit_ns = 2e9,
                              .precision = 0.005,
                              .samples_min = 10,
                              .samples_max = 1000,
                              .check = true,
                              .seed = 1};
}

static hr_status check_options(const hr_measure_options *o, hr_error *error)
{
  if (!(o->time_limit_ns > 0))
    return hr_fail(error, HR_ERROR_INVALID, "time_limit_ns: expected more than 0");
  if (!(o->precision > 0))
    return hr_fail(error, HR_ERROR_INVALID, "precision: expected more than 0");
  if (o->autotune < 0)
    return hr_fail(error, HR_ERROR_INVALID, "autotune: expected at least 0, found %" PRId64, o->autotune);
  if (o->samples_min < 1 || o->samples_max < o->samples_min || o->samples_max > SAMPLES_MOST)
    return hr_fail(error, HR_ERROR_INVALID,
                   "samples: expected 1 ≤ samples_min ≤ samples_max ≤ %" PRId64 ", found "
                   "%" PRId64 " and %" PRId64,
                   SAMPLES_MOST, o->samples_min, o->samples_max);
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
  hr_conditions unknown = {.clock_hz = none, .memory_clock_hz = none, .power_w = none, .temperature_c = none};
  return (hr_measurement){.conditions = unknown,
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
                          .max_error = none};
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

/* Groups of runs are as long as GROUP_NS; a median of a few settles how many that is. The first run may be slow; ten
 * times too slow it is not. */
hr_status hr_subject_choose_group(hr_subject *subject, double first_ns, hr_error *error)
{
  double times[WARM_UP_GROUP];
  if (first_ns >= 10 * SHORT_NS)
    return HR_OK;
  for (int i = 0; i < WARM_UP_GROUP; i++)
    HR_TRY(hr_subject_sample(subject, &times[i], error));
  double typical = hr_median_of(times, WARM_UP_GROUP).value;
  if (typical < SHORT_NS)
    hr_subject_group(subject, (int64_t)ceil(GROUP_NS / fmax(typical, 10)));
  return HR_OK;
}

static hr_status warm_up(hr_subject *subject, const hr_measure_options *o, double first_ns, hr_error *error)
{
  double start = hr_clock_ns(), before = 0;
  /* While the host prepared and checked, the chip rested: two groups may agree before its clock sinks. */
  bool clock_sinks = subject->device->backend->settle_ns > 0;
  double most = clock_sinks ? SINKING_NS : WARM_UP_NS;
  HR_TRY(hr_subject_choose_group(subject, first_ns, error));
  if (subject->then && subject->group == 1 && first_ns < LONG_NS && subject->device->backend->time_runs)
    hr_subject_group(subject, 2); /* a group is one graph, where launches are not waited for */
  while (hr_clock_ns() - start < most) {
    double times[WARM_UP_GROUP];
    int64_t count = 0;
    while (count < WARM_UP_GROUP && (count == 0 || hr_clock_ns() - start < most)) {
      if (cancelled(o))
        return interrupted(error);
      HR_TRY(hr_subject_sample(subject, &times[count++], error));
    }
    double now = hr_median_of(times, count).value;
    if (fabs(now - before) <= WARM_UP_AGREES * now && !clock_sinks)
      break;
    before = now;
  }
  return HR_OK;
}

/* What went wrong may be a result, for settle(). */
static hr_status open_and_run(run_state *state, hr_device *device, const hr_problem *problems, size_t count,
                              const hr_measure_options *o, double *first_ns, hr_error *reason)
{
  *state->result = no_times();
  state->result->warm = o->warm;
  hr_status status = hr_subject_open_sequence(device, problems, count, o, &state->subject, reason);
  if (status == HR_OK && count == 1 && o->autotune > 1)
    status = hr_subject_autotune(&state->subject, o, state->result, reason);
  if (state->subject.plan && count == 1) {
    hr_copy_text(state->result->kernel, sizeof state->result->kernel, hr_plan_kernel(state->subject.plan));
    hr_copy_text(state->result->configuration, sizeof state->result->configuration,
                 hr_plan_configuration(state->subject.plan));
    state->result->workspace_bytes = (double)hr_plan_workspace_bytes(state->subject.plan);
  }
  state->result->buffer_sets = status == HR_OK ? state->subject.sets : 0;
  return status == HR_OK ? check_first_run(state, o, first_ns, reason) : status;
}

static hr_status begin(run_state *state, hr_device *device, const hr_problem *problems, size_t count,
                       const hr_measure_options *o, hr_error *error)
{
  double first_ns = 0;
  hr_error reason = {.message = ""};
  hr_status status = open_and_run(state, device, problems, count, o, &first_ns, &reason);
  if (status == HR_OK && !(state->samples = malloc((size_t)o->samples_max * sizeof *state->samples)))
    status = hr_fail(&reason, HR_ERROR_OUT_OF_MEMORY, "no memory for %" PRId64 " samples", o->samples_max);
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

/* Each of a pair has warmed up alone, to the clock that its own power leaves. By turns they run at one between these,
 * as in a step; begun at the clock of the second, the ratio would depend on the order. */
static hr_status warm_up_pair(run_state *states, const hr_device *device, const hr_measure_options *o, hr_error *error)
{
  double start = hr_clock_ns();
  if (device->backend->settle_ns <= 0)
    return HR_OK;
  while (states[0].timed && states[1].timed && hr_clock_ns() - start < WARM_UP_NS) {
    if (cancelled(o))
      return interrupted(error);
    HR_TRY(sample_round(states, 2, 0, error));
  }
  return HR_OK;
}

static bool any_timed(const run_state *states, int subjects)
{
  return states[0].timed || (subjects == 2 && states[1].timed);
}

/* A stretch of sampling at whose end it is asked whether the threads had the cores to themselves. */
typedef struct block {
  int64_t first; /* index of its first sample */
  double start_ns, waited_ns;
} block;

static double waited_ns(const hr_device *device)
{
  return device->backend->waited_ns ? device->backend->waited_ns(device) : (double)NAN;
}

static block begin_block(const hr_device *device, int64_t first)
{
  double waited = waited_ns(device);
  return (block){first, hr_clock_ns(), waited};
}

/* Share of the threads' time in the block that they were ready to run but had no core; NAN where that is not told. */
static double waiting_share(const hr_device *device, const block *b)
{
  double elapsed = hr_clock_ns() - b->start_ns;
  return (waited_ns(device) - b->waited_ns) / (elapsed * device->threads);
}

/* What the sampling of one measurement goes by. */
typedef struct sampling {
  const hr_measure_options *options;
  double *watched, *scratch; /* samples_max each */
  bool *disturbed;           /* samples_max: taken while others had the cores */
  int64_t count, clean;      /* clean: those that are not disturbed */
  double waiting;            /* largest share of waiting among the blocks */
  hr_conditions conditions;  /* of the device, after the last sample */
  bool throttled;            /* the clock was held down then */
} sampling;

static void end_block(sampling *s, const hr_device *device, const block *b)
{
  double share = waiting_share(device, b);
  bool disturbed = share > WAITING_MOST;
  s->waiting = fmax(s->waiting, share);
  for (int64_t i = b->first; i < s->count; i++)
    s->disturbed[i] = disturbed;
  if (!disturbed)
    s->clean += s->count - b->first;
}

/* Clean samples alone where there are enough of them to say something, all otherwise. */
static bool clean_suffice(const sampling *s)
{
  return s->clean == s->count || s->clean >= hr_max64(s->options->samples_min, HR_SAMPLES_FOR_INTERVAL);
}

/* Copies those that count to s->scratch and says how many they are. */
static int64_t gather(const sampling *s, const double *samples, bool clean_only)
{
  int64_t count = 0;
  for (int64_t i = 0; i < s->count; i++) {
    if (!clean_only || !s->disturbed[i])
      s->scratch[count++] = samples[i];
  }
  return count;
}

static bool precise(const sampling *s)
{
  int64_t count = gather(s, s->watched, true);
  if (count < HR_SAMPLES_FOR_INTERVAL)
    return false;
  hr_median median = hr_median_of(s->scratch, count);
  return hr_median_spread(&median) <= s->options->precision;
}

/* Samples by turns until what is watched is precise enough, disturbed samples not counted. The rule is asked after
 * samples_min and then each time a tenth more samples are there, so that asking costs nothing against sampling. */
static hr_status sample_all(run_state *states, int subjects, sampling *s, hr_error *error)
{
  const hr_measure_options *o = s->options;
  const hr_device *device = states[0].subject.device;
  double start = hr_clock_ns(), limit = o->time_limit_ns * subjects;
  int64_t ask_at = o->samples_min;
  block current = begin_block(device, 0);
  while (any_timed(states, subjects)) {
    if (cancelled(o))
      return interrupted(error);
    HR_TRY(sample_round(states, subjects, s->count, error));
    if (!any_timed(states, subjects))
      break;
    note_sample(states, subjects, s->count++, s->watched);
    double now = hr_clock_ns();
    bool last = s->count >= o->samples_max || now - start >= limit;
    if (!last && now - current.start_ns < BLOCK_NS)
      continue;
    end_block(s, device, &current);
    if (last)
      break;
    if (s->clean >= ask_at) {
      if (precise(s))
        break;
      ask_at = s->clean + hr_max64(1, s->clean / 10);
    }
    current = begin_block(device, s->count);
  }
  return HR_OK;
}

/* Samples again, a few times, where the chip held its clock down meanwhile. */
static hr_status sample_unthrottled(run_state *states, int subjects, sampling *s, hr_error *error)
{
  const hr_device *device = states[0].subject.device;
  hr_conditions warm;
  hr_device_conditions(device, &warm);
  for (int retakes = 0; retakes <= RETAKES_MOST; retakes++) {
    s->count = s->clean = 0;
    s->waiting = 0;
    HR_TRY(sample_all(states, subjects, s, error));
    hr_device_conditions(device, &s->conditions);
    s->throttled = hr_device_throttled(device, &warm, &s->conditions);
    if (!s->throttled)
      break;
  }
  return HR_OK;
}

static void judge(hr_measurement *m, const sampling *s)
{
  const hr_measure_options *o = s->options;
  hr_median median = {m->median_ns, m->median_low_ns, m->median_high_ns};
  bool few = m->samples<HR_SAMPLES_FOR_INTERVAL, wide = hr_median_spread(&median)> NOISY_FACTOR * o->precision;
  bool disturbed = !clean_suffice(s);
  if (!few && !wide && !disturbed && !s->throttled)
    return;
  m->status = HR_ERROR_NOISY;
  if (s->throttled)
    snprintf(m->reason, sizeof m->reason, "the clock was held down to %.0f MHz (%s)", s->conditions.clock_hz * 1e-6,
             s->conditions.throttled_by);
  else if (disturbed)
    snprintf(m->reason, sizeof m->reason, "others are at work: threads waited for a core up to %.0f%% of the time",
             100 * fmin(s->waiting, 1));
  else if (few)
    snprintf(m->reason, sizeof m->reason, "%" PRId64 " sample%s within the limits; a 95%% interval needs %d",
             m->samples, m->samples == 1 ? "" : "s", HR_SAMPLES_FOR_INTERVAL);
  else
    snprintf(m->reason, sizeof m->reason, "the 95%% interval of the median is ±%.1f%% after %" PRId64 " samples",
             100 * hr_median_spread(&median), m->samples);
}

static hr_status problem_flops(const hr_problem *p, int64_t *flops)
{
  if (p->operation == HR_OPERATION_ROWS)
    return HR_OK; /* none that anybody counts */
  return p->operation == HR_OPERATION_GEMM ? hr_gemm_flops(&p->gemm, flops) : hr_attention_flops(&p->attention, flops);
}

static hr_status problem_bytes(const hr_problem *p, int64_t *bytes)
{
  if (p->operation == HR_OPERATION_ROWS)
    return hr_rows_bytes(&p->rows, bytes);
  return p->operation == HR_OPERATION_GEMM ? hr_gemm_bytes(&p->gemm, bytes) : hr_attention_bytes(&p->attention, bytes);
}

/* Of all that a run consists of; 0 where nobody counts them or they do not fit. */
static double sum_of(const hr_subject *subject, hr_status (*figure_of)(const hr_problem *p, int64_t *figure))
{
  double sum = 0;
  for (const hr_subject *s = subject; s; s = s->then) {
    int64_t figure = 0;
    if (figure_of(&s->problem, &figure) != HR_OK)
      return 0;
    sum += (double)figure;
  }
  return sum;
}

static void close_result(run_state *state, const sampling *s)
{
  if (!state->timed || s->count < 1)
    return;
  hr_measurement *m = state->result;
  double flops = sum_of(&state->subject, problem_flops), bytes = sum_of(&state->subject, problem_bytes);
  hr_statistics(s->scratch, gather(s, state->samples, clean_suffice(s)), m);
  m->discarded = s->count - m->samples;
  m->conditions = s->conditions;
  if (flops > 0)
    m->flops_per_s = flops / m->median_ns * 1e9;
  if (bytes > 0)
    m->bytes_per_s = bytes / m->median_ns * 1e9;
  judge(m, s);
}

/* Groups hide what it takes to start a run and to learn of its end: so short runs are timed alone, too. */
static hr_status time_alone(run_state *state, const hr_measure_options *o, hr_error *error)
{
  if (!state->timed || state->subject.group == 1 || !(state->result->median_ns < SHORT_NS))
    return HR_OK;
  hr_error reason = {.message = ""};
  return settle(state, hr_subject_latency(&state->subject, o, &state->result->latency_ns, &reason), &reason, error);
}

static hr_status make_sampling(sampling *s, const hr_measure_options *o, hr_error *error)
{
  size_t most = (size_t)o->samples_max;
  *s = (sampling){.options = o,
                  .watched = malloc(most * sizeof(double)),
                  .scratch = malloc(most * sizeof(double)),
                  .disturbed = calloc(most, sizeof(bool))};
  if (!s->watched || !s->scratch || !s->disturbed)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for %" PRId64 " samples", o->samples_max);
  return HR_OK;
}

static void free_sampling(sampling *s)
{
  free(s->watched);
  free(s->scratch);
  free(s->disturbed);
}

/* Times one or two subjects of `count` problems each. Where one of two has no time the other is timed alone. `ratio`
 * may be NULL. */
static hr_status measure(hr_device *device, const hr_problem *problems, int subjects, size_t count,
                         const hr_measure_options *options, hr_measurement **results, hr_median *ratio, hr_error *error)
{
  hr_measure_options o = options ? *options : hr_measure_options_default();
  HR_TRY(check_options(&o, error));
  run_state states[2] = {{.result = results[0]}, {.result = subjects == 2 ? results[1] : NULL}};
  sampling s;
  hr_status status = make_sampling(&s, &o, error);
  if (status == HR_OK)
    status = hr_device_settle(device, &o, error);
  for (int i = 0; i < subjects && status == HR_OK; i++)
    status = begin(&states[i], device, &problems[(size_t)i * count], count, &o, error);
  if (status == HR_OK && subjects == 2)
    status = warm_up_pair(states, device, &o, error);
  if (status == HR_OK)
    status = sample_unthrottled(states, subjects, &s, error);
  if (status == HR_OK && ratio && states[0].timed && states[1].timed && s.count > 0)
    *ratio = hr_median_of(s.scratch, gather(&s, s.watched, clean_suffice(&s)));
  for (int i = 0; i < subjects; i++) {
    if (status == HR_OK)
      close_result(&states[i], &s);
    if (status == HR_OK && subjects == 1)
      status = time_alone(&states[i], &o, error);
    end(&states[i]);
  }
  free_sampling(&s);
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
  return measure(device, &problem, 1, 1, options, &measurement, NULL, error);
}

hr_status hr_measure_attention(hr_device *device, const hr_attention *attention, const hr_measure_options *options,
                               hr_measurement *measurement, hr_error *error)
{
  HR_TRY(hr_attention_check(attention, error));
  hr_problem problem = {.operation = HR_OPERATION_ATTENTION, .dtype = attention->dtype, .attention = *attention};
  return measure(device, &problem, 1, 1, options, &measurement, NULL, error);
}

hr_status hr_measure_rows(hr_device *device, const hr_rows *rows, const hr_measure_options *options,
                          hr_measurement *measurement, hr_error *error)
{
  HR_TRY(hr_rows_check(rows, error));
  hr_problem problem = {.operation = HR_OPERATION_ROWS, .dtype = rows->dtype, .rows = *rows};
  return measure(device, &problem, 1, 1, options, &measurement, NULL, error);
}

hr_status hr_measure_gemm_pair(hr_device *device, const hr_gemm *before, const hr_gemm *after,
                               const hr_measure_options *options, hr_comparison *comparison, hr_error *error)
{
  HR_TRY(hr_gemm_check(before, error));
  HR_TRY(hr_gemm_check(after, error));
  hr_problem problems[2] = {gemm_problem(before), gemm_problem(after)};
  hr_measurement *results[2] = {&comparison->before, &comparison->after};
  hr_median ratio = {(double)NAN, (double)NAN, (double)NAN};
  HR_TRY(measure(device, problems, 2, 1, options, results, &ratio, error));
  comparison->ratio = ratio.value;
  comparison->ratio_low = ratio.low;
  comparison->ratio_high = ratio.high;
  return HR_OK;
}

hr_status hr_measure_sequence(hr_device *device, const hr_problem *problems, size_t count,
                              const hr_measure_options *options, hr_measurement *measurement, hr_error *error)
{
  hr_measure_options o = options ? *options : hr_measure_options_default();
  o.check = o.check && count == 1;
  return measure(device, problems, 1, count, &o, &measurement, NULL, error);
}

hr_status hr_measure_first_run(hr_device *device, const hr_problem *problem, const hr_measure_options *options,
                               hr_measurement *measurement, hr_error *error)
{
  hr_measure_options o = options ? *options : hr_measure_options_default();
  HR_TRY(check_options(&o, error));
  run_state state = {.result = measurement};
  double first_ns = 0;
  hr_error reason = {.message = ""};
  hr_status status = open_and_run(&state, device, problem, 1, &o, &first_ns, &reason);
  state.timed = status == HR_OK;
  status = settle(&state, status, &reason, error);
  if (state.timed)
    hr_statistics(&first_ns, 1, measurement);
  end(&state);
  return status;
}

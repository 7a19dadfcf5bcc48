/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling: rounds, blocks of undisturbed samples, the stopping rule, doubtful results. */
#include "runtime/measure/sampling.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "runtime/device/clock.h"
#include "runtime/measure/settle.h"
#include "runtime/measure/statistics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WARM_UP_PAIR_NS 200e6 /* of two, interleaved */
#define NOISY_FACTOR 10       /* an interval this many times wider than requested is noisy */
#define BLOCK_NS 2e6          /* least duration of samples that are judged together */
#define WAITING_MAX 0.05      /* share of the threads' time in a clean block */
#define RETAKES_MAX 3         /* of samples whose clock was throttled */

/* Failures of the problem are results; the others are errors of the call. */
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

hr_status hr_timing_note(hr_timing *timing, hr_status status, const hr_error *reason, hr_error *error)
{
  if (status == HR_OK)
    return HR_OK;
  timing->timed = false;
  if (!is_result(status))
    return hr_fail(error, status, "%s", reason->message);
  timing->result->status = status;
  hr_copy_text(timing->result->reason, sizeof timing->result->reason, reason->message);
  return HR_OK;
}

hr_status hr_sampling_make(hr_sampling *s, const hr_measure_options *o, hr_error *error)
{
  size_t most = (size_t)o->samples_max;
  *s = (hr_sampling){.options = o,
                     .watched = malloc(most * sizeof(double)),
                     .scratch = malloc(most * sizeof(double)),
                     .disturbed = calloc(most, sizeof(bool))};
  if (!s->watched || !s->scratch || !s->disturbed)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " samples", o->samples_max);
  return HR_OK;
}

void hr_sampling_free(hr_sampling *s)
{
  free(s->watched);
  free(s->scratch);
  free(s->disturbed);
}

/* Records what the stopping rule uses: the time of one runner, or the ratio of a pair. */
static void note_sample(hr_timing *timings, int runners, int64_t at, double *watched)
{
  bool pair = runners == 2 && timings[0].timed && timings[1].timed;
  const hr_timing *first = timings[0].timed || runners == 1 ? &timings[0] : &timings[1];
  watched[at] = pair ? timings[0].samples[at] / timings[1].samples[at] : first->samples[at];
}

static hr_status sample_round(hr_timing *timings, int runners, int64_t at, hr_error *error)
{
  for (int i = 0; i < runners; i++) {
    if (!timings[i].timed)
      continue;
    hr_error reason = {.message = ""};
    hr_status status = hr_runner_sample(&timings[i].runner, &timings[i].samples[at], &reason);
    HR_TRY(hr_timing_note(&timings[i], status, &reason, error));
  }
  return HR_OK;
}

hr_status hr_sampling_warm_up_pair(hr_timing pair[2], const hr_measure_options *o, hr_error *error)
{
  const hr_device *device = pair[0].runner.device;
  double start = hr_clock_ns();
  if (device->backend->settle_ns <= 0)
    return HR_OK;
  while (pair[0].timed && pair[1].timed && hr_clock_ns() - start < WARM_UP_PAIR_NS) {
    HR_TRY(hr_measure_check_cancelled(o, error));
    HR_TRY(sample_round(pair, 2, 0, error));
  }
  return HR_OK;
}

static bool any_timed(const hr_timing *timings, int runners)
{
  return timings[0].timed || (runners == 2 && timings[1].timed);
}

/* Consecutive samples, after which the waiting time of the threads is read. */
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

/* Share of the block in which threads were ready to run but had no core; NAN if unknown. */
static double waiting_share(const hr_device *device, const block *b)
{
  double elapsed = hr_clock_ns() - b->start_ns;
  return (waited_ns(device) - b->waited_ns) / (elapsed * device->threads);
}

static void end_block(hr_sampling *s, const hr_device *device, const block *b)
{
  double share = waiting_share(device, b);
  bool disturbed = share > WAITING_MAX;
  s->waiting = fmax(s->waiting, share);
  for (int64_t i = b->first; i < s->count; i++)
    s->disturbed[i] = disturbed;
  if (!disturbed)
    s->clean += s->count - b->first;
}

/* Whether there are enough clean samples to use them alone. */
static bool clean_suffice(const hr_sampling *s)
{
  return s->clean == s->count || s->clean >= hr_max64(s->options->samples_min, HR_SAMPLES_FOR_INTERVAL);
}

/* Copies samples to s->scratch and returns how many. */
static int64_t gather_some(const hr_sampling *s, const double *samples, bool clean_only)
{
  int64_t count = 0;
  for (int64_t i = 0; i < s->count; i++) {
    if (!clean_only || !s->disturbed[i])
      s->scratch[count++] = samples[i];
  }
  return count;
}

int64_t hr_sampling_gather(const hr_sampling *s, const double *samples)
{
  return gather_some(s, samples, clean_suffice(s));
}

static bool precise(const hr_sampling *s)
{
  int64_t count = gather_some(s, s->watched, true);
  if (count < HR_SAMPLES_FOR_INTERVAL)
    return false;
  hr_median median = hr_median_of(s->scratch, count);
  return hr_median_spread(&median) <= s->options->precision;
}

/* Samples until s->watched is precise enough; disturbed samples do not count. The stopping rule is evaluated after
 * samples_min and then whenever the number of samples has grown by a tenth, so that its cost is negligible. */
static hr_status sample_all(hr_timing *timings, int runners, hr_sampling *s, hr_error *error)
{
  const hr_measure_options *o = s->options;
  const hr_device *device = timings[0].runner.device;
  double start = hr_clock_ns(), limit = o->time_limit_ns * runners;
  int64_t next_check = o->samples_min;
  block current = begin_block(device, 0);
  while (any_timed(timings, runners)) {
    HR_TRY(hr_measure_check_cancelled(o, error));
    HR_TRY(sample_round(timings, runners, s->count, error));
    if (!any_timed(timings, runners))
      break;
    note_sample(timings, runners, s->count++, s->watched);
    double now = hr_clock_ns();
    bool last = s->count >= o->samples_max || now - start >= limit;
    if (!last && now - current.start_ns < BLOCK_NS)
      continue;
    end_block(s, device, &current);
    if (last)
      break;
    if (s->clean >= next_check) {
      if (precise(s))
        break;
      next_check = s->clean + hr_max64(1, s->clean / 10);
    }
    current = begin_block(device, s->count);
  }
  return HR_OK;
}

hr_status hr_sampling_run(hr_sampling *s, hr_timing *timings, int runners, hr_error *error)
{
  const hr_device *device = timings[0].runner.device;
  hr_conditions warm;
  hr_device_conditions(device, &warm);
  for (int retakes = 0; retakes <= RETAKES_MAX; retakes++) {
    s->count = s->clean = 0;
    s->waiting = 0;
    HR_TRY(sample_all(timings, runners, s, error));
    hr_device_conditions(device, &s->conditions);
    s->throttled = hr_device_throttled(device, &warm, &s->conditions);
    if (!s->throttled)
      break;
  }
  return HR_OK;
}

void hr_sampling_judge(const hr_sampling *s, hr_measurement *m)
{
  hr_median median = {m->median_ns, m->median_low_ns, m->median_high_ns};
  bool few = m->samples < HR_SAMPLES_FOR_INTERVAL;
  bool wide = hr_median_spread(&median) > NOISY_FACTOR * s->options->precision;
  bool disturbed = !clean_suffice(s);
  if (!few && !wide && !disturbed && !s->throttled)
    return;
  m->status = HR_ERROR_NOISY;
  if (s->throttled)
    hr_write_text(m->reason, sizeof m->reason, "the clock was throttled to %.0f MHz (%s)",
                  s->conditions.clock_hz * 1e-6, s->conditions.throttled_by);
  else if (disturbed)
    hr_write_text(m->reason, sizeof m->reason,
                  "other processes are running: threads waited for a core up to %.0f%% of the time",
                  100 * fmin(s->waiting, 1));
  else if (few)
    snprintf(m->reason, sizeof m->reason, "%" PRId64 " sample%s within the limits; a 95%% interval needs %d",
             m->samples, m->samples == 1 ? "" : "s", HR_SAMPLES_FOR_INTERVAL);
  else
    hr_write_text(m->reason, sizeof m->reason, "the 95%% interval of the median is ±%.1f%% after %" PRId64 " samples",
                  100 * hr_median_spread(&median), m->samples);
}

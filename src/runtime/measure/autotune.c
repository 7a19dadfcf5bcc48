/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the fastest of a kernel's best configurations. All use the same buffers, so that only the configuration
 * differs, and their samples are interleaved, so that a drifting clock favours none. */
#include "runtime/measure/autotune.h"

#include "base/error.h"
#include "runtime/device/clock.h"
#include "runtime/measure/statistics.h"

#include <headroom/buffer.h>
#include <headroom/experimental/plan.h>
#include <math.h>
#include <stdlib.h>

#define ROUNDS_MAX 41    /* samples of each */
#define WARM_UP_NS 100e6 /* limit; for devices whose clock depends on the load */

typedef struct candidate {
  hr_runner runner;     /* its plan, recording and group are its own; all else is the tuned runner's */
  bool failed, skipped; /* skipped: not sampled in the comparison of the best with the first */
  hr_error failure;
  int64_t count;
  double times[ROUNDS_MAX];
} candidate;

typedef struct tuning {
  const hr_measure_options *options;
  hr_runner *runner;
  candidate *candidates;
  int64_t count;
} tuning;

/* Makes a plan for each choice, and one workspace that is large enough for any of them. */
static hr_status make_plans(tuning *t, hr_error *error)
{
  hr_runner *runner = t->runner;
  size_t workspace = 0;
  for (int64_t i = 0; i < t->count; i++) {
    candidate *c = &t->candidates[i];
    c->runner = *runner;
    c->runner.plan = NULL;
    hr_status status =
        hr_plan_create(runner->device, &runner->problem, hr_plan_kernel(runner->plan), &c->runner.plan, &c->failure);
    if (status == HR_OK)
      status = hr_plan_choose(c->runner.plan, i, t->options->autotune, &c->failure);
    c->failed = status != HR_OK;
    if (!c->failed && hr_plan_workspace_bytes(c->runner.plan) > workspace)
      workspace = hr_plan_workspace_bytes(c->runner.plan);
  }
  hr_buffer_free(runner->workspace);
  runner->workspace = NULL;
  if (workspace > 0)
    HR_TRY(hr_buffer_create(runner->device, workspace, &runner->workspace, error));
  for (int64_t i = 0; i < t->count; i++)
    t->candidates[i].runner.workspace = runner->workspace;
  return HR_OK;
}

static void sample(candidate *c, double *time_ns)
{
  c->failed = hr_runner_sample(&c->runner, time_ns, &c->failure) != HR_OK;
}

/* Takes a first sample of each, which loads its code, and groups short runs. */
static hr_status begin_each(tuning *t, hr_error *error)
{
  for (int64_t i = 0; i < t->count; i++) {
    candidate *c = &t->candidates[i];
    double first_ns = 0;
    HR_TRY(hr_measure_check_cancelled(t->options, error));
    if (!c->failed)
      c->failed = hr_runner_first_sample(&c->runner, t->options, &first_ns, &c->failure) != HR_OK;
    if (!c->failed)
      c->failed = hr_runner_choose_group(&c->runner, first_ns, &c->failure) != HR_OK;
  }
  return HR_OK;
}

static hr_status sample_interleaved(tuning *t, bool keep, int rounds, double limit_ns, hr_error *error)
{
  double start = hr_clock_ns();
  for (int round = 0; round < rounds && (round == 0 || hr_clock_ns() - start < limit_ns); round++) {
    for (int64_t i = 0; i < t->count; i++) {
      candidate *c = &t->candidates[i];
      double time_ns = 0;
      HR_TRY(hr_measure_check_cancelled(t->options, error));
      if (c->failed || c->skipped)
        continue;
      sample(c, &time_ns);
      if (!c->failed && keep)
        c->times[c->count++] = time_ns;
    }
  }
  return HR_OK;
}

static hr_status time_all(tuning *t, hr_error *error)
{
  HR_TRY(make_plans(t, error));
  HR_TRY(begin_each(t, error));
  if (t->runner->device->backend->settle_ns > 0)
    HR_TRY(sample_interleaved(t, false, INT32_MAX, fmin(WARM_UP_NS, t->options->time_limit_ns), error));
  return sample_interleaved(t, true, ROUNDS_MAX, t->options->time_limit_ns, error);
}

static candidate *fastest(const tuning *t)
{
  candidate *best = NULL;
  double best_ns = INFINITY;
  for (int64_t i = 0; i < t->count; i++) {
    candidate *c = &t->candidates[i];
    double median_ns = c->failed || c->count == 0 ? INFINITY : hr_median_of(c->times, c->count).value;
    if (median_ns < best_ns) {
      best = c;
      best_ns = median_ns;
    }
  }
  return best;
}

/* Samples both again: the samples that chose the best are biased in its favour. */
static hr_status compare_with_first(tuning *t, candidate *best, hr_measurement *m, hr_error *error)
{
  candidate *first = &t->candidates[0];
  double ratios[ROUNDS_MAX];
  m->choice_speedup = best == first ? 1 : (double)NAN;
  if (best == first || first->failed)
    return HR_OK;
  for (int64_t i = 1; i < t->count; i++)
    t->candidates[i].skipped = &t->candidates[i] != best;
  first->count = best->count = 0;
  HR_TRY(sample_interleaved(t, true, ROUNDS_MAX, t->options->time_limit_ns, error));
  for (int64_t i = 0; i < best->count && !first->failed; i++)
    ratios[i] = first->times[i] / best->times[i];
  if (!first->failed && !best->failed && best->count > 0)
    m->choice_speedup = hr_median_of(ratios, best->count).value;
  return HR_OK;
}

/* Gives the best candidate's plan to the tuned runner and frees the others. */
static void end_all(tuning *t, candidate *best)
{
  const hr_device *device = t->runner->device;
  if (best) {
    hr_plan_free(t->runner->plan);
    t->runner->plan = best->runner.plan;
    best->runner.plan = NULL;
  }
  for (int64_t i = 0; i < t->count; i++) {
    if (device->backend->forget)
      device->backend->forget(t->runner->device, t->candidates[i].runner.recording);
    hr_plan_free(t->candidates[i].runner.plan);
  }
  free(t->candidates);
}

hr_status hr_runner_autotune(hr_runner *runner, const hr_measure_options *options, hr_measurement *measurement,
                             hr_error *error)
{
  HR_TRY(hr_plan_choose(runner->plan, 0, options->autotune, error));
  tuning t = {.options = options, .runner = runner, .count = hr_plan_choices(runner->plan)};
  measurement->choice = measurement->choices = 1;
  measurement->choice_speedup = 1;
  if (t.count == 1)
    return HR_OK;
  t.candidates = calloc((size_t)t.count, sizeof *t.candidates);
  if (!t.candidates)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to compare configurations");
  hr_status status = time_all(&t, error);
  candidate *best = status == HR_OK ? fastest(&t) : NULL;
  if (best) {
    measurement->choice = best - t.candidates + 1;
    measurement->choices = t.count;
    status = compare_with_first(&t, best, measurement, error);
  } else if (status == HR_OK) {
    status = hr_fail(error, t.candidates[0].failure.status, "%s", t.candidates[0].failure.message);
  }
  end_all(&t, best);
  return status == HR_OK ? hr_runner_poison(runner, error) : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the jobs of a confirmation and chooses the size at which they are timed. */
#include "experiment/confirm/jobs.h"

#include "base/error.h"
#include "base/names.h"

#include <math.h>
#include <stdlib.h>

/* ---- jobs ---- */

static bool is_pair_of(const hr_confirm_job *job, const hr_confirm_replaced *before, const hr_operator *after)
{
  if (job->steps || !job->pair || job->before_count != before->count || !hr_confirm_same(&job->after, after))
    return false;
  for (size_t i = 0; i < before->count; i++) {
    if (!hr_confirm_same(&job->before[i], before->items[i]))
      return false;
  }
  return true;
}

const hr_confirm_job *hr_confirm_pair(const hr_confirm_run *c, const hr_confirm_replaced *before,
                                      const hr_operator *after)
{
  for (size_t i = 0; i < c->job_count; i++) {
    if (is_pair_of(&c->jobs[i], before, after))
      return &c->jobs[i];
  }
  return NULL;
}

const hr_confirm_job *hr_confirm_job_of(const hr_confirm_run *c, const hr_operator *before)
{
  const hr_confirm_job *found = NULL;
  for (size_t i = 0; i < c->job_count; i++) {
    const hr_confirm_job *job = &c->jobs[i];
    if (job->before_count != 1 || !hr_confirm_same(&job->before[0], before))
      continue;
    if (job->done && job->result.before.median_ns > 0)
      return job;
    if (!found || (job->done && !found->done))
      found = job;
  }
  return found;
}

static hr_status add_job(hr_confirm_run *c, const hr_confirm_job *job, hr_error *error)
{
  if (!c->jobs || c->job_count == c->job_capacity) {
    size_t capacity = c->job_capacity ? 2 * c->job_capacity : 32;
    hr_confirm_job *jobs = realloc(c->jobs, capacity * sizeof *jobs);
    if (!jobs)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a list of what is measured");
    c->jobs = jobs;
    c->job_capacity = capacity;
  }
  c->jobs[c->job_count++] = *job;
  return HR_OK;
}

/* `step` is of `shape`, and has the operator. */
static hr_status add_alone(hr_confirm_run *c, const hr_step *step, const hr_confirm_shape *shape, const hr_operator *op,
                           hr_error *error)
{
  if (hr_confirm_job_of(c, op))
    return HR_OK;
  const hr_confirm_job job = {.before_count = 1,
                              .before = {*op},
                              .before_shape = *shape,
                              .estimate_ns = step->predictions[op - step->operators.items].time_ns};
  return add_job(c, &job, error);
}

static hr_confirm_shape shape_now(const hr_confirm_run *c)
{
  return (hr_confirm_shape){&c->advice->model, &c->size.workload};
}

static hr_status add_pair(hr_confirm_run *c, const hr_confirm_replaced *before, const hr_confirm_shape *shape,
                          const hr_operator *after, hr_error *error)
{
  if (hr_confirm_pair(c, before, after))
    return HR_OK;
  hr_confirm_job job = {.before_count = before->count,
                        .before_shape = shape_now(c),
                        .after = *after,
                        .after_shape = *shape,
                        .pair = true,
                        .estimate_ns = c->after.predictions[after - c->after.operators.items].time_ns};
  for (size_t i = 0; i < before->count; i++) {
    job.before[i] = *before->items[i];
    job.estimate_ns += c->before.predictions[before->items[i] - c->before.operators.items].time_ns;
  }
  return add_job(c, &job, error);
}

static hr_status add_subject_jobs(hr_confirm_run *c, const hr_confirm_subject *subject, hr_error *error)
{
  const hr_confirm_shape shape = {&subject->source->model, &subject->workload};
  for (size_t i = 0; i < c->after.operators.count; i++) {
    const hr_operator *after = &c->after.operators.items[i];
    const hr_confirm_replaced before = hr_confirm_replaces(c, after);
    if (!hr_confirm_is_timed(after) || hr_confirm_unchanged(&before, after))
      continue;
    HR_TRY(before.count > 0 ? add_pair(c, &before, &shape, after, error)
                            : add_alone(c, &c->after, &shape, after, error));
  }
  return HR_OK;
}

static hr_status add_unpaired_jobs(hr_confirm_run *c, hr_error *error)
{
  const hr_confirm_shape shape = shape_now(c);
  for (size_t i = 0; i < c->before.operators.count; i++) {
    const hr_operator *op = &c->before.operators.items[i];
    if (hr_confirm_is_timed(op))
      HR_TRY(add_alone(c, &c->before, &shape, op, error));
  }
  return HR_OK;
}

/* Keeps the order among the pairs, which is that of the findings. */
static void move_alone_first(hr_confirm_run *c)
{
  for (size_t i = 1; i < c->job_count; i++) {
    hr_confirm_job job = c->jobs[i];
    size_t at = i;
    for (; !job.pair && at > 0 && c->jobs[at - 1].pair; at--)
      c->jobs[at] = c->jobs[at - 1];
    c->jobs[at] = job;
  }
}

static hr_status add_operators(hr_confirm_run *c, hr_confirm_subject *subject, hr_error *error)
{
  HR_TRY(hr_fill_step(&c->advice->hardware, &subject->source->model, &subject->workload, &c->after, error));
  return add_subject_jobs(c, subject, error);
}

/* Nothing else is needed where no finding changes an operator that is timed. */
static hr_status add_unpaired_since(hr_confirm_run *c, size_t count, hr_error *error)
{
  return c->job_count > count ? add_unpaired_jobs(c, error) : HR_OK;
}

hr_status hr_confirm_add_operators(hr_confirm_run *c, hr_confirm_subject *subject, hr_error *error)
{
  const size_t count = c->job_count;
  HR_TRY(add_operators(c, subject, error));
  return add_unpaired_since(c, count, error);
}

/* Whole steps where both models fit the memory, and where filling them leaves half of the budget. */
static hr_status add_steps(hr_confirm_run *c, hr_confirm_subject *subject, double *filling_ns, hr_error *error)
{
  hr_confirm_job job;
  HR_TRY(hr_fill_step(&c->advice->hardware, &subject->source->model, &subject->workload, &c->after, error));
  HR_TRY(hr_confirm_steps_job(c, subject, &job, error));
  const char *why = NULL;
  if (!hr_budget_fits_memory(c->device, job.bytes))
    why = "both models need more than half of the free memory";
  else if (*filling_ns + job.prepare_ns > c->budget_ns / 2)
    why = "filling weights and caches would take more than half of the budget";
  subject->by_steps = !why;
  if (why) {
    hr_copy_text(subject->why, sizeof subject->why, why);
    return HR_OK;
  }
  *filling_ns += job.prepare_ns;
  return add_job(c, &job, error);
}

/* Operators alone come first: every gain of operators needs them, so that a confirmation that is stopped early has the
 * gains of the first findings. */
static hr_status collect_jobs(void *context, const hr_workload *workload, hr_error *error)
{
  hr_confirm_run *c = context;
  const hr_advice *advice = c->advice;
  char why[sizeof c->subjects[0].why];
  double filling_ns = 0;
  size_t whole = 0;
  c->size.workload = *workload;
  c->job_count = 0;
  HR_TRY(hr_fill_step(&advice->hardware, &advice->model, &c->size.workload, &c->before, error));
  const bool runs = hr_confirm_runs(&advice->model, workload, why, sizeof why);
  for (size_t i = 0; i < c->subject_count; i++) {
    hr_confirm_subject *subject = &c->subjects[i];
    subject->workload = hr_budget_scaled(&subject->source->workload, &advice->workload, &c->size.workload);
    subject->by_steps = false;
    hr_copy_text(subject->why, sizeof subject->why, why);
    if (runs && hr_confirm_runs(&subject->source->model, &subject->workload, subject->why, sizeof subject->why))
      HR_TRY(add_steps(c, subject, &filling_ns, error));
    whole += subject->by_steps;
    if (!subject->by_steps)
      HR_TRY(add_operators(c, subject, error));
  }
  HR_TRY(add_unpaired_since(c, whole, error));
  move_alone_first(c);
  return HR_OK;
}

/* ---- cost ---- */

/* A step counts a K or V head that several GEMMs share once; when measured, each GEMM has its own copy. */
static double operand_bytes(const hr_operator *op)
{
  int64_t bytes = op->bytes;
  return !hr_confirm_is_gemm(op) || hr_gemm_bytes(&op->gemm, &bytes) == HR_OK ? (double)bytes : INFINITY;
}

static double job_bytes(const hr_confirm_run *c, const hr_confirm_job *job)
{
  double before = 0;
  if (job->steps)
    return job->bytes;
  for (size_t i = 0; i < job->before_count; i++)
    before += operand_bytes(&job->before[i]);
  return hr_budget_bytes(c->device, before) + (job->pair ? hr_budget_bytes(c->device, operand_bytes(&job->after)) : 0);
}

double hr_confirm_run_ns(const hr_confirm_run *c, const hr_confirm_job *job)
{
  return job->estimate_ns * c->slowdown;
}

double hr_confirm_cost_ns(const hr_confirm_run *c, const hr_confirm_job *job)
{
  const double run_ns = hr_confirm_run_ns(c, job);
  return job->steps ? hr_budget_runs_ns(run_ns) + job->prepare_ns
                    : hr_budget_cost_ns(c->device, run_ns, job_bytes(c, job), job->pair ? 2 : 1);
}

static double whole_cost_ns(const void *context)
{
  const hr_confirm_run *c = context;
  double time_ns = 0;
  for (size_t i = 0; i < c->job_count; i++)
    time_ns += hr_confirm_cost_ns(c, &c->jobs[i]);
  return time_ns;
}

static bool fits_memory(const void *context)
{
  const hr_confirm_run *c = context;
  double largest = 0;
  for (size_t i = 0; i < c->job_count; i++)
    largest = fmax(largest, job_bytes(c, &c->jobs[i]));
  return hr_budget_fits_memory(c->device, largest);
}

static void add_finding(hr_confirm_run *c, size_t index, hr_finding *finding)
{
  if (finding->has_change)
    c->subjects[c->subject_count++] = (hr_confirm_subject){.finding = index, .source = finding};
}

void hr_confirm_list(hr_confirm_run *c)
{
  hr_advice *advice = c->advice;
  for (size_t i = 0; i < advice->about.finding_count; i++)
    add_finding(c, i, &advice->findings[i]);
  for (size_t i = 0; i < advice->about.combined_count; i++)
    add_finding(c, advice->about.finding_count + i, &advice->combined[i]);
}

hr_status hr_confirm_choose(hr_confirm_run *c, hr_error *error)
{
  const hr_budget_experiment experiment = {c, collect_jobs, whole_cost_ns, fits_memory};
  return hr_budget_choose_size(&experiment, &c->advice->workload, c->budget_ns, false, &c->size, error);
}

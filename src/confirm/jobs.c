/* Which products are to be timed, and at which size. */
#include "confirm/confirming.h"

#include "base/error.h"
#include "budget/budget.h"

#include <math.h>
#include <stdlib.h>

bool hr_same_gemm(const hr_gemm *a, const hr_gemm *b)
{
  return a->m == b->m && a->n == b->n && a->k == b->k && a->batch == b->batch && a->dtype == b->dtype &&
         a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b;
}

bool hr_is_product(const hr_operator *op)
{
  return op->kind == HR_KIND_GEMM || op->kind == HR_KIND_BMM;
}

const hr_operator *hr_confirm_counterpart(const hr_operators *in, const hr_operators *of, const hr_operator *op)
{
  size_t place = 0;
  const hr_operator *found = NULL;
  for (const hr_operator *other = of->items; other < op; other++)
    place += other->id == op->id && other->pass == op->pass;
  for (size_t i = 0; i < in->count; i++) {
    const hr_operator *other = &in->items[i];
    if (other->id != op->id || other->pass != op->pass)
      continue;
    found = other;
    if (place-- == 0)
      break;
  }
  return found;
}

/* ---- jobs ---- */

const hr_confirm_job *hr_confirm_pair(const hr_confirming *c, const hr_gemm *before, const hr_gemm *after)
{
  for (size_t i = 0; i < c->job_count; i++) {
    const hr_confirm_job *job = &c->jobs[i];
    if (job->pair && hr_same_gemm(&job->before, before) && hr_same_gemm(&job->after, after))
      return job;
  }
  return NULL;
}

static const hr_confirm_job *find_alone(const hr_confirming *c, const hr_gemm *gemm)
{
  for (size_t i = 0; i < c->job_count; i++) {
    if (!c->jobs[i].pair && hr_same_gemm(&c->jobs[i].before, gemm))
      return &c->jobs[i];
  }
  return NULL;
}

static bool is_in_a_pair(const hr_confirming *c, const hr_gemm *before)
{
  for (size_t i = 0; i < c->job_count; i++) {
    if (c->jobs[i].pair && hr_same_gemm(&c->jobs[i].before, before))
      return true;
  }
  return false;
}

static hr_status add_job(hr_confirming *c, const hr_confirm_job *job, hr_error *error)
{
  if (job->pair ? hr_confirm_pair(c, &job->before, &job->after) : find_alone(c, &job->before))
    return HR_OK;
  if (c->job_count == c->job_capacity) {
    size_t capacity = c->job_capacity ? 2 * c->job_capacity : 32;
    hr_confirm_job *jobs = realloc(c->jobs, capacity * sizeof *jobs);
    if (!jobs)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for a list of products");
    c->jobs = jobs;
    c->job_capacity = capacity;
  }
  c->jobs[c->job_count++] = *job;
  return HR_OK;
}

static hr_status add_subject_jobs(hr_confirming *c, hr_error *error)
{
  for (size_t i = 0; i < c->after.operators.count; i++) {
    const hr_operator *after = &c->after.operators.items[i];
    if (!hr_is_product(after))
      continue;
    const hr_operator *before = hr_confirm_counterpart(&c->before.operators, &c->after.operators, after);
    bool matched = before && hr_is_product(before);
    if (matched && hr_same_gemm(&before->gemm, &after->gemm))
      continue;
    hr_confirm_job job = {.id = after->id,
                          .before = matched ? before->gemm : after->gemm,
                          .after = after->gemm,
                          .pair = matched,
                          .estimate_ns = c->after.predictions[i].time_ns};
    if (matched)
      job.estimate_ns += c->before.predictions[before - c->before.operators.items].time_ns;
    HR_TRY(add_job(c, &job, error));
  }
  return HR_OK;
}

static hr_status add_unpaired_jobs(hr_confirming *c, hr_error *error)
{
  for (size_t i = 0; i < c->before.operators.count; i++) {
    const hr_operator *op = &c->before.operators.items[i];
    if (!hr_is_product(op) || is_in_a_pair(c, &op->gemm))
      continue;
    hr_confirm_job job = {.id = op->id, .before = op->gemm, .estimate_ns = c->before.predictions[i].time_ns};
    HR_TRY(add_job(c, &job, error));
  }
  return HR_OK;
}

/* Keeps the order among the pairs, which is that of the findings. */
static void move_alone_first(hr_confirming *c)
{
  for (size_t i = 1; i < c->job_count; i++) {
    hr_confirm_job job = c->jobs[i];
    size_t at = i;
    for (; !job.pair && at > 0 && c->jobs[at - 1].pair; at--)
      c->jobs[at] = c->jobs[at - 1];
    c->jobs[at] = job;
  }
}

/* Jobs for c->workload. Products alone come first: every gain needs them, so that a confirmation which is stopped early
 * has the gains of the first findings. */
static hr_status collect_jobs(hr_confirming *c, hr_error *error)
{
  const hr_advice *advice = c->advice;
  c->job_count = 0;
  HR_TRY(hr_predict_step(&advice->hardware, &advice->model, &c->workload, &c->before, error));
  for (size_t i = 0; i < c->subject_count; i++) {
    hr_confirm_subject *subject = &c->subjects[i];
    subject->workload = hr_budget_scaled(&subject->source->workload, &advice->workload, &c->workload);
    HR_TRY(hr_predict_step(&advice->hardware, &subject->source->model, &subject->workload, &c->after, error));
    HR_TRY(add_subject_jobs(c, error));
  }
  if (c->job_count == 0)
    return HR_OK; /* nothing changes a product */
  HR_TRY(add_unpaired_jobs(c, error));
  move_alone_first(c);
  return HR_OK;
}

/* ---- what they take ---- */

static double rotating_bytes(const hr_confirming *c, const hr_gemm *gemm)
{
  int64_t bytes = 0;
  return hr_gemm_bytes(gemm, &bytes) == HR_OK ? hr_budget_bytes(c->device, (double)bytes) : INFINITY;
}

static double job_bytes(const hr_confirming *c, const hr_confirm_job *job)
{
  return rotating_bytes(c, &job->before) + (job->pair ? rotating_bytes(c, &job->after) : 0);
}

double hr_confirm_run_ns(const hr_confirming *c, const hr_confirm_job *job)
{
  return job->estimate_ns * c->slowdown;
}

double hr_confirm_cost_ns(const hr_confirming *c, const hr_confirm_job *job)
{
  return hr_budget_cost_ns(c->device, hr_confirm_run_ns(c, job), job_bytes(c, job), job->pair ? 2 : 1);
}

static double whole_cost_ns(const hr_confirming *c)
{
  double time_ns = 0;
  for (size_t i = 0; i < c->job_count; i++)
    time_ns += hr_confirm_cost_ns(c, &c->jobs[i]);
  return time_ns;
}

static bool memory_suffices(const hr_confirming *c)
{
  double largest = 0;
  for (size_t i = 0; i < c->job_count; i++)
    largest = fmax(largest, job_bytes(c, &c->jobs[i]));
  return hr_budget_has_memory(c->device, largest);
}

static void add_finding(hr_confirming *c, size_t index, hr_finding *finding)
{
  if (finding->has_change)
    c->subjects[c->subject_count++] = (hr_confirm_subject){.finding = index, .source = finding};
}

void hr_confirm_list(hr_confirming *c)
{
  hr_advice *advice = c->advice;
  for (size_t i = 0; i < advice->finding_count; i++)
    add_finding(c, i, &advice->findings[i]);
  if (advice->has_combined)
    add_finding(c, SIZE_MAX, &advice->combined);
}

hr_status hr_confirm_choose(hr_confirming *c, hr_error *error)
{
  c->workload = c->advice->workload;
  HR_TRY(collect_jobs(c, error));
  c->asked_ns = whole_cost_ns(c);
  c->memory_short = !memory_suffices(c);
  while ((whole_cost_ns(c) > c->budget_ns || !memory_suffices(c)) && hr_budget_smaller(&c->workload))
    HR_TRY(collect_jobs(c, error));
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Confirms findings: chooses what to time, times it within the budget, computes the gains. */
#include "experiment/confirm/jobs.h"

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "experiment/budget.h"
#include "experiment/operator_problem.h"
#include "experiment/progress.h"
#include "runtime/device/clock.h"
#include "runtime/measure/problem_list.h"

#include <headroom/experimental/operators.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BUDGET_NS 60e9
#define PRECISION 0.01
#define TRIAL_NS 1e8 /* a run of the GEMM that is timed first */
#define TRIAL_LIMIT_NS 5e9

static void name_job(const hr_confirm_job *job, char *what, size_t size)
{
  if (job->steps) {
    snprintf(what, size, "steps: %s", job->steps->source->rule);
    return;
  }
  const hr_operator *op = job->pair ? &job->after : &job->before[0];
  const hr_attention *a = &op->attention;
  const hr_gemm *g = &op->gemm;
  bool fused = op->kind == HR_KIND_ATTENTION;
  const char *name = hr_operator_id_name(op->id);
  if (op->kind == HR_KIND_MEMORY)
    snprintf(what, size, "%s", name);
  else
    snprintf(what, size, "%s %" PRId64 " × %" PRId64 " × %" PRId64, name, fused ? a->q_len : g->m,
             fused ? a->kv_len : g->n, fused ? a->qk_dim : g->k);
}

static double limit_of(const hr_confirm_run *c, size_t index, double left_ns)
{
  const hr_confirm_job *job = &c->jobs[index];
  double reserved = 0;
  for (size_t i = index; i < c->job_count; i++)
    reserved += hr_confirm_cost_ns(c, &c->jobs[i]);
  return hr_budget_limit_ns(hr_confirm_run_ns(c, job), reserved, c->job_count - index, left_ns) /
         (job->pair && !job->steps ? 2 : 1);
}

/* The GEMM of the present step whose run is the longest below TRIAL_NS; the shortest, if all are longer. */
static const hr_operator *trial_operator(const hr_step *step)
{
  const hr_operator *best = NULL;
  double found = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const double now = step->predictions[i].time_ns;
    if (!hr_confirm_is_gemm(&step->operators.items[i]))
      continue;
    if (!best || (found > TRIAL_NS ? now < found : now > found && now <= TRIAL_NS))
      best = &step->operators.items[i], found = now;
  }
  return best;
}

/* Times one GEMM to learn by how much this machine is slower than predicted: other programs may use half of it. */
static hr_status measure_slowdown(hr_confirm_run *c, hr_progress *progress, hr_error *error)
{
  const hr_operator *op = trial_operator(&c->before);
  if (!op || c->job_count == 0)
    return HR_OK;
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = TRIAL_LIMIT_NS;
  options.precision = 0.05;
  options.samples_min = 3;
  options.samples_max = 5;
  options.check = false;
  options.warm = true;
  options.cancelled = hr_progress_cancelled;
  options.context = progress;
  hr_prediction predicted;
  hr_measurement measured;
  HR_TRY(hr_predict_gemm(&c->advice->hardware, &op->gemm, &predicted, error));
  hr_status status = hr_measure_gemm(c->device, &op->gemm, &options, &measured, error);
  if (status == HR_OK && measured.median_ns > 0)
    c->slowdown = measured.median_ns / predicted.time_ns;
  else if (status == HR_OK && measured.status == HR_ERROR_TIMEOUT)
    c->slowdown = TRIAL_LIMIT_NS / predicted.time_ns;
  return status == HR_ERROR_INTERRUPTED ? HR_OK : status;
}

/* One side of a job. */
typedef struct side {
  hr_problem problems[HR_CONFIRMATION_REPLACED_MAX];
  hr_problem_list list;
} side;

static hr_status make_side(side *s, hr_device *device, const hr_confirm_shape *shape, const hr_operator *operators,
                           size_t count, hr_error *error)
{
  for (size_t i = 0; i < count; i++)
    HR_TRY(hr_operator_problem(shape->model, shape->workload, &operators[i], &s->problems[i], error));
  s->list = (hr_problem_list){.problems = s->problems, .count = count};
  if (operators[0].kind == HR_KIND_ATTENTION) {
    hr_operator_take_decode(device, shape->workload, &s->problems[0]);
    s->list.kernel = hr_operator_kernels(&s->problems[0]);
  }
  return HR_OK;
}

/* Whether the subject is measured by operators instead. */
static bool may_fall_back(hr_status status)
{
  return status == HR_ERROR_UNSUPPORTED || status == HR_ERROR_OUT_OF_MEMORY || status == HR_ERROR_INVALID ||
         status == HR_ERROR_BACKEND;
}

static hr_status run_steps(hr_confirm_run *c, hr_confirm_subject *subject, double limit_ns, hr_progress *progress,
                           hr_error *error)
{
  hr_error reason = {.status = HR_OK};
  hr_status status = hr_confirm_run_steps(c, subject, limit_ns, progress, &reason);
  if (may_fall_back(status)) {
    subject->by_steps = subject->done = false;
    hr_copy_text(subject->why, sizeof subject->why, reason.message);
    return hr_confirm_add_operators(c, subject, error);
  }
  return status == HR_OK ? HR_OK : hr_fail(error, status, "%s", reason.message);
}

static hr_status run_operators(hr_confirm_run *c, hr_confirm_job *job, double limit_ns, hr_progress *progress,
                               hr_error *error)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = limit_ns;
  options.precision = PRECISION;
  options.cancelled = hr_progress_cancelled;
  options.context = progress;
  side before, after;
  HR_TRY(make_side(&before, c->device, &job->before_shape, job->before, job->before_count, error));
  if (job->pair)
    HR_TRY(make_side(&after, c->device, &job->after_shape, &job->after, 1, error));
  HR_TRY(job->pair ? hr_measure_list_pair(c->device, &before.list, &after.list, &options, &job->result, error)
                   : hr_measure_list(c->device, &before.list, &options, &job->result.before, error));
  job->done = true;
  return HR_OK;
}

static double whole_cost_ns(const hr_confirm_run *c)
{
  double sum_ns = 0;
  for (size_t i = 0; i < c->job_count; i++)
    sum_ns += hr_confirm_cost_ns(c, &c->jobs[i]);
  return sum_ns;
}

static hr_status run_job(hr_confirm_run *c, size_t index, double limit_ns, hr_progress *progress, hr_error *error)
{
  hr_confirm_subject *subject = c->jobs[index].steps;
  return subject ? run_steps(c, subject, limit_ns, progress, error)
                 : run_operators(c, &c->jobs[index], limit_ns, progress, error);
}

/* Times the jobs, which may become more; *complete is false when the caller stopped them. */
static hr_status run_jobs(hr_confirm_run *c, hr_progress *progress, bool *complete, hr_error *error)
{
  const double start = hr_clock_ns(), whole = whole_cost_ns(c);
  double done = 0;
  *complete = false;
  for (size_t i = 0; i < c->job_count; i++) {
    progress->done = fmin(1, done / whole);
    name_job(&c->jobs[i], progress->what, sizeof progress->what);
    if (hr_progress_cancelled(progress))
      return HR_OK;
    done += hr_confirm_cost_ns(c, &c->jobs[i]);
    hr_status status = run_job(c, i, limit_of(c, i, c->budget_ns - (hr_clock_ns() - start)), progress, error);
    if (status == HR_ERROR_INTERRUPTED)
      return HR_OK;
    HR_TRY(status);
  }
  *complete = true;
  return HR_OK;
}

/* ---- the result ---- */

static hr_status no_memory(hr_error *error)
{
  return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the results");
}

/* Makes room for so many more rows. */
static hr_status reserve_rows(hr_confirmation *confirmation, size_t count, hr_error *error)
{
  hr_confirmation_row *rows = realloc(confirmation->rows, (confirmation->count + count) * sizeof *rows);
  if (!rows)
    return no_memory(error);
  confirmation->rows = rows;
  return HR_OK;
}

/* The time of one execution of each, between others of the step. */
static hr_comparison operators_of_steps(const hr_confirm_subject *subject, const hr_operators *const lists[2],
                                        const size_t indices[2])
{
  hr_comparison c;
  hr_measurement *sides[2] = {&c.before, &c.after};
  for (int i = 0; i < 2; i++) {
    *sides[i] = hr_no_measurement(HR_OK, "");
    sides[i]->samples = 1;
    sides[i]->median_ns = subject->operators_ns[i][indices[i]] / (double)lists[i]->items[indices[i]].count;
  }
  c.ratio = c.before.median_ns / c.after.median_ns;
  c.ratio_low = c.ratio_high = (double)NAN;
  return c;
}

/* Whether the operators of c->after at `index` and before it were measured as a pair. */
static bool compare_operators(const hr_confirm_run *c, const hr_confirm_subject *subject,
                              const hr_confirm_replaced *before, size_t index, hr_comparison *comparison)
{
  const hr_operator *after = &c->after.operators.items[index];
  if (subject->by_steps) {
    const hr_operators *const lists[] = {&c->before.operators, &c->after.operators};
    if (!subject->timed || before->count != 1 || hr_confirm_unchanged(before, after))
      return false;
    const size_t indices[] = {(size_t)(before->items[0] - c->before.operators.items), index};
    *comparison = operators_of_steps(subject, lists, indices);
    return true;
  }
  const hr_confirm_job *job = hr_confirm_pair(c, before, after);
  if (job && job->done)
    *comparison = job->result;
  return job && job->done;
}

/* Adds a row for each timed operator that the subject changes. c->after is the subject's step. */
static hr_status add_rows(const hr_confirm_run *c, const hr_confirm_subject *subject, hr_confirmation *confirmation,
                          hr_error *error)
{
  HR_TRY(reserve_rows(confirmation, c->after.operators.count, error));
  for (size_t i = 0; i < c->after.operators.count; i++) {
    const hr_operator *after = &c->after.operators.items[i];
    const hr_confirm_replaced before = hr_confirm_replaces(c, after);
    hr_comparison comparison;
    if (!hr_confirm_is_timed(after) || !compare_operators(c, subject, &before, i, &comparison))
      continue;
    hr_confirmation_row *row = &confirmation->rows[confirmation->count++];
    *row = (hr_confirmation_row){.finding = subject->finding,
                                 .before_count = before.count,
                                 .after = *after,
                                 .predicted_after_ns = c->after.predictions[i].time_ns,
                                 .token_ratio = hr_confirm_token_ratio(&c->size.workload, &subject->workload),
                                 .comparison = comparison};
    for (size_t at = 0; at < before.count; at++) {
      row->before[at] = *before.items[at];
      row->predicted_before_ns += c->before.predictions[before.items[at] - c->before.operators.items].time_ns;
    }
  }
  return HR_OK;
}

static hr_status form_gains(hr_confirm_run *c, hr_confirmation *confirmation, hr_error *error)
{
  for (size_t i = 0; i < c->subject_count; i++) {
    hr_confirmed *confirmed = &confirmation->findings[confirmation->finding_count];
    HR_TRY(hr_confirm_gains(c, &c->subjects[i], confirmed, error));
    c->subjects[i].source->measured_gain = confirmed->measured_gain;
    c->subjects[i].source->measured_operator_gain = confirmed->measured_operator_gain;
    confirmation->finding_count++;
    HR_TRY(add_rows(c, &c->subjects[i], confirmation, error));
  }
  return HR_OK;
}

static void note_size(const hr_confirm_run *c, hr_confirmation *confirmation)
{
  confirmation->batch = c->size.workload.batch;
  confirmation->sequence = hr_budget_length(&c->size.workload);
  confirmation->reduced =
      hr_budget_note(&c->advice->workload, &c->size, c->budget_ns, confirmation->note, sizeof confirmation->note);
}

static hr_status create_confirmation(const hr_confirm_run *c, hr_confirmation **confirmation, hr_error *error)
{
  hr_confirmation *created = calloc(1, sizeof *created);
  if (created)
    created->findings = calloc(c->subject_count + 1, sizeof *created->findings);
  if (!created || !created->findings) {
    hr_confirmation_free(created);
    return no_memory(error);
  }
  *confirmation = created;
  return HR_OK;
}

static hr_status confirm(hr_confirm_run *c, hr_progress *progress, hr_confirmation **confirmation, hr_error *error)
{
  hr_confirmation *created = NULL;
  hr_confirm_list(c);
  HR_TRY(hr_confirm_choose(c, error));
  snprintf(progress->what, sizeof progress->what, "a trial");
  HR_TRY(measure_slowdown(c, progress, error));
  HR_TRY(hr_confirm_choose(c, error));
  HR_TRY(create_confirmation(c, &created, error));
  note_size(c, created);
  hr_status status = run_jobs(c, progress, &created->complete, error);
  if (status == HR_OK)
    status = form_gains(c, created, error);
  if (status != HR_OK) {
    hr_confirmation_free(created);
    return status;
  }
  *confirmation = created;
  return HR_OK;
}

void hr_confirm_options_init(hr_confirm_options *options, size_t size)
{
  HR_INIT(options, size, (hr_confirm_options){0});
}

hr_status hr_confirm(hr_device *device, hr_advice *advice, const hr_confirm_options *options,
                     hr_confirmation **confirmation, hr_error *error)
{
  HR_NEED(error, device, advice, options, confirmation);
  HR_TAKE(hr_confirm_options, options, error);
  if (!(options->budget_ns >= 0))
    return hr_fail(error, HR_ERROR_INVALID, "budget_ns: expected at least 0");
  hr_confirm_run *c = calloc(1, sizeof *c);
  if (!c)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to confirm with");
  c->device = device;
  c->advice = advice;
  c->budget_ns = options->budget_ns > 0 ? options->budget_ns : BUDGET_NS;
  c->slowdown = 1;
  hr_progress state = {.report = options->progress, .context = options->context};
  hr_status status = confirm(c, &state, confirmation, error);
  hr_step_runner_close(&c->present);
  free(c->jobs);
  free(c);
  return status;
}

void hr_confirmation_free(hr_confirmation *confirmation)
{
  if (!confirmation)
    return;
  free(confirmation->rows);
  free(confirmation->findings);
  free(confirmation);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs of a confirmation: operators and pairs of operators to time, and the gains that follow from their times. */
#ifndef HR_EXPERIMENT_CONFIRM_JOBS_H
#define HR_EXPERIMENT_CONFIRM_JOBS_H

#include "analysis/advise/advice.h"
#include "experiment/budget.h"
#include "experiment/progress.h"
#include "experiment/step/runner.h"

#include <headroom/experimental/confirm.h>

/** The operators of the present step that an operator of a changed step replaces: one; or, if it is a fused attention
 *  and the present step has none, attention_score, softmax and attention_over_value, those of them that the step
 *  has. */
typedef struct hr_confirm_replaced {
  size_t count;
  const hr_operator *items[HR_CONFIRMATION_REPLACED_MAX];
} hr_confirm_replaced;

/** The shape that an operator belongs to. */
typedef struct hr_confirm_shape {
  const hr_model *model;
  const hr_workload *workload;
} hr_confirm_shape;

/** A finding with a change, at the measured size. */
typedef struct hr_confirm_subject {
  size_t finding;
  hr_finding *source;
  hr_workload workload;
  bool by_steps; /* its gain is of whole steps, which the executor runs */
  char why[160]; /* it is not */
  bool done;     /* the steps are measured: */
  hr_comparison steps;
  bool timed; /* their operators, too, by their index in both lists */
  double operators_ns[2][HR_OPERATORS_MAX];
} hr_confirm_subject;

/** One job: an operator alone, a pair whose first half is of the present shape, or a subject's steps. */
typedef struct hr_confirm_job {
  hr_confirm_subject *steps; /* NULL: of operators */
  size_t before_count;
  hr_operator before[HR_CONFIRMATION_REPLACED_MAX];
  hr_operator after; /* pairs only */
  hr_confirm_shape before_shape, after_shape;
  bool pair, done;
  double bytes, prepare_ns; /* of steps: of both models; estimate of filling them */
  double estimate_ns;       /* predicted: one execution of each */
  hr_comparison result;     /* of an operator alone: result.before */
} hr_confirm_job;

/** One run of hr_confirm(). */
typedef struct hr_confirm_run {
  hr_device *device;
  hr_advice *advice;
  double budget_ns;
  double slowdown;     /* measured time of a GEMM over the predicted one; 1 until it is measured */
  hr_budget_size size; /* the present shape's workload at the measured size */
  size_t subject_count;
  hr_confirm_subject subjects[HR_FINDINGS_MAX + HR_COMBINED_MAX];
  size_t job_count, job_capacity;
  hr_confirm_job *jobs;   /* owned; operators alone first */
  hr_step_runner present; /* the model as it is; without an executor until steps are run */
  hr_step before, after;  /* steps at the measured size; `after` is that of the current subject */
} hr_confirm_run;

/** Lists the findings that have a change. (jobs.c) */
void hr_confirm_list(hr_confirm_run *c);

/** Chooses the largest size at which all jobs fit the budget and the memory; fills size, jobs and before. (jobs.c) */
hr_status hr_confirm_choose(hr_confirm_run *c, hr_error *error);

/** Appends the jobs of a subject by operators; overwrites c->after. (jobs.c) */
hr_status hr_confirm_add_operators(hr_confirm_run *c, hr_confirm_subject *subject, hr_error *error);

/** Whether the executor runs the steps of a workload as they are asked for; else the reason in `why`. (steps.c) */
bool hr_confirm_runs(const hr_model *model, const hr_workload *workload, char *why, size_t size);

/** The job of a subject's steps, whose step is c->after. Errors of hr_memory_estimate() and hr_predict_step().
 *  (steps.c) */
hr_status hr_confirm_steps_job(const hr_confirm_run *c, hr_confirm_subject *subject, hr_confirm_job *job,
                               hr_error *error);

/** Runs both models interleaved and fills subject->steps; then their operators, one by one. (steps.c) */
hr_status hr_confirm_run_steps(hr_confirm_run *c, hr_confirm_subject *subject, double limit_ns, hr_progress *progress,
                               hr_error *error);

/** Estimates in ns: one execution of each operator of a job, and measuring the whole job. (jobs.c) */
double hr_confirm_run_ns(const hr_confirm_run *c, const hr_confirm_job *job);
double hr_confirm_cost_ns(const hr_confirm_run *c, const hr_confirm_job *job);

/** Whether an operator is a GEMM or a batched GEMM. (changes.c) */
bool hr_confirm_is_gemm(const hr_operator *op);

/** Whether an operator is timed: GEMMs, and the forward pass of softmax and of fused attention. (changes.c) */
bool hr_confirm_is_timed(const hr_operator *op);

/** Whether two operators are the same work. (changes.c) */
bool hr_confirm_same(const hr_operator *a, const hr_operator *b);

/** The operator of the list `in` that corresponds to `op` of the list `of`: the same id and pass and, if groups of
 *  layers differ in it (with and without a sliding window), the same group's. NULL if none. (changes.c) */
const hr_operator *hr_confirm_counterpart(const hr_operators *in, const hr_operators *of, const hr_operator *op);

/** The operators of c->before that an operator of c->after replaces; count 0: none. (changes.c) */
hr_confirm_replaced hr_confirm_replaces(const hr_confirm_run *c, const hr_operator *after);

/** Whether an operator of c->after equals the one that it replaces. (changes.c) */
bool hr_confirm_unchanged(const hr_confirm_replaced *replaced, const hr_operator *after);

/** The pair of an operator of c->after and the operators that it replaces; NULL if none. (jobs.c) */
const hr_confirm_job *hr_confirm_pair(const hr_confirm_run *c, const hr_confirm_replaced *before,
                                      const hr_operator *after);

/** The job that timed an operator of the present step: alone, or the first pair whose first half is this operator only.
 *  Jobs that have a time come first. NULL if none. (jobs.c) */
const hr_confirm_job *hr_confirm_job_of(const hr_confirm_run *c, const hr_operator *before);

/** Tokens per device of the changed step over those of the present one. (gains.c) */
double hr_confirm_token_ratio(const hr_workload *before, const hr_workload *after);

/** Computes the gains of a subject from the jobs that are done; overwrites c->after. (gains.c) */
hr_status hr_confirm_gains(hr_confirm_run *c, const hr_confirm_subject *subject, hr_confirmed *confirmed,
                           hr_error *error);

#endif

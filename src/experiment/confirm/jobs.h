/* What the steps of a confirmation share: what is timed, at which size, and what follows from it. */
#ifndef HR_EXPERIMENT_CONFIRM_JOBS_H
#define HR_EXPERIMENT_CONFIRM_JOBS_H

#include <headroom/confirm.h>

/** What an operator of a changed step takes the place of in the step as it is: one operator, or of a fused attention
 *  where there is none score, softmax and over-value, as far as the step has them. */
typedef struct hr_confirm_replaced {
  size_t count;
  const hr_operator *items[HR_CONFIRMATION_REPLACED_MAX];
} hr_confirm_replaced;

/** What an operator is of. */
typedef struct hr_confirm_shape {
  const hr_model *model;
  const hr_workload *workload;
} hr_confirm_shape;

/** One thing to time: an operator alone, or a pair of which the first is the shape as it is. */
typedef struct hr_confirm_job {
  size_t before_count;
  hr_operator before[HR_CONFIRMATION_REPLACED_MAX];
  hr_operator after; /* of pairs only */
  hr_confirm_shape before_shape, after_shape;
  bool pair, done;
  double estimate_ns;   /* predicted: one execution of each */
  hr_comparison result; /* of an operator alone: result.before */
} hr_confirm_job;

/** A finding that has a change, at the measured size. */
typedef struct hr_confirm_subject {
  size_t finding;
  hr_finding *source;
  hr_workload workload;
} hr_confirm_subject;

typedef struct hr_confirming {
  hr_device *device;
  hr_advice *advice;
  double budget_ns;
  double slowdown;      /* how much longer a product takes than predicted, found by a trial (1 before) */
  double asked_ns;      /* what the size asked for would take */
  bool memory_short;    /* whether it would also take more memory than is free */
  hr_workload workload; /* the shape as it is, at the measured size */
  size_t subject_count;
  hr_confirm_subject subjects[HR_FINDINGS_MAX + 1];
  size_t job_count, job_capacity;
  hr_confirm_job *jobs;  /* owned; operators alone first */
  hr_step before, after; /* steps at the measured size; `after` is of the subject at hand */
} hr_confirming;

/** Lists the findings that have a change. (jobs.c) */
void hr_confirm_list(hr_confirming *c);

/** Chooses the largest size at which all that the findings need fits the budget and the memory; fills workload, jobs
 *  and before. (jobs.c) */
hr_status hr_confirm_choose(hr_confirming *c, hr_error *error);

/** About how long one execution of each of a job's operators takes here, and the job in all, ns. */
double hr_confirm_run_ns(const hr_confirming *c, const hr_confirm_job *job);
double hr_confirm_cost_ns(const hr_confirming *c, const hr_confirm_job *job);

/** A product of one or of several matrices. (changes.c) */
bool hr_confirm_is_product(const hr_operator *op);

/** Whether an operator is timed: products, and the forward pass of softmax and of a fused attention. (changes.c) */
bool hr_confirm_is_timed(const hr_operator *op);

/** Whether two operators are the same work. (changes.c) */
bool hr_confirm_same(const hr_operator *a, const hr_operator *b);

/** What an operator of `of` is in the other list: that of the same id and pass and, where layers are of several kinds
 *  (with a sliding window and without), of the same kind: at the same place among them, or the last. NULL if none.
 *  (changes.c) */
const hr_operator *hr_confirm_counterpart(const hr_operators *in, const hr_operators *of, const hr_operator *op);

/** What an operator of c->after takes the place of in c->before; count 0: nothing. (changes.c) */
hr_confirm_replaced hr_confirm_replaces(const hr_confirming *c, const hr_operator *after);

/** Whether an operator of c->after is the one that it takes the place of. (changes.c) */
bool hr_confirm_unchanged(const hr_confirm_replaced *replaced, const hr_operator *after);

/** The pair of an operator of c->after and what it takes the place of; NULL if none. (jobs.c) */
const hr_confirm_job *hr_confirm_pair(const hr_confirming *c, const hr_confirm_replaced *before,
                                      const hr_operator *after);

/** What one operator of the step as it is was timed by, alone or in the first pair that has it as its whole first half:
 *  one that has a time before others. NULL if none. (jobs.c) */
const hr_confirm_job *hr_confirm_job_of(const hr_confirming *c, const hr_operator *before);

/** Tokens a device of a changed step over those of the step as it is. (gains.c) */
double hr_confirm_token_ratio(const hr_workload *before, const hr_workload *after);

/** The gains of a subject from the jobs that are done; `after` is overwritten. (gains.c) */
hr_status hr_confirm_gains(hr_confirming *c, const hr_confirm_subject *subject, hr_confirmed *confirmed,
                           hr_error *error);

#endif

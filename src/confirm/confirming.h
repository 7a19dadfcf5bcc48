/* What the steps of a confirmation share: which products are timed, at which size, and what follows from them. */
#ifndef HR_CONFIRM_CONFIRMING_H
#define HR_CONFIRM_CONFIRMING_H

#include <headroom/confirm.h>

/** One thing to time: a product alone, or a pair of which the first is the shape as it is. */
typedef struct hr_confirm_job {
  hr_operator_id id;
  hr_gemm before, after; /* `after` holds for pairs only */
  bool pair, done;
  double estimate_ns;   /* predicted: one execution of each */
  hr_comparison result; /* of a product alone: result.before */
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
  double slowdown;      /* how much longer products take than predicted, found by a trial (1 before) */
  double asked_ns;      /* what the size asked for would take */
  bool memory_short;    /* whether it would also take more memory than is free */
  hr_workload workload; /* the shape as it is, at the measured size */
  size_t subject_count;
  hr_confirm_subject subjects[HR_FINDINGS_MAX + 1];
  size_t job_count, job_capacity;
  hr_confirm_job *jobs;  /* owned; products alone first */
  hr_step before, after; /* steps at the measured size; `after` is of the subject at hand */
} hr_confirming;

/** Lists the findings that have a change. (jobs.c) */
void hr_confirm_list(hr_confirming *c);

/** Chooses the largest size at which all that the findings need fits the budget and the memory; fills workload, jobs
 *  and before. (jobs.c) */
hr_status hr_confirm_choose(hr_confirming *c, hr_error *error);

/** About how long one execution of each of a job's products takes here, and the job in all, ns. */
double hr_confirm_run_ns(const hr_confirming *c, const hr_confirm_job *job);
double hr_confirm_cost_ns(const hr_confirming *c, const hr_confirm_job *job);

bool hr_same_gemm(const hr_gemm *a, const hr_gemm *b);
bool hr_is_product(const hr_operator *op);

/** What an operator of `of` is in the other list: that of the same id and pass and, where layers are of several kinds
 *  (with a sliding window and without), of the same kind: at the same place among them, or the last. NULL if none. */
const hr_operator *hr_confirm_counterpart(const hr_operators *in, const hr_operators *of, const hr_operator *op);

/** The pair of these two; NULL if none. */
const hr_confirm_job *hr_confirm_pair(const hr_confirming *c, const hr_gemm *before, const hr_gemm *after);

/** The gains of a subject from the jobs that are done; `after` is overwritten. (gains.c) */
hr_status hr_confirm_gains(hr_confirming *c, const hr_confirm_subject *subject, hr_confirmed *confirmed,
                           hr_error *error);

#endif

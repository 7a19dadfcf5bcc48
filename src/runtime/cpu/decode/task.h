/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a decode plan and its tasks. */
#ifndef HR_RUNTIME_CPU_DECODE_TASK_H
#define HR_RUNTIME_CPU_DECODE_TASK_H

#include "runtime/cpu/decode/cut.h"
#include "runtime/cpu/host/thread_pool.h"

#include <stdatomic.h>

/** State of a plan. */
typedef struct hr_split_plan {
  const hr_split_version *version;
  hr_split_cut cut;
  hr_split_scores scores;
  hr_strides q, o;
  hr_kv_strides k, v, k_scales, v_scales;
  bool quantized;
  hr_dtype format; /* of K and V, or HR_SPLIT_INT8 */
  hr_thread_pool *pool;
  int threads;
} hr_split_plan;

typedef struct hr_split_run {
  const hr_split_plan *plan;
  const hr_decode *problem;
  const hr_decode_arguments *arguments;
  char *workspace;
  atomic_llong next; /* task */
} hr_split_run;

/** The sums of one query row over all of its keys: the largest score, sum of weights, weights · V. */
typedef struct hr_split_row {
  int64_t sequence, head, query;
  float base, total;
  bool in_order; /* elements of o, as in hr_split_version.store */
  float *o;      /* whose order may change */
} hr_split_row;

/** Writes a row of O and its log-sum-exp. */
void hr_split_finish_row(const hr_split_version *version, const hr_decode *d, const hr_decode_arguments *x,
                         const hr_split_row *row);

/** Task `index`, 0 … hr_split_tasks() − 1, by a thread. A split that the sequence does not have is no work. */
void hr_split_task(const hr_split_run *run, int64_t index, int thread);

int64_t hr_split_tasks(const hr_split_run *run);

/** Before the first task. */
void hr_split_begin(const hr_split_run *run);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A model that is ready to run one step again and again. */
#ifndef HR_EXPERIMENT_STEP_RUNNER_H
#define HR_EXPERIMENT_STEP_RUNNER_H

#include "experiment/step/team.h"

#include <headroom/experimental/step.h>

typedef struct hr_step_runner {
  hr_team *team;
  hr_device *device; /* of rank 0, as the executor */
  hr_executor *executor;
  hr_workload workload;    /* that runs: fused attention, Headroom's kernels */
  hr_executor_input input; /* of the step */
  int32_t *ids;            /* owned; of every sequence, `longest` each */
  int64_t longest;
  int64_t decodes;     /* steps behind the first, as hr_step_options.output says */
  double load_ns;      /* filling the weights */
  double run_ns;       /* the last run */
  size_t others_bytes; /* of buffers of the device that were there before */
} hr_step_runner;

/** HR_OK if the executor runs the model in the phase of the workload. HR_ERROR_UNSUPPORTED, saying what it is, for a
 *  workload of devices that share something other than layers, and what hr_executor_open() refuses; HR_ERROR_INVALID
 *  for decode behind nothing and training on one token. */
hr_status hr_step_check(const hr_model *model, const hr_workload *workload, hr_error *error);

/** Opens and fills the model of the workload, and for decode the caches. Errors of hr_step_check(),
 *  hr_executor_open(), hr_executor_load() and hr_executor_step(). Close it in any case. */
hr_status hr_step_runner_open(hr_step_runner *runner, hr_device *device, const hr_model *model,
                              const hr_workload *workload, const hr_step_options *options, hr_error *error);

/** Bytes of all buffers that the runner has made: weights, caches, activations and tables. */
int64_t hr_step_runner_bytes(const hr_step_runner *runner);

/** Runs the step once. A decode step runs again behind the same tokens. */
hr_status hr_step_runner_run(hr_step_runner *runner, double *time_ns, hr_error *error);

/** The time of each operator, by its index in hr_executor_operators(), as the mean of a few runs; *timed is false
 *  where the device cannot time them, of stages, or where they are not `count`. Errors of
 *  hr_executor_time_operators(). */
hr_status hr_step_runner_time(const hr_step_runner *runner, size_t count, double *times_ns, bool *timed,
                              hr_error *error);

void hr_step_runner_close(hr_step_runner *runner);

/** hr_step_measure() without predictions, which need rates that a device may lack: they are NAN. */
hr_status hr_step_time(hr_device *device, const hr_model *model, const hr_workload *workload,
                       const hr_step_options *options, hr_step_times **times, hr_error *error);

/** When sampling ends. */
typedef struct hr_step_sampling {
  double limit_ns;  /* for all samples; three are taken in any case */
  double precision; /* of the median of the ratios of a pair, as hr_measure_options.precision; 0: up to the limit */
  hr_progress_fn progress; /* may be NULL */
  void *context;
} hr_step_sampling;

/** Runs one step, or two interleaved (before, after), until the limits say so; the first runs, which make plans, do not
 *  count. Fills times of comparison->before (and ->after, with the ratios). HR_ERROR_INTERRUPTED if the progress says
 *  stop; errors of hr_step_runner_run(). */
hr_status hr_step_sample(hr_step_runner *const *runners, int count, const hr_step_sampling *sampling,
                         hr_comparison *comparison, hr_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A problem that is ready to be timed: its plan, and as many sets of buffers as keep the caches cold. */
#ifndef HR_RUNTIME_MEASURE_RUNNER_H
#define HR_RUNTIME_MEASURE_RUNNER_H

#include "runtime/device/plan.h"

#include <headroom/buffer.h>
#include <headroom/experimental/measure.h>

#define HR_SHORT_RUN_NS 20e3 /* shorter runs are timed in groups on any device */

typedef struct hr_runner {
  hr_device *device;
  hr_problem problem;
  hr_plan *plan;
  hr_operands operands;
  size_t stride[HR_OPERANDS_MAX];      /* bytes from one set to the next */
  hr_buffer *buffers[HR_OPERANDS_MAX]; /* all sets of an operand */
  hr_buffer *workspace;                /* NULL if the plan needs none */
  size_t free_before;                  /* free memory of an own_memory device before the workspace; 0: unknown */
  int64_t sets, next;                  /* next: the set that the next run uses */
  int64_t group;                       /* runs in one sample */
  int part;                            /* the launch that a run consists of; 0: all */
  void *recording;                     /* the backend's, kept from sample to sample */
  struct hr_runner *then;              /* runs after this one as part of each run; owned; NULL: none */
} hr_runner;

/** HR_ERROR_INTERRUPTED once options->cancelled() returns nonzero. */
hr_status hr_measure_check_cancelled(const hr_measure_options *options, hr_error *error);

/** How many sets of `set_bytes` rotate so that at least 2 · `cache_bytes` are touched between two uses of a set; 1 if
 *  one set is that large. */
int64_t hr_buffer_sets(size_t set_bytes, size_t cache_bytes);

/** Plans, allocates, fills the inputs with fresh values and poisons the output. HR_ERROR_OUT_OF_MEMORY before anything
 *  large is touched; HR_ERROR_UNSUPPORTED and other errors of hr_plan_create(). Close in any case. */
hr_status hr_runner_open(hr_device *device, const hr_problem *problem, const hr_measure_options *options,
                         hr_runner *runner, hr_error *error);

/** The same for `count` problems that run one after the other in each run. */
hr_status hr_runner_open_sequence(hr_device *device, const hr_problem *problems, size_t count,
                                  const hr_measure_options *options, hr_runner *runner, hr_error *error);
void hr_runner_close(hr_runner *runner);

/** Poisons the outputs of all sets. */
hr_status hr_runner_poison(hr_runner *runner, hr_error *error);

/** Starts one run with the next set. */
hr_status hr_runner_run(hr_runner *runner, hr_error *error);

/** Makes a sample of at least `runs` runs. Where the device repeats a recording, every set is in it equally often. Call
 *  once, before the samples that count. */
void hr_runner_set_group(hr_runner *runner, int64_t runs);

/** The same after samples were taken: what the device has recorded is forgotten. */
void hr_runner_regroup(hr_runner *runner, int64_t runs);

/** Takes a few samples and sets the group if runs are short, or shorter than the device times one by one; `first_ns` is
 *  the time of the first run. */
hr_status hr_runner_choose_group(hr_runner *runner, double first_ns, hr_error *error);

/** Runs `group` times; *time_ns is the time of one run. */
hr_status hr_runner_sample(hr_runner *runner, double *time_ns, hr_error *error);

/** Times the first run. If it exceeds the time limit by less than 10 times, two more runs follow and *time_ns is the
 *  shortest, since other programs may have used the processor. HR_ERROR_TIMEOUT if that exceeds the limit, too. */
hr_status hr_runner_first_sample(hr_runner *runner, const hr_measure_options *options, double *time_ns,
                                 hr_error *error);

/** Latency of one run on an idle device: the host's time from the call until the run is over, the median of 100 runs
 *  (or of as many as fit the time limit, at least 1). HR_ERROR_INTERRUPTED as `options` say. */
hr_status hr_runner_latency(hr_runner *runner, const hr_measure_options *options, double *latency_ns, hr_error *error);

#endif

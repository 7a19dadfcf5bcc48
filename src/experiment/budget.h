/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of an experiment: the largest workload that fits a time and the free memory, what measuring an operator
 * costs, and how long it may sample. */
#ifndef HR_EXPERIMENT_BUDGET_H
#define HR_EXPERIMENT_BUDGET_H

#include <headroom/device.h>
#include <headroom/workload.h>

/** An experiment whose workload may be made smaller. */
typedef struct hr_budget_experiment {
  void *context;
  /** Lists what is measured at this size; cost_ns and fits_memory are of the size listed last. */
  hr_status (*list)(void *context, const hr_workload *workload, hr_error *error);
  double (*cost_ns)(const void *context);
  bool (*fits_memory)(const void *context);
} hr_budget_experiment;

/** The size that was chosen, and why the size asked for was not. */
typedef struct hr_budget_size {
  hr_workload workload;
  double asked_ns;   /* what measuring the size asked for would take */
  bool memory_short; /* the size asked for takes more memory than is free */
} hr_budget_size;

/** Chooses the largest workload at which the experiment fits `budget_ns` and the memory, and lists it: `asked`, then
 *  half the batch again and again, then half the sequence (decode: context) with the same remainder by 64, so that a
 *  misaligned length stays misaligned. The smallest is taken even if it does not fit; `asked`, if `keep_size`. Errors
 *  of experiment->list(). */
hr_status hr_budget_choose_size(const hr_budget_experiment *experiment, const hr_workload *asked, double budget_ns,
                                bool keep_size, hr_budget_size *size, hr_error *error);

/** `changed`, made smaller as the workload itself was, from `asked` to `measured`. */
hr_workload hr_budget_scaled(const hr_workload *changed, const hr_workload *asked, const hr_workload *measured);

/** Tokens in a sequence; for decode, tokens in the KV cache. */
int64_t hr_budget_length(const hr_workload *workload);

/** Bytes that measuring an operator of `operator_bytes` takes, rotating buffer sets included. */
double hr_budget_bytes(const hr_device *device, double operator_bytes);

/** Whether buffers of `bytes` bytes leave half of the free memory free. */
bool hr_budget_fits_memory(const hr_device *device, double bytes);

/** Time to measure `count` operators that take `run_ns` for one run and `bytes` of hr_budget_bytes(), all together. */
double hr_budget_cost_ns(const hr_device *device, double run_ns, double bytes, int count);

/** Time of the runs of a measurement alone, of `run_ns` each. */
double hr_budget_runs_ns(double run_ns);

/** Time to fill `bytes` bytes with random values, which the device makes itself or the host. */
double hr_budget_fill_ns(bool on_device, double bytes);

/** How long a measurement may sample: the time that its runs are predicted to take and an equal part of the spare time.
 *  If less than the reserved time is left, the machine is slower than predicted, and every measurement gets less.
 *  `reserved_ns`: Σ hr_budget_cost_ns() of the `count` measurements still to come, this one included. */
double hr_budget_limit_ns(double run_ns, double reserved_ns, size_t count, double left_ns);

/** Returns whether the chosen size is smaller than `asked`; `note` then says so, and why, in a sentence, otherwise it
 *  is empty. */
bool hr_budget_note(const hr_workload *asked, const hr_budget_size *chosen, double budget_ns, char *note, size_t size);

#endif

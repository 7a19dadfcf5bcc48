/* What fits a time and a memory: smaller sizes of a workload, what measuring one product costs, and how long it may
 * take. */
#ifndef HR_EXPERIMENT_BUDGET_H
#define HR_EXPERIMENT_BUDGET_H

#include <headroom/device.h>
#include <headroom/workload.h>

/** The next smaller size: half the batch, then half the sequence (decode: context) but the same remainder by 64, so
 *  that a misaligned length stays one. False at the smallest. */
bool hr_budget_smaller(hr_workload *workload);

/** A changed workload brought down as the shape's own was, from `asked` to `measured`. */
hr_workload hr_budget_scaled(const hr_workload *changed, const hr_workload *asked, const hr_workload *measured);

/** Tokens in a sequence; of decode those in the cache. */
int64_t hr_budget_length(const hr_workload *workload);

/** Memory that measuring an operator of so many bytes takes, with its rotating sets. */
double hr_budget_bytes(const hr_device *device, double operator_bytes);

/** Whether so many bytes of buffers leave half of the memory that is free. */
bool hr_budget_has_memory(const hr_device *device, double bytes);

/** What measuring takes: `run_ns` for one run, of `count` operators with `bytes` of hr_budget_bytes() in all. */
double hr_budget_cost_ns(const hr_device *device, double run_ns, double bytes, int count);

/** How long a measurement may sample. Each gets the time that its runs are predicted to take and an equal part of what
 *  the others leave. Where less is left than that, the machine is slower than predicted, and all get less.
 *  `reserved_ns`: Σ hr_budget_cost_ns() of what is still to be measured, this one included, `count` of them. */
double hr_budget_limit_ns(double run_ns, double reserved_ns, size_t count, double left_ns);

/** Says in a sentence that `measured` is smaller than `asked`, and why: the memory, or that measuring what was
 *  asked for would take `asked_ns` where `budget_ns` is given. Empty where it is not smaller. Returns whether it is. */
bool hr_budget_note(const hr_workload *asked, const hr_workload *measured, bool memory_short, double asked_ns,
                    double budget_ns, char *note, size_t size);

#endif

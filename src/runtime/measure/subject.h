/* A problem made ready to be timed: its plan, and as many sets of buffers as keep it cold. */
#ifndef HR_RUNTIME_SUBJECT_H
#define HR_RUNTIME_SUBJECT_H

#include "runtime/device/plan.h"
#include "runtime/reference/reference.h"

#include <headroom/buffer.h>
#include <headroom/measure.h>

typedef struct hr_subject {
  hr_device *device;
  hr_problem problem;
  hr_plan *plan;
  hr_operands operands;
  size_t stride[HR_OPERANDS_MAX];      /* bytes from one set to the next */
  hr_buffer *buffers[HR_OPERANDS_MAX]; /* all sets of an operand */
  hr_buffer *workspace;                /* NULL if the plan needs none */
  size_t free_before;                  /* memory that an own_memory device had before the workspace; 0: not known */
  int64_t sets, next;                  /* next: the set that the next run uses */
  int64_t group;                       /* runs in one sample */
  void *recording;                     /* of the device, from sample to sample */
  struct hr_subject *then;             /* runs after it as part of each run; owned, NULL: nothing does */
} hr_subject;

/** HR_ERROR_INTERRUPTED once the caller says stop. */
hr_status hr_measure_ask(const hr_measure_options *options, hr_error *error);

/** Sets of `set_bytes` that rotate so that twice `cache_bytes` lies between two uses of one; 1 where a set alone is as
 *  large as that. */
int64_t hr_buffer_sets(size_t set_bytes, size_t cache_bytes);

/** Plans, allocates, fills with fresh values and poisons the output. HR_ERROR_OUT_OF_MEMORY before anything large is
 *  touched, HR_ERROR_UNSUPPORTED and other errors of hr_plan_create(). Close in any case. */
hr_status hr_subject_open(hr_device *device, const hr_problem *problem, const hr_measure_options *options,
                          hr_subject *subject, hr_error *error);

/** The same for `count` problems that run one after the other in each run. */
hr_status hr_subject_open_sequence(hr_device *device, const hr_problem *problems, size_t count,
                                   const hr_measure_options *options, hr_subject *subject, hr_error *error);
void hr_subject_close(hr_subject *subject);

/** Makes a sample of at least `runs` runs: all sets in turn, and each equally often where the device repeats a
 *  recording of them. Once, before the samples that count. */
void hr_subject_group(hr_subject *subject, int64_t runs);

/** Samples a few times and makes groups of short runs; *first_ns is what the first run took. */
hr_status hr_subject_choose_group(hr_subject *subject, double first_ns, hr_error *error);

/** Times up to options->autotune configurations of a subject that is not timed yet, by turns, and leaves it with the
 *  fastest; fills choice and choices of *measurement. The result is poisoned again. A configuration that fails is
 *  passed over; HR_ERROR_INTERRUPTED, or what the first failed at where all did. */
hr_status hr_subject_autotune(hr_subject *subject, const hr_measure_options *options, hr_measurement *measurement,
                              hr_error *error);

/** Runs the next set once. */
hr_status hr_subject_run(hr_subject *subject, hr_error *error);

/** Runs `group` times and gives the time of one run. */
hr_status hr_subject_sample(hr_subject *subject, double *time_ns, hr_error *error);

/** Times the first run. Where it takes longer than the time limit, but not many times as long, twice more, and *time_ns
 *  is the shortest: other programs may have had the processor. HR_ERROR_TIMEOUT where that is too long, too. */
hr_status hr_subject_first_sample(hr_subject *subject, const hr_measure_options *options, double *time_ns,
                                  hr_error *error);

/** What one run takes when nothing else is under way: the host's time from the call until the run is over, the median
 *  of 100 (or of as many as fit the time limit, at least 1). HR_ERROR_INTERRUPTED if `options` say so. */
hr_status hr_subject_latency(hr_subject *subject, const hr_measure_options *options, double *latency_ns,
                             hr_error *error);

/** Lets the device work until its clock stays the same, if it is one that needs that and has not done so since it was
 *  opened. HR_ERROR_INTERRUPTED if `options` say so; what else goes wrong is left to the measurement that follows. */
hr_status hr_device_settle(hr_device *device, const hr_measure_options *options, hr_error *error);

/** Whether the chip holds its clock down now, by more than 5%, below the one that it settled at. The power cap alone is
 *  what the work itself draws, which for some kernels is more than for the one that the chip settled with: it counts
 *  only against the clock that the same work had at the end of its warm-up. */
bool hr_device_throttled(const hr_device *device, const hr_conditions *warm, const hr_conditions *now);

/** Runs set 0 and compares a sample of rows with the reference (check.c): fills rows_checked and max_error of
 *  *measurement. HR_ERROR_WRONG_RESULT names the first element that is off. */
hr_status hr_subject_check(hr_subject *subject, uint64_t seed, hr_measurement *measurement, hr_error *error);

/** The row that is compared as number `index` of `count` (at most 16), of a result of `rows`. */
int64_t hr_sampled_row(int64_t rows, int64_t count, int64_t index, uint64_t seed);

/** What a right kernel may be off by. `reference` is the exact value of an element and `norm` what
 *  hr_reference_gemm_row() gives beside it; docs/measuring.md has the formula and its reason. `summation` is
 *  hr_plan's. */
double hr_gemm_error_bound(hr_dtype dtype, int64_t k, const hr_summation *summation, double reference, double norm);

/** The same for an element of attention's result, of which `query` is what hr_reference_attention_row() says. */
double hr_attention_error_bound(const hr_attention *attention, const hr_reference_query *query, int64_t column);

/** The same for its log-sum-exp, where that is finite. */
double hr_attention_lse_error_bound(const hr_attention *attention, const hr_reference_query *query);

/** The same for operations on rows; `norm` is what hr_reference_rowwise_row() gives beside the reference. */
double hr_rowwise_error_bound(hr_dtype dtype, int64_t columns, double reference, double norm);

#endif

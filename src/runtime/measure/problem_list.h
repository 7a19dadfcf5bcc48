/* Several problems timed as one. */
#ifndef HR_RUNTIME_MEASURE_PROBLEM_LIST_H
#define HR_RUNTIME_MEASURE_PROBLEM_LIST_H

#include "runtime/device/device.h"
#include "runtime/device/problem.h"

#include <headroom/measure.h>

/** Nothing measured, and why: every number is NAN, every count 0. */
hr_measurement hr_no_measurement(hr_status status, const char *reason);

/** `count` problems (at least 1, each checked by its own hr_…_check()) that run one after the other as one. */
typedef struct hr_problem_list {
  const hr_problem *problems;
  size_t count;
  const char *kernel; /* as hr_measure_options.kernel, for these problems; NULL: what the options say */
} hr_problem_list;

/** Times a sequence, each problem on buffers of its own: on a GPU, where all take less than 20 ms, as one captured
 *  graph, so that no launch is waited for. Of two or more the sets rotate together, nothing is compared with the
 *  reference (each alone has been), and `kernel` and `configuration` stay empty. Rates are of all FLOPs and bytes.
 *  Otherwise as hr_measure_gemm(). */
hr_status hr_measure_list(hr_device *device, const hr_problem_list *sequence, const hr_measure_options *options,
                          hr_measurement *measurement, hr_error *error);

/** Times two sequences by turns, whatever their problems are. Otherwise as hr_measure_gemm_pair(). */
hr_status hr_measure_list_pair(hr_device *device, const hr_problem_list *before, const hr_problem_list *after,
                               const hr_measure_options *options, hr_comparison *comparison, hr_error *error);

/** Compares one problem's result as hr_measure_list() does and times the run after it, of a device that may not
 *  have settled: one sample, for who wants to know whether a problem runs, and about how long. No clock, no rates. */
hr_status hr_measure_first_run(hr_device *device, const hr_problem *problem, const hr_measure_options *options,
                               hr_measurement *measurement, hr_error *error);

#endif

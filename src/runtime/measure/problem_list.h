/* SPDX-License-Identifier: Apache-2.0 */
/* Timing a sequence of problems as one. */
#ifndef HR_RUNTIME_MEASURE_PROBLEM_LIST_H
#define HR_RUNTIME_MEASURE_PROBLEM_LIST_H

#include "base/private.h"
#include "runtime/device/device.h"
#include "runtime/operation/operation.h"

#include <headroom/experimental/measure.h>

/** A measurement without a result: every number is NAN, every count 0. */
HR_PRIVATE hr_measurement hr_no_measurement(hr_status status, const char *reason);

/** `count` problems (at least 1, each checked by its hr_…_check()) that run one after the other. */
typedef struct hr_problem_list {
  const hr_problem *problems;
  size_t count;
  const char *kernel; /* replaces hr_measure_options.kernel; NULL: the options' */
} hr_problem_list;

/** Times a sequence, each problem on its own buffers. On a GPU a sequence of less than 20 ms runs as one captured
 *  graph, which hides launches. With two or more problems the buffer sets rotate together, no result is checked
 *  (measure each alone for that), and `kernel` and `configuration` stay empty. Rates count the FLOPs and bytes of all
 *  problems. Otherwise as hr_measure_gemm(). */
HR_PRIVATE hr_status hr_measure_list(hr_device *device, const hr_problem_list *sequence,
                                     const hr_measure_options *options, hr_measurement *measurement, hr_error *error);

/** Times two sequences interleaved. Otherwise as hr_measure_gemm_pair(). */
HR_PRIVATE hr_status hr_measure_list_pair(hr_device *device, const hr_problem_list *before,
                                          const hr_problem_list *after, const hr_measure_options *options,
                                          hr_comparison *comparison, hr_error *error);

/** Checks one problem's result as hr_measure_gemm() does and times one run after that, on a device whose clock may not
 *  have settled. It tells whether a problem runs and roughly how long; conditions and rates stay NAN. */
HR_PRIVATE hr_status hr_measure_first_run(hr_device *device, const hr_problem *problem,
                                          const hr_measure_options *options, hr_measurement *measurement,
                                          hr_error *error);

#endif

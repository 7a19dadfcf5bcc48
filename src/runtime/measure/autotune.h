/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the fastest configuration of a kernel by timing. */
#ifndef HR_RUNTIME_MEASURE_AUTOTUNE_H
#define HR_RUNTIME_MEASURE_AUTOTUNE_H

#include "runtime/measure/runner.h"

/** Times up to options->autotune configurations of a runner that has not run yet, interleaved, and leaves it with the
 *  fastest. Fills choice, choices and choice_speedup of *measurement and poisons the output again. A configuration that
 *  fails is skipped; if all fail, the first one's error is returned. HR_ERROR_INTERRUPTED as `options` say. */
hr_status hr_runner_autotune(hr_runner *runner, const hr_measure_options *options, hr_measurement *measurement,
                             hr_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of a measurement: of one runner, or of two interleaved, until they are precise enough. */
#ifndef HR_RUNTIME_SAMPLING_H
#define HR_RUNTIME_SAMPLING_H

#include "runtime/measure/runner.h"

/** One runner of a measurement. */
typedef struct hr_timing {
  hr_runner runner;
  hr_measurement *result;
  double *samples; /* samples_max */
  bool timed;      /* no failure so far: result->status is HR_OK */
} hr_timing;

/** Handles a failure. A failure of the problem is a result: it is written to timing->result, its timing ends and HR_OK
 *  is returned. Any other status is returned as an error of the call. */
hr_status hr_timing_note(hr_timing *timing, hr_status status, const hr_error *reason, hr_error *error);

/** The state of sampling. */
typedef struct hr_sampling {
  const hr_measure_options *options;
  double *watched, *scratch; /* samples_max each; watched: times of one runner, or ratios of a pair */
  bool *disturbed;           /* samples_max: taken while other processes had the cores */
  int64_t count, clean;      /* clean: samples that are not disturbed */
  double waiting;            /* largest share of waiting time among the blocks of samples */
  hr_conditions conditions;  /* of the device, after the last sample */
  bool throttled;            /* the clock was throttled then */
} hr_sampling;

/** Free in any case. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_sampling_make(hr_sampling *sampling, const hr_measure_options *options, hr_error *error);
void hr_sampling_free(hr_sampling *sampling);

/** Warms up a pair interleaved. Each has warmed up alone, to the clock at its own power; interleaved they run at a
 *  clock between these, as in a step. Without this, sampling would begin at the second one's clock and the ratio would
 *  depend on the order. */
hr_status hr_sampling_warm_up_pair(hr_timing pair[2], const hr_measure_options *options, hr_error *error);

/** Samples one runner, or two interleaved. Repeats all samples, a few times, if the chip throttled its clock meanwhile.
 *  HR_ERROR_INTERRUPTED as the options say. */
hr_status hr_sampling_run(hr_sampling *sampling, hr_timing *timings, int runners, hr_error *error);

/** Copies the samples that count to sampling->scratch and returns how many: the undisturbed ones, or all if those are
 *  too few. */
int64_t hr_sampling_gather(const hr_sampling *sampling, const double *samples);

/** Sets HR_ERROR_NOISY and the reason if the times of *measurement, filled from these samples, are doubtful. */
void hr_sampling_judge(const hr_sampling *sampling, hr_measurement *measurement);

#endif

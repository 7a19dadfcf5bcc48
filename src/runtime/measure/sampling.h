/* Samples of a measurement: of one runner, or of two by turns, until they are precise enough. */
#ifndef HR_RUNTIME_SAMPLING_H
#define HR_RUNTIME_SAMPLING_H

#include "runtime/measure/runner.h"

/** A runner on its way through a measurement. */
typedef struct hr_timing {
  hr_runner runner;
  hr_measurement *result;
  double *samples; /* samples_max */
  bool timed;      /* result->status is still HR_OK: there is something to time */
} hr_timing;

/** Takes `status` down. What went wrong with a problem is a result: its timing ends, and HR_OK is returned. What is
 *  wrong with the question is an error of the call. */
hr_status hr_timing_note(hr_timing *timing, hr_status status, const hr_error *reason, hr_error *error);

/** What the sampling of one measurement goes by. */
typedef struct hr_sampling {
  const hr_measure_options *options;
  double *watched, *scratch; /* samples_max each; watched: times of one runner, or ratios of a pair */
  bool *disturbed;           /* samples_max: taken while others had the cores */
  int64_t count, clean;      /* clean: those that are not disturbed */
  double waiting;            /* largest share of waiting among the blocks of samples */
  hr_conditions conditions;  /* of the device, after the last sample */
  bool throttled;            /* the clock was held down then */
} hr_sampling;

/** Free in any case. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_sampling_make(hr_sampling *sampling, const hr_measure_options *options, hr_error *error);
void hr_sampling_free(hr_sampling *sampling);

/** Each of a pair has warmed up alone, to the clock that its own power leaves. By turns they run at one between these,
 *  as in a step; begun at the clock of the second, the ratio would depend on the order. */
hr_status hr_sampling_warm_up_pair(hr_timing pair[2], const hr_measure_options *options, hr_error *error);

/** Samples one or two runners by turns, again, a few times, where the chip held its clock down meanwhile.
 *  HR_ERROR_INTERRUPTED if the options say so. */
hr_status hr_sampling_run(hr_sampling *sampling, hr_timing *timings, int runners, hr_error *error);

/** Copies the samples that count to sampling->scratch and says how many they are: those that nobody disturbed, or all
 *  where these are too few to say something. */
int64_t hr_sampling_gather(const hr_sampling *sampling, const double *samples);

/** HR_ERROR_NOISY with the reason where the times of *measurement, filled from such samples, are doubtful. */
void hr_sampling_judge(const hr_sampling *sampling, hr_measurement *measurement);

#endif

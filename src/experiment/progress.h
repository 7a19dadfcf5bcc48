/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of an experiment: reports it to the caller and remembers that the caller stopped it. */
#ifndef HR_EXPERIMENT_PROGRESS_H
#define HR_EXPERIMENT_PROGRESS_H

#include <headroom/hardware.h>
#include <stdbool.h>

typedef struct hr_progress {
  hr_progress_fn report; /* may be NULL */
  void *context;
  double done;    /* 0 to 1 */
  char what[160]; /* the step at hand */
  bool stopped;   /* by the caller; it is not asked again */
} hr_progress;

/** Implements hr_measure_options.cancelled for an hr_progress: reports, and returns not 0 once the caller said stop. */
int hr_progress_cancelled(void *progress);

/** Implements hr_progress_fn for a part of the experiment that reports steps of its own, which are dropped. */
int hr_progress_of_part(void *progress, double done, const char *what);

#endif

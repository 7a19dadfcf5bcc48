/* SPDX-License-Identifier: Apache-2.0 */
/* A run that measures problems one after another and appends a row to the store for each: its progress and its rows. */
#ifndef HR_EXPERIMENT_STORED_RUN_H
#define HR_EXPERIMENT_STORED_RUN_H

#include "experiment/progress.h"

#include <headroom/experimental/sweep.h>

typedef struct hr_stored_run {
  hr_sweep_progress_fn report; /* of the caller, with its context; may be NULL */
  void *context;
  hr_sweep_progress now;
  hr_progress progress; /* reports `now` */
  char what[sizeof((hr_result *)NULL)->problem];
  bool collided; /* another process measured the problem that was kept last */
} hr_stored_run;

/** Begins a run of `total` problems, which stays where it is. */
void hr_stored_run_begin(hr_stored_run *run, hr_sweep_progress_fn report, void *context, int64_t total);

/** The fields that all rows of a run share; *hardware is the device as detected. */
hr_result hr_stored_run_base(const hr_device *device, const char *sweep, bool warm, uint64_t seed,
                             hr_hardware *hardware);

/** Whether a stored row agrees with these fields, of which a sweep and its series are looked for apart. */
bool hr_stored_run_has(const hr_result *base, const hr_result *row);

/** Stores a row that was measured, also after the caller said stop; `beside`: although the problem has one. */
hr_status hr_stored_run_keep(hr_stored_run *run, hr_store *store, hr_result *row, bool beside, hr_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a step: a device and an executor each, and a thread for every one but the first, which is the
 * caller's; or this process's rank alone, where the others are processes. */
#ifndef HR_EXPERIMENT_STEP_TEAM_H
#define HR_EXPERIMENT_STEP_TEAM_H

#include <headroom/experimental/communicator.h>
#include <headroom/experimental/run.h>
#include <stdbool.h>

typedef struct hr_team hr_team;

/** A member of a team. */
typedef struct hr_team_rank {
  hr_device *device;
  hr_communicator *communicator; /* NULL in a team of one */
  hr_executor *executor;         /* NULL until a job opens it */
} hr_team_rank;

/** What every rank does. */
typedef hr_status (*hr_team_job)(hr_team_rank *rank, void *context, hr_error *error);

/** A team of `ranks` devices: `first` and the GPUs that follow it, or the same cores of a CPU, which they share. Errors
 *  of hr_device_open() and hr_communicators_create(). */
hr_status hr_team_open(hr_device *first, int64_t ranks, hr_team **team, hr_error *error);

/** A team of this process's rank, the communicator's, which stays the caller's. HR_ERROR_INVALID if it has not
 *  `ranks`. */
hr_status hr_team_join(hr_device *device, hr_communicator *communicator, int64_t ranks, hr_team **team,
                       hr_error *error);

/** All ranks do the job at the same time. The error is that of the first that failed by itself. */
hr_status hr_team_do(hr_team *team, hr_team_job job, void *context, hr_error *error);

/** Rank 0, or this process's. */
hr_team_rank *hr_team_first(hr_team *team);

/** What ranks are to each other. */
typedef enum hr_team_kind { HR_TEAM_SHARES_LAYERS, HR_TEAM_OF_REPLICAS, HR_TEAM_OF_STAGES } hr_team_kind;

/** Opens an executor on every rank, with the rank's communicator. */
hr_status hr_team_open_executors(hr_team *team, const hr_model *model, const hr_executor_options *options,
                                 hr_team_kind kind, hr_error *error);

/** The members are as hr_executor_load() takes them. */
typedef struct hr_team_weights {
  const char *what;
  uint64_t seed;
  hr_progress_fn progress; /* the first rank reports */
  void *context;
} hr_team_weights;

/** Every rank loads its weights; over once all have. */
hr_status hr_team_load(hr_team *team, const hr_team_weights *weights, hr_error *error);

/** *value becomes that of rank 0 in all processes. */
hr_status hr_team_agree(hr_team *team, bool *value, hr_error *error);

/** Closes the executors and what was opened; NULL is allowed. */
void hr_team_close(hr_team *team);

#endif

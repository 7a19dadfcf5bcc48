/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which pipeline stages compute microbatches, and pass them on: in rounds, each of one microbatch forward
 * or backward on every stage that has one. Behind a round results go to the next stages, gradients to those before. */
#ifndef HR_SCHEDULE_PIPELINE_H
#define HR_SCHEDULE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum hr_stage_work { HR_STAGE_WAITS, HR_STAGE_FORWARD, HR_STAGE_BACKWARD } hr_stage_work;

/** A stage. All members are 0 before the first round. */
typedef struct hr_stage_turn {
  int64_t forward, backward; /* microbatches that it has computed */
  hr_stage_work work;        /* in the round */
  int64_t microbatch;        /* of its work */
} hr_stage_turn;

/** Sets the work of the next round; false, with none, once all is done. Training is 1F1B: stage s of p has at most
 *  p − s microbatches in flight, and none behind the last. Source: Narayanan et al. 2021 (arXiv 2104.04473), section
 *  2.2. */
bool hr_stages_next(hr_stage_turn *stages, int64_t count, int64_t microbatches, bool trains);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The work items of a call on the workers of Headroom's attention kernel for Hopper. */
#ifndef HR_ANALYSIS_PREDICT_FLASH_SCHEDULE_H
#define HR_ANALYSIS_PREDICT_FLASH_SCHEDULE_H

#include "schedule/flash_tiles.h"

/** What one of the `at_once` workers processes. */
typedef struct hr_flash_load {
  double tiles; /* K/V tiles */
  double items; /* work items */
} hr_flash_load;

/** An equal share. */
hr_flash_load hr_flash_mean_load(const hr_attention *attention, const hr_flash_grid *grid);

/** The load of the worker that ends last. */
hr_flash_load hr_flash_longest_load(const hr_attention *attention, const hr_flash_grid *grid);

#endif

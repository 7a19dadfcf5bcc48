/* SPDX-License-Identifier: Apache-2.0 */
/* The time of Headroom's attention kernel for Hopper, and the load of its workers. */
#ifndef HR_ANALYSIS_PREDICT_FLASH_H
#define HR_ANALYSIS_PREDICT_FLASH_H

#include "hardware/hardware.h"
#include "schedule/flash_tiles.h"

#include <headroom/predict.h>

/** Whether the tiles of a call of attention are known: by Headroom's kernel for Hopper, with
 *  hr_hardware.prefill_headroom. */
bool hr_predict_is_flash(const hr_hardware *hardware, const hr_attention *attention, hr_framework framework);

/** Time of that kernel without its launch; sets the terms and adds to the launch. See hr_predict_attention_by(). */
double hr_predict_flash(const hr_hardware *hardware, const hr_attention *attention, double flops, double bytes,
                        double library_rate, hr_prediction *prediction);

/** What one of the `at_once` workers of that kernel processes. */
typedef struct hr_flash_load {
  double tiles; /* K/V tiles */
  double items; /* work items */
} hr_flash_load;

/** An equal share, and that of the worker that ends last. */
hr_flash_load hr_flash_mean_load(const hr_attention *attention, const hr_flash_grid *grid);
hr_flash_load hr_flash_longest_load(const hr_attention *attention, const hr_flash_grid *grid);

#endif

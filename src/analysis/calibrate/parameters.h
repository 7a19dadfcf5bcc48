/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a device that can be fitted, in a table. */
#ifndef HR_ANALYSIS_CALIBRATE_PARAMETERS_H
#define HR_ANALYSIS_CALIBRATE_PARAMETERS_H

#include "hardware/figures.h"

#include <headroom/experimental/calibrate.h>

/** How a figure is varied. */
typedef enum hr_parameter_scale {
  HR_SCALE_FACTOR, /* times and divided by 1 + step */
  HR_SCALE_SHARE,  /* plus and minus the step */
  HR_SCALE_EXCESS  /* its excess over 1 by a factor */
} hr_parameter_scale;

/** What a row measures, by its kind, and which rows may determine a figure. */
#define HR_KIND_BIT(kind) (1 << HR_INTERVAL_##kind)
enum {
  HR_ROWS_NONE = 0,
  HR_ROWS_GEMMS = HR_KIND_BIT(GEMM) | HR_KIND_BIT(GEMM_MISALIGNED) | HR_KIND_BIT(GEMM_8BIT) | HR_KIND_BIT(BMM) |
                  HR_KIND_BIT(BMM_MISALIGNED),
  HR_ROWS_ATTENTION = HR_KIND_BIT(ATTENTION),
  HR_ROWS_DECODE = HR_KIND_BIT(DECODE),
  HR_ROWS_LATENT = HR_KIND_BIT(LATENT) | HR_KIND_BIT(LATENT_PREFILL),
  HR_ROWS_EXPERTS = HR_KIND_BIT(EXPERTS),
  HR_ROWS_SCANS = HR_KIND_BIT(SCAN),
  HR_ROWS_COLLECTIVES = HR_KIND_BIT(COLLECTIVE),
  HR_ROWS_ALL = HR_KIND_BIT(KIND_COUNT) - 1,
  HR_ROWS_KERNELS = HR_ROWS_ALL - HR_ROWS_COLLECTIVES,
  HR_ROWS_FRAMEWORKS = 1 << 16, /* attention of frameworks; of a figure: not without such rows */
  HR_ROWS_HEADROOM = 1 << 17,   /* attention or decode by Headroom's kernels */
  HR_ROWS_ON_CPU = 1 << 18,     /* of a figure: only on a CPU */
  HR_ROWS_WITH_GEMMS = 1 << 19, /* of a figure: not without GEMMs */
  HR_ROWS_KERNELS_OF_CPU = HR_ROWS_KERNELS | HR_ROWS_ON_CPU,
  HR_ROWS_KERNELS_WITH_GEMMS = HR_ROWS_KERNELS | HR_ROWS_WITH_GEMMS,
  HR_ROWS_FRAMEWORKS_ATTENTION = HR_ROWS_ATTENTION | HR_ROWS_FRAMEWORKS
};

/** The bits of a row. */
unsigned hr_parameter_row_bits(const hr_validated_row *row);

/** One number of a device. */
typedef struct hr_parameter {
  const hr_device_figure *figure;
  size_t index; /* of its numbers */
  hr_parameter_scale scale;
  unsigned rows;
} hr_parameter;

/** Sets figures that a device file may leave out to what the model takes for them, so that they can be varied. `bits`:
 *  of all rows together. */
void hr_parameters_begin(hr_hardware *hardware, unsigned bits);

/** Gives the device a rate for each library, collective and number of devices that it has none of and at least `least`
 *  of the rows measure, from the shortest time and the highest rate among them, as far as the list has room. */
void hr_collectives_begin(hr_hardware *hardware, const hr_validated_row *rows, size_t count, int64_t least);

/** All numbers of the table that the device has; at most HR_FITTED_FIGURES_MAX. Returns how many. */
size_t hr_parameters_list(const hr_hardware *hardware, hr_parameter parameters[HR_FITTED_FIGURES_MAX]);

double hr_parameter_get(const hr_hardware *hardware, const hr_parameter *parameter);

/** Sets the number, or the nearest that the device's other figures allow: shares of alignment never fall as bytes grow,
 *  the cache is no slower than main memory, the shortest kernel takes no longer than the shortest GEMM. `start` has the
 *  shortest kernel as it was. */
void hr_parameter_set(hr_hardware *hardware, const hr_hardware *start, const hr_parameter *parameter, double value);

/** The value a step away. */
double hr_parameter_step(const hr_parameter *parameter, double value, double step, bool up);

#endif

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

/** What a row measures, and which rows may determine a figure. */
enum {
  HR_ROWS_GEMMS = 1,
  HR_ROWS_ATTENTION = 2,
  HR_ROWS_DECODE = 4,
  HR_ROWS_LATENT = 8,
  HR_ROWS_EXPERTS = 16,
  HR_ROWS_SCANS = 512,
  HR_ROWS_COLLECTIVES = 1024,
  HR_ROWS_KERNELS = 31 | HR_ROWS_SCANS,
  HR_ROWS_ALL = HR_ROWS_KERNELS | HR_ROWS_COLLECTIVES,
  HR_ROWS_FRAMEWORKS = 32, /* attention of frameworks; of a figure: not without such rows */
  HR_ROWS_HEADROOM = 64,   /* attention or decode by Headroom's kernels */
  HR_ROWS_ON_CPU = 128,    /* of a figure: only on a CPU */
  HR_ROWS_WITH_GEMMS = 256 /* of a figure: not without GEMMs */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a device file and what each may be (figures.inc). */
#ifndef HR_HARDWARE_FIGURES_H
#define HR_HARDWARE_FIGURES_H

#include "hardware/hardware.h"

/** What figures of one meaning may be, so that every prediction is a positive finite time. */
typedef struct hr_figure_bounds {
  double least, most;
  const char *unit;
  const char *(*name)(int value); /* of an enumerator, "unknown" beyond the last; NULL: of numbers */
} hr_figure_bounds;

/** Where a device file has a figure. */
typedef enum hr_figure_place {
  HR_PLACE_ALONE,
  HR_PLACE_FORMATS, /* an object with a number for each format */
  HR_PLACE_OBJECT,  /* an object with a number for each member */
  HR_PLACE_LIST     /* each row of a list */
} hr_figure_place;

typedef struct hr_device_figure {
  const char *object; /* or list, that has it; NULL: the file itself */
  const char *field;
  hr_figure_place place;
  size_t offset;       /* in hr_hardware, of the first number */
  size_t stride;       /* to the number of the next row or format */
  size_t count_offset; /* of the size_t that counts a list's rows, */
  size_t most;         /* which are at most so many */
  bool integer;        /* an int64_t or an enumerator, otherwise a double */
  bool former;         /* a former name of a number that has a row of its own */
  bool own;            /* of the device itself: a file does not take it from the device that it is like */
  bool needed;         /* in its file, object or row */
  bool zero;           /* may be 0: not given, or none */
  double missing;      /* its value where a file does not have it */
  const hr_figure_bounds *bounds;
} hr_device_figure;

/** All rows of figures.inc. Those of an object or list are neighbours. */
const hr_device_figure *hr_device_figures(size_t *count);

/** How many numbers the device has of it: 1, one for each format, or one for each row. */
size_t hr_device_figure_numbers(const hr_hardware *hardware, const hr_device_figure *figure);

/** Sets how many rows the list of a figure has. */
void hr_device_figure_resize(hr_hardware *hardware, const hr_device_figure *figure, size_t rows);

/** Writes "row_share", "library_share.bf16", "tma.row_ns", "tiles[2].share". */
void hr_device_figure_name(const hr_device_figure *figure, size_t index, char *to, size_t size);

double hr_device_figure_get(const hr_hardware *hardware, const hr_device_figure *figure, size_t index);
void hr_device_figure_set(hr_hardware *hardware, const hr_device_figure *figure, size_t index, double value);

/** False for NaN, too. */
bool hr_device_figure_allows(const hr_device_figure *figure, double value);

/** HR_ERROR_INVALID for a list that is longer than its array, or the first number that its bounds exclude, with its
 *  name, value and bounds. */
hr_status hr_device_figures_check(const hr_hardware *hardware, hr_error *error);

#endif

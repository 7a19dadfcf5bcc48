/* SPDX-License-Identifier: Apache-2.0 */
/* Figures: what a picture shows, and the gnuplot script that draws it.
 *
 * The hr_figure_of_…() functions of headroom/plot.h make figures. Thread safety: an hr_figure is immutable once
 * made. */
#ifndef HEADROOM_EXPERIMENTAL_FIGURE_H
#define HEADROOM_EXPERIMENTAL_FIGURE_H

#include <headroom/status.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Title, axes, series of points with intervals, published points, bands and marks. */
typedef struct hr_figure hr_figure;

/** Frees a figure; NULL is allowed. */
HR_API void hr_figure_free(hr_figure *figure);

/** Series of a figure: lines, or parts of bars. */
HR_API size_t hr_figure_series_count(const hr_figure *figure);

/** Points of all series of a figure together; without any there is nothing to draw. */
HR_API size_t hr_figure_point_count(const hr_figure *figure);

typedef enum hr_picture {
  HR_PICTURE_TEXT, /* characters for a terminal */
  HR_PICTURE_SVG,
  HR_PICTURE_PNG, /* 300 dots per inch */
  HR_PICTURE_PDF
} hr_picture;

/** Reads the picture's kind from the end of a path: ".svg", ".png", ".pdf" or ".txt", ignoring case. HR_ERROR_NOT_FOUND
 *  for any other; *picture is then untouched. */
HR_API hr_status hr_picture_of_path(const char *path, hr_picture *picture);

typedef struct hr_figure_options {
  size_t struct_size; /* sizeof(hr_figure_options), set by hr_figure_options_default() */
  hr_picture picture;
  bool single;       /* as wide as one column of a paper with two, 3.5 inches; otherwise as both, 7 inches */
  int columns, rows; /* of HR_PICTURE_TEXT, in characters */
} hr_figure_options;

/** Text of 100 columns and 30 rows; pictures two columns wide. */
HR_API void hr_figure_options_init(hr_figure_options *options, size_t size);
HR_DEFAULT(hr_figure_options)

/** Writes a script for gnuplot 5.2 or newer that draws the figure to gnuplot's standard output. The script reads no
 *  file and runs no command: every text in it is in single quotes, in which gnuplot substitutes nothing, and has no
 *  control characters. The series differ by dash and marker as well as by colour; the colours are those of Okabe and
 *  Ito, which the colour-blind can tell apart. HR_ERROR_OUTPUT if the stream fails, HR_ERROR_INVALID for a figure
 *  without points or options of another version. */
HR_API hr_status hr_figure_write_gnuplot(FILE *out, const hr_figure_options *options, const hr_figure *figure,
                                         hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

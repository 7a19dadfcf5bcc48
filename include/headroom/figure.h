/* SPDX-License-Identifier: Apache-2.0 */
/* Figures: what a picture shows.
 *
 * Thread safety: an hr_figure is immutable once made. */
#ifndef HEADROOM_FIGURE_H
#define HEADROOM_FIGURE_H

#include <headroom/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Title, axes, series of points with intervals, published points, bands and marks. */
typedef struct hr_figure hr_figure;

/** Frees a figure; NULL is allowed. */
HR_API void hr_figure_free(hr_figure *figure);

/** How many series and points it has. A figure without points has nothing to draw. */
HR_API size_t hr_figure_series_count(const hr_figure *figure);
HR_API size_t hr_figure_point_count(const hr_figure *figure); /* see hr_figure_series_count() */

typedef enum hr_picture {
  HR_PICTURE_TEXT, /* characters for a terminal */
  HR_PICTURE_SVG,
  HR_PICTURE_PNG, /* 300 dots per inch */
  HR_PICTURE_PDF
} hr_picture;

/** Reads the picture's kind from the end of a path: ".svg", ".png", ".pdf" or ".txt", ignoring case. HR_ERROR_NOT_FOUND
 *  for any other; *picture is then untouched. */
HR_API hr_status hr_picture_of_path(const char *path, hr_picture *picture);

#ifdef __cplusplus
}
#endif
#endif

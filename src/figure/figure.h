/* SPDX-License-Identifier: Apache-2.0 */
/* What a picture shows, independent of the program that draws it: gnuplot scripts and HTML pages are made from it.
 *
 * All texts have passed hr_copy_text(): they are UTF-8 without control characters. They are not escaped for any
 * language; each writer does that. */
#ifndef HR_FIGURE_FIGURE_H
#define HR_FIGURE_FIGURE_H

#include "figure/name_index.h"

#include <headroom/experimental/figure.h>
#include <stdbool.h>
#include <stdint.h>

#define HR_FIGURE_TEXT 192
#define HR_FIGURE_NONE SIZE_MAX

typedef enum hr_figure_scale {
  HR_FIGURE_SCALE_LINEAR,
  HR_FIGURE_SCALE_LOG2,
  HR_FIGURE_SCALE_LOG10,
  HR_FIGURE_SCALE_NAMES /* values are indices of names, from 0 */
} hr_figure_scale;

typedef struct hr_figure_axis {
  char label[HR_FIGURE_TEXT]; /* with the unit */
  hr_figure_scale scale;
  bool from_zero; /* a linear axis begins at 0 */
  double most;    /* where the axis ends; NAN: after the last point */
  char (*names)[HR_FIGURE_TEXT];
  size_t name_count, name_capacity;
  hr_name_index index; /* of names */
} hr_figure_axis;

typedef enum hr_figure_form {
  HR_FIGURE_LINES,   /* lines and points over x */
  HR_FIGURE_BARS,    /* a group of bars for each name of the x axis, a bar of it for each series */
  HR_FIGURE_STACKS,  /* a bar for each name of the x axis, a part of it for each series */
  HR_FIGURE_HEATMAP, /* a row for each series, a column for each name of the x axis; y is the value of a field */
  HR_FIGURE_BOXES /* a box for each point, around x and y, from low to high and as high as all; the first row on top */
} hr_figure_form;

typedef enum hr_figure_mark {
  HR_FIGURE_MARK_LINE,       /* through the points, with markers */
  HR_FIGURE_MARK_PLAIN_LINE, /* through the points, without markers */
  HR_FIGURE_MARK_POINTS,     /* markers alone */
  HR_FIGURE_MARK_BAND        /* the area between low and high */
} hr_figure_mark;

/** Where the numbers of a series come from. */
typedef enum hr_figure_origin {
  HR_FIGURE_MEASURED,
  HR_FIGURE_PREDICTED,
  HR_FIGURE_EXACT,    /* published as numbers */
  HR_FIGURE_READ_OFF, /* read off a published picture */
  HR_FIGURE_BOUND     /* a limit, such as a roof, or a fit */
} hr_figure_origin;

/** "measured", "predicted", "published", "read off", "bound". Static storage. */
const char *hr_figure_origin_name(hr_figure_origin origin);

typedef struct hr_figure_point {
  double x, y;      /* y NAN: there is no value, and status says why */
  double low, high; /* the interval of y; NAN: not known */
  hr_status status; /* HR_ERROR_NOISY has a value, others than HR_OK have none. HR_ERROR_NOT_FOUND: not run */
  char label[64];   /* beside the point; "" for most */
} hr_figure_point;

typedef struct hr_figure_series {
  char name[HR_FIGURE_TEXT]; /* first: hr_name_index */
  hr_figure_mark mark;
  hr_figure_origin origin;
  size_t style;  /* series of one style have one colour and marker, as a line and its band */
  size_t colour; /* series of one colour are the same in other formats, or on other devices; a style has one */
  hr_figure_point *points;
  size_t count, capacity;
} hr_figure_series;

/** A straight line across the picture, such as a break-even. */
typedef struct hr_figure_rule {
  bool vertical; /* at this x, else at this y */
  double at;
  char label[HR_FIGURE_TEXT];
} hr_figure_rule;

struct hr_figure {
  char title[HR_FIGURE_TEXT];
  char source[HR_FIGURE_TEXT]; /* of the original figure; "": none */
  char note[512];              /* below the picture: devices, dates, what was left out */
  hr_figure_form form;
  hr_figure_axis x, y; /* of a heatmap, y.label names what the colours mean */
  hr_figure_series *series;
  size_t series_count, series_capacity;
  size_t style_count, colour_count; /* of all series but the last, which may still take another's */
  bool labels_hidden;  /* labels of points would cover one another: a page shows the one under the pointer */
  hr_name_index index; /* of series, by the names that they were added with */
  double box_height;   /* of HR_FIGURE_BOXES */
  hr_figure_rule *rules;
  size_t rule_count;
  bool out_of_memory; /* an addition has failed; hr_figure_end() reports it */
};

/** A figure of lines over linear axes, y from 0. NULL if memory ran out. The caller frees it with hr_figure_free(). */
hr_figure *hr_figure_new(void);

/** A point with a value and without an interval. */
hr_figure_point hr_figure_value(double x, double y);

/** Whether a point has a value that says less than others: other programs had the machine, or samples are few. */
bool hr_figure_is_noisy(const hr_figure_point *point);

/** Adds a series and returns its index; its style and colour are new ones. Where memory runs out this and the functions
 *  below do nothing but note it, and return HR_FIGURE_NONE, which they accept as an index. */
size_t hr_figure_add_series(hr_figure *figure, const char *name, hr_figure_mark mark, hr_figure_origin origin);

/** The index of the series of this name; adds one if there is none. */
size_t hr_figure_series_named(hr_figure *figure, const char *name, hr_figure_mark mark, hr_figure_origin origin);

/** Gives a series the style of another, and its colour. */
void hr_figure_share_style(hr_figure *figure, size_t series, size_t other);

/** Gives a series the colour of another; its dash and marker stay its own. */
void hr_figure_share_colour(hr_figure *figure, size_t series, size_t other);

/** Adds a point to a series. */
void hr_figure_add_point(hr_figure *figure, size_t series, hr_figure_point point);

/** The index of a name of an axis; adds it if the axis lacks it. */
size_t hr_figure_name(hr_figure *figure, hr_figure_axis *axis, const char *name);

/** Adds a rule. */
void hr_figure_add_rule(hr_figure *figure, bool vertical, double at, const char *label);

/** Sorts the points of each line by x. HR_ERROR_OUT_OF_MEMORY if an addition failed; then the figure is freed, and
 *  otherwise it is *result. */
hr_status hr_figure_end(hr_figure *figure, hr_figure **result, hr_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a gnuplot script, shared by the files that write it. */
#ifndef HR_FIGURE_GNUPLOT_H
#define HR_FIGURE_GNUPLOT_H

#include "figure/figure.h"

/** Writes text and numbers in the C locale. */
void hr_gnuplot_put(FILE *out, const char *format, ...) HR_PRINTF(2, 3);

/** Writes a text as a string in single quotes, in which gnuplot substitutes nothing. */
void hr_gnuplot_quote(FILE *out, const char *text);

/** The same for the label of a tic mark, in which gnuplot replaces what begins with %, in lines as below. */
void hr_gnuplot_quote_tic(FILE *out, const char *text, size_t columns);

/** The same in lines of at most `columns` characters, broken at spaces. */
void hr_gnuplot_quote_lines(FILE *out, const char *text, size_t columns);

/** How many lines these are; at least 1. */
size_t hr_gnuplot_line_count(const char *text, size_t columns);

/** Writes a number; NaN where it is none. */
void hr_gnuplot_number(FILE *out, double number);

/** The colour of this number: "#0072B2". */
const char *hr_gnuplot_colour(size_t colour);

/** The marker of a style and an origin: filled, or hollow where the numbers were read off a picture. */
int hr_gnuplot_marker(size_t style, hr_figure_origin origin);

#define HR_GNUPLOT_RULE "#606060"      /* the colour of rules */
#define HR_GNUPLOT_NEXT_RULE "#616161" /* and of every second one */

#define HR_GNUPLOT_ROW_COLUMNS 18 /* characters of a line of the name of a heatmap's row, in one column of a paper */

/** The dash of a rule: rules with labels differ. */
size_t hr_gnuplot_rule_dash(const hr_figure *figure, size_t index);

#define HR_GNUPLOT_WHY_SIZE 96

/** The legend's text for points without a value: "no value: out of memory, not run". False if all have one. */
bool hr_gnuplot_absent(const hr_figure *figure, char text[HR_GNUPLOT_WHY_SIZE]);

/** Whether a series has a noisy point, which is drawn hollow, or with a tilde in a heatmap. */
bool hr_gnuplot_has_noisy(const hr_figure_series *series);

/** What the legend calls the noisy bars of a series, or parts of bars. */
void hr_gnuplot_noisy_name(const hr_figure_series *series, char *name, size_t size);

/** Whether a series of the figure has a noisy point, which the legend names. */
bool hr_gnuplot_noisy(const hr_figure *figure);

/** The commands that a figure of this form needs before `plot`, and the list of `plot`. */
void hr_gnuplot_lines(FILE *out, const hr_figure_options *options, const hr_figure *figure);
void hr_gnuplot_bars(FILE *out, const hr_figure_options *options, const hr_figure *figure);    /* see above */
void hr_gnuplot_stacks(FILE *out, const hr_figure_options *options, const hr_figure *figure);  /* see above */
void hr_gnuplot_boxes(FILE *out, const hr_figure_options *options, const hr_figure *figure);   /* see above */
void hr_gnuplot_heatmap(FILE *out, const hr_figure_options *options, const hr_figure *figure); /* see above */

#endif

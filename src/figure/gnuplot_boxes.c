/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes of a gnuplot script: parts of a whole at their places, the first row at the top. */
#include "figure/gnuplot.h"

#include <ctype.h>
#include <math.h>

#define ROW_MARGIN 18.0 /* characters beside the names of rows */

/* Shades that differ in print, too. */
static void put_fill(FILE *out, const hr_figure_series *series)
{
  static const char *const shades[] = {"0.85", "0.5", "0.2"};
  hr_gnuplot_put(out, " fs solid %s border lc rgb '#303030' fc rgb '%s' title ", shades[series->style % 3],
                 hr_gnuplot_colour(series->colour));
  hr_gnuplot_quote(out, series->name);
}

/* $s0, $s1 … are the series: x y left right bottom top. */
static void put_data(FILE *out, const hr_figure *figure)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    hr_gnuplot_put(out, "$s%zu << END\n", i);
    for (size_t j = 0; j < figure->series[i].count; j++) {
      const hr_figure_point *point = &figure->series[i].points[j];
      const double columns[] = {point->x,
                                point->y,
                                point->low,
                                point->high,
                                point->y - figure->box_height / 2,
                                point->y + figure->box_height / 2};
      for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
        hr_gnuplot_number(out, columns[k]);
      fputc('\n', out);
    }
    fputs("END\n", out);
  }
}

/* The right and the lower end of all boxes. */
static void find_ends(const hr_figure *figure, double *right, double *bottom)
{
  *right = *bottom = 0;
  for (size_t i = 0; i < figure->series_count; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      *right = fmax(*right, figure->series[i].points[j].high);
      *bottom = fmax(*bottom, figure->series[i].points[j].y + figure->box_height / 2);
    }
  }
}

static void put_ranges(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  double right, bottom;
  find_ends(figure, &right, &bottom);
  hr_gnuplot_put(out, "set xrange [0:%.9g]\nset grid noxtics noytics\n", right);
  if (figure->y.scale != HR_FIGURE_SCALE_NAMES) {
    hr_gnuplot_put(out, "set yrange [%.9g:0]\n", bottom);
    return;
  }
  hr_gnuplot_put(out, "set yrange [%.9g:-0.6]\n", (double)figure->y.name_count - 0.4);
  if (options->picture != HR_PICTURE_TEXT)
    hr_gnuplot_put(out, "set lmargin %.1f\n", ROW_MARGIN);
}

/* What stands in the middle of each box in text. */
static char letter(const hr_figure_series *series)
{
  return isalnum((unsigned char)series->name[0]) ? series->name[0] : '#';
}

void hr_gnuplot_boxes(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  put_data(out, figure);
  put_ranges(out, options, figure);
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    hr_gnuplot_put(out, "%s$s%zu using ", i > 0 ? ", " : "plot ", i);
    if (options->picture != HR_PICTURE_TEXT) {
      fputs("1:2:3:4:5:6 with boxxyerror", out);
      put_fill(out, series);
      continue;
    }
    hr_gnuplot_put(out, "1:2 with points pt '%c' title ", letter(series));
    hr_gnuplot_quote(out, series->name);
  }
}

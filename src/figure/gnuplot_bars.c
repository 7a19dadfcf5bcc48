/* SPDX-License-Identifier: Apache-2.0 */
/* The bars, stacks and heatmaps of a gnuplot script. Bars are boxes with given corners. */
#include "figure/gnuplot.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

#define GROUP_WIDTH 0.8
#define LABEL_COLUMNS 9
#define WIDE_CELLS 5          /* columns of a heatmap; more have no width for words of that size */
#define STACK_LABEL_MIN 0.035 /* of the height: a part that is smaller has no room for its number */

/* Fills that differ without colour: solid, patterns, and solid but faint. */
static void put_fill(FILE *out, const hr_figure_series *series)
{
  static const int patterns[] = {3, 4, 2, 5, 1, 6, 7};
  size_t turn = series->style % 8;
  if (turn == 0 || turn == 7)
    hr_gnuplot_put(out, " fs solid %s border lc rgb '#303030'", turn == 0 ? "0.85" : "0.3");
  else
    hr_gnuplot_put(out, " fs pattern %d border lc rgb '#303030'", patterns[turn]);
  hr_gnuplot_put(out, " fc rgb '%s' title ", hr_gnuplot_colour(series->colour));
  hr_gnuplot_quote(out, series->name);
}

typedef struct box {
  double left, right, bottom, top;
} box;

/* Where a point of a series is drawn. */
typedef box (*place)(const hr_figure *figure, size_t series, const hr_figure_point *point);

/* x left right bottom top */
static void put_box(FILE *out, box corners)
{
  hr_gnuplot_number(out, (corners.left + corners.right) / 2);
  hr_gnuplot_number(out, corners.left);
  hr_gnuplot_number(out, corners.right);
  hr_gnuplot_number(out, corners.bottom);
  hr_gnuplot_number(out, corners.top);
  fputc('\n', out);
}

static void put_boxes_of(FILE *out, const hr_figure *figure, size_t index, place place_of, bool noisy)
{
  const hr_figure_series *series = &figure->series[index];
  hr_gnuplot_put(out, "$%c%zu << END\n", noisy ? 'n' : 's', index);
  for (size_t j = 0; j < series->count; j++) {
    if (!isnan(series->points[j].y) && hr_figure_is_noisy(&series->points[j]) == noisy)
      put_box(out, place_of(figure, index, &series->points[j]));
  }
  fputs("END\n", out);
}

/* $s0, $s1 … are the filled boxes of the series, $n0, $n1 … the hollow ones, which are noisy. */
static void put_boxes(FILE *out, const hr_figure *figure, size_t index, place place_of)
{
  put_boxes_of(out, figure, index, place_of, false);
  if (hr_gnuplot_has_noisy(&figure->series[index]))
    put_boxes_of(out, figure, index, place_of, true);
}

/* A series may have no filled box, so that each has an entry in the legend. */
static void put_noisy(FILE *out, const hr_figure *figure)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    char name[HR_FIGURE_TEXT + 16];
    if (!hr_gnuplot_has_noisy(series))
      continue;
    hr_gnuplot_noisy_name(series, name, sizeof name);
    hr_gnuplot_put(out, ", $n%zu using 1:4:2:3:4:5 with boxxyerror fs empty lw 2 lc rgb '%s' title ", i,
                   hr_gnuplot_colour(series->colour));
    hr_gnuplot_quote(out, name);
  }
}

static void put_label(FILE *out, const char *text, double x, double y, const char *offset)
{
  fputs("set label ", out);
  hr_gnuplot_quote_lines(out, text, LABEL_COLUMNS);
  hr_gnuplot_put(out, " at first %.9g, first %.9g center offset %s front font ',7'\n", x, y, offset);
}

/* The value whose colour is just dark enough for white numbers, on the logarithmic scale of colours. */
static double middle_of(const hr_figure *figure)
{
  double least = (double)INFINITY, most = 0;
  for (size_t i = 0; i < figure->series_count; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      double value = figure->series[i].points[j].y;
      least = value > 0 ? fmin(least, value) : least;
      most = value > 0 ? fmax(most, value) : most;
    }
  }
  return most > least ? least * pow(most / least, 0.55) : least;
}

/* Points, or pixels, of the letters of a cell. */
static int cell_font(const hr_figure_options *options, const hr_figure *figure, bool words)
{
  bool narrow = figure->x.name_count > WIDE_CELLS;
  if (!words)
    return 8 - options->single - (options->single && narrow);
  return (options->picture == HR_PICTURE_SVG ? 6 : 5) - (options->single || narrow);
}

/* Words are smaller than numbers, and in one line, as a cell is not higher; in one column of a paper not wider. The
 * dark half of the colours has white numbers. A noisy number has a tilde, which the legend names. */
static void put_cell_label(FILE *out, const hr_figure_options *options, const hr_figure *figure,
                           const hr_figure_point *point, double y)
{
  bool words = isnan(point->y), dark = !words && point->y > middle_of(figure);
  char text[sizeof point->label + 1];
  hr_write_text(text, sizeof text, "%s%s", hr_figure_is_noisy(point) ? "~" : "", point->label);
  fputs("set label ", out);
  hr_gnuplot_quote_lines(out, text, options->single ? LABEL_COLUMNS : sizeof text);
  hr_gnuplot_put(out, " at first %.9g, first %.9g center front tc rgb '%s' font ',%d'\n", point->x, y,
                 dark    ? "#FFFFFF"
                 : words ? "#404040"
                         : "#000000",
                 cell_font(options, figure, words));
}

/* gnuplot takes every character of an SVG for as wide as the widest, and would leave half of the picture empty beside
 * the names of rows. */
static void put_margin(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  size_t longest = 0;
  for (size_t i = 0; i < figure->y.name_count; i++) {
    size_t length = strlen(figure->y.names[i]);
    longest = length > longest ? length : longest;
  }
  size_t line = longest < HR_GNUPLOT_ROW_COLUMNS ? longest : HR_GNUPLOT_ROW_COLUMNS;
  if (options->picture == HR_PICTURE_SVG)
    hr_gnuplot_put(out, "set lmargin %.1f\n", options->single ? 0.6 * (double)line + 4 : 0.78 * (double)longest + 3);
}

static void put_plot(FILE *out, const hr_figure *figure, bool intervals)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    hr_gnuplot_put(out, "%s$s%zu using 1:4:2:3:4:5 with boxxyerror", i > 0 ? ", " : "plot ", i);
    put_fill(out, &figure->series[i]);
    if (intervals)
      hr_gnuplot_put(out, ", $i%zu using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '#000000' notitle", i);
  }
}

/* ---- bars ---- */

static void put_interval(FILE *out, const hr_figure_point *point, double x)
{
  hr_gnuplot_number(out, x);
  hr_gnuplot_number(out, point->y);
  hr_gnuplot_number(out, point->low);
  hr_gnuplot_number(out, point->high);
  fputc('\n', out);
}

/* Where the bar of a series begins in the group of a name. */
static double bar_left(const hr_figure *figure, size_t series, double x)
{
  double width = GROUP_WIDTH / (double)figure->series_count;
  return x - GROUP_WIDTH / 2 + width * (double)series;
}

static void put_bar_labels(FILE *out, const hr_figure *figure, double width)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      const hr_figure_point *point = &figure->series[i].points[j];
      double x = bar_left(figure, i, point->x) + width / 2, top = fmax(point->y, isnan(point->high) ? 0 : point->high);
      if (isnan(point->y))
        put_label(out, "-", x, 0, "0,0.5");
      else if (point->label[0])
        put_label(out, point->label, x, top, "0,0.5");
    }
  }
}

static box place_of_bar(const hr_figure *figure, size_t series, const hr_figure_point *point)
{
  double left = bar_left(figure, series, point->x), width = GROUP_WIDTH / (double)figure->series_count;
  return (box){left, left + width * 0.95, 0, point->y};
}

void hr_gnuplot_bars(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  (void)options;
  double width = GROUP_WIDTH / (double)figure->series_count;
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    put_boxes(out, figure, i, place_of_bar);
    hr_gnuplot_put(out, "$i%zu << END\n", i);
    for (size_t j = 0; j < series->count; j++)
      put_interval(out, &series->points[j], bar_left(figure, i, series->points[j].x) + width / 2);
    fputs("END\n", out);
  }
  put_bar_labels(out, figure, width);
  put_plot(out, figure, true);
  put_noisy(out, figure);
  char absent[HR_GNUPLOT_WHY_SIZE];
  if (hr_gnuplot_absent(figure, absent)) /* a bar without a value is a dash */
    hr_gnuplot_put(out, ", NaN with points pt '-' lc rgb '#000000' title '%s'", absent);
}

/* ---- stacks ---- */

/* Where the part of a series begins in the stack at x: on the parts of the series before it. */
static double stack_bottom(const hr_figure *figure, size_t before, double x)
{
  double sum = 0;
  for (size_t i = 0; i < before; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      const hr_figure_point *point = &figure->series[i].points[j];
      sum += point->x == x && !isnan(point->y) ? point->y : 0;
    }
  }
  return sum;
}

static box place_of_part(const hr_figure *figure, size_t series, const hr_figure_point *point)
{
  double bottom = stack_bottom(figure, series, point->x);
  return (box){point->x - 0.35, point->x + 0.35, bottom, bottom + point->y};
}

void hr_gnuplot_stacks(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  double height = 0;
  for (size_t i = 0; i < figure->x.name_count; i++)
    height = fmax(height, stack_bottom(figure, figure->series_count, (double)i));
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    put_boxes(out, figure, i, place_of_part);
    for (size_t j = 0; j < series->count; j++) {
      const hr_figure_point *point = &series->points[j];
      if (point->y >= STACK_LABEL_MIN * height && point->label[0] && options->picture != HR_PICTURE_TEXT)
        put_label(out, point->label, point->x, stack_bottom(figure, i, point->x) + point->y / 2, "0,0 boxed");
    }
  }
  fputs("set style textbox opaque noborder margins 0.3,0.3\n", out);
  put_plot(out, figure, false);
  put_noisy(out, figure);
}

/* ---- heatmaps ---- */

/* Columns 1 to 5 are a box, 6 the value. */
void hr_gnuplot_heatmap(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  if (options->single ||
      options->picture ==
          HR_PICTURE_TEXT) { /* the names leave no width for the scale of colours; each cell has its number */
    fputs("unset colorbox\n", out);
    hr_gnuplot_put(out, "set tics font ',%d'\n", options->picture == HR_PICTURE_SVG ? 8 : 6); /* pixels, else points */
  }
  put_margin(out, options, figure);
  fputs("set tics scale 0\n", out); /* marks would be over the words of cells */
  fputs("set palette defined (0 '#FFEA46', 0.5 '#7C7B78', 1 '#00204C')\nset logscale cb 10\nset grid noxtics noytics\n",
        out);
  fputs("set cblabel ", out);
  hr_gnuplot_quote(out, figure->y.label);
  fputs("\n$cells << END\n", out);
  for (size_t i = 0; i < figure->series_count; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      const hr_figure_point *point = &figure->series[i].points[j];
      if (isnan(point->y))
        continue;
      hr_gnuplot_number(out, point->x);
      hr_gnuplot_number(out, (double)i);
      hr_gnuplot_number(out, point->y);
      fputc('\n', out);
    }
  }
  fputs("END\n", out);
  for (size_t i = 0; i < figure->series_count; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      if (figure->series[i].points[j].label[0])
        put_cell_label(out, options, figure, &figure->series[i].points[j], (double)i);
    }
  }
  fputs("plot $cells using 1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5):3 with boxxyerror fs solid lc palette notitle", out);
  if (hr_gnuplot_noisy(figure))
    fputs(", NaN with points pt '~' lc rgb '#000000' title 'noisy'", out);
}

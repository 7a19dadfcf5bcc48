/* SPDX-License-Identifier: Apache-2.0 */
/* The lines, points and bands of a gnuplot script. */
#include "figure/gnuplot.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

bool hr_gnuplot_has_noisy(const hr_figure_series *series)
{
  size_t first = 0;
  while (first < series->count && !hr_figure_is_noisy(&series->points[first]))
    first++;
  return first < series->count && series->mark != HR_FIGURE_MARK_BAND;
}

bool hr_gnuplot_noisy(const hr_figure *figure)
{
  size_t first = 0;
  while (first < figure->series_count && !hr_gnuplot_has_noisy(&figure->series[first]))
    first++;
  return first < figure->series_count;
}

/* $s0, $s1 … are the series: x y low high, and 1 where the value is noisy. */
static void put_data(FILE *out, const hr_figure *figure)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    hr_gnuplot_put(out, "$s%zu << END\n", i);
    for (size_t j = 0; j < series->count; j++) {
      const hr_figure_point *point = &series->points[j];
      hr_gnuplot_number(out, point->x);
      hr_gnuplot_number(out, point->y);
      hr_gnuplot_number(out, point->low);
      hr_gnuplot_number(out, point->high);
      fputs(hr_figure_is_noisy(point) ? " 1\n" : " 0\n", out);
    }
    fputs("END\n", out);
  }
}

/* What a point without a value stands for. */
static const char *absence(hr_status status)
{
  switch (status) {
  case HR_ERROR_OUT_OF_MEMORY: return "out of memory";
  case HR_ERROR_NOT_FOUND: return "not run";
  case HR_ERROR_TIMEOUT: return "timeout";
  default: return "not supported";
  }
}

/* Points without a value are crosses at the lower edge, whose statuses the legend names once each. */
static const char *cross_type(bool text)
{
  return text ? "24" /* X */ : "2";
}

static void put_absent(FILE *out, const hr_figure *figure, bool text)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    for (size_t j = 0; j < series->count; j++) {
      if (!isnan(series->points[j].y))
        continue;
      hr_gnuplot_put(out, "set label '' at first %.9g, graph 0.02 point pt %s ps 0.7 lc rgb '%s' front\n",
                     series->points[j].x, cross_type(text), hr_gnuplot_colour(series->colour));
    }
  }
}

bool hr_gnuplot_absent(const hr_figure *figure, char text[HR_GNUPLOT_WHY_SIZE])
{
  static const hr_status statuses[] = {HR_ERROR_OUT_OF_MEMORY, HR_ERROR_NOT_FOUND, HR_ERROR_TIMEOUT,
                                       HR_ERROR_UNSUPPORTED};
  bool found[4] = {false}, any = false;
  for (size_t i = 0; i < figure->series_count; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      const hr_figure_point *point = &figure->series[i].points[j];
      for (size_t k = 0; isnan(point->y) && k < 4; k++)
        found[k] = found[k] || point->status == statuses[k];
    }
  }
  for (size_t k = 0; k < 4; k++) {
    size_t used = any ? strlen(text) : 0;
    if (found[k])
      hr_write_text(text + used, HR_GNUPLOT_WHY_SIZE - used, "%s%s", any ? ", " : "no value: ", absence(statuses[k]));
    any = any || found[k];
  }
  return any;
}

size_t hr_gnuplot_rule_dash(const hr_figure *figure, size_t index)
{
  size_t labelled = 0;
  for (size_t i = 0; i < index; i++)
    labelled += figure->rules[i].label[0] != '\0';
  return figure->rules[index].label[0] ? 2 + labelled % 4 : 2;
}

/* Noisy points are hollow, in text a tilde, over the marker of their series. */
static void put_noisy(FILE *out, const hr_figure *figure, bool text)
{
  bool any = false;
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    if (!hr_gnuplot_has_noisy(series))
      continue;
    const char *title = any ? "notitle" : "title 'noisy'";
    any = true;
    hr_gnuplot_put(out, ", $s%zu using ($5 == 1 ? $1 : NaN):2 with points ", i);
    if (text) {
      hr_gnuplot_put(out, "pt '~' %s", title);
      continue;
    }
    hr_gnuplot_put(out, "pt %d ps 0.6 lc rgb '#FFFFFF' notitle", hr_gnuplot_marker(series->style, HR_FIGURE_MEASURED));
    hr_gnuplot_put(out, ", $s%zu using ($5 == 1 ? $1 : NaN):2 with points pt %d ps 0.6 lc rgb '%s' %s", i,
                   hr_gnuplot_marker(series->style, HR_FIGURE_READ_OFF), hr_gnuplot_colour(series->colour), title);
  }
}

/* These are no series: the rules that have a label, and points without a value. */
static void put_other_entries(FILE *out, const hr_figure *figure, bool text)
{
  char absent[HR_GNUPLOT_WHY_SIZE];
  for (size_t i = 0; i < figure->rule_count; i++) {
    if (!figure->rules[i].label[0])
      continue;
    if (text)
      fputs(", NaN with points pt '-' title ", out);
    else
      hr_gnuplot_put(out, ", NaN with lines lw 1 dt %zu lc rgb '%s' title ", hr_gnuplot_rule_dash(figure, i),
                     HR_GNUPLOT_RULE);
    hr_gnuplot_quote(out, figure->rules[i].label);
  }
  if (hr_gnuplot_absent(figure, absent))
    hr_gnuplot_put(out, ", NaN with points pt %s ps 0.7 lc rgb '#404040' title '%s'", cross_type(text), absent);
}

static void put_title(FILE *out, const hr_figure_series *series)
{
  fputs(" title ", out);
  hr_gnuplot_quote(out, series->name);
}

static bool is_published(const hr_figure_series *series)
{
  return series->origin == HR_FIGURE_EXACT || series->origin == HR_FIGURE_READ_OFF;
}

/* In text a style is a letter, which is small for published points: they share the style of measured ones. */
static char letter_of(const hr_figure_series *series)
{
  return (char)((is_published(series) ? 'a' : 'A') + (int)(series->style % 26));
}

static bool has_value(const hr_figure_series *series)
{
  size_t first = 0;
  while (first < series->count && isnan(series->points[first].y))
    first++;
  return first < series->count;
}

/* gnuplot 5.4 crashes in a legend where a letter marks a series without a value. */
static void put_letter(FILE *out, const hr_figure_series *series)
{
  if (has_value(series))
    hr_gnuplot_put(out, "points pt '%c'", letter_of(series));
  else
    hr_gnuplot_put(out, "points pt %s", cross_type(true));
}

/* Dashes and markers change with the style, so that lines differ without colour. */
static void put_line(FILE *out, size_t index, const hr_figure_series *series, bool text)
{
  const char *colour = hr_gnuplot_colour(series->colour);
  int marker = hr_gnuplot_marker(series->style, series->origin);
  hr_gnuplot_put(out, "$s%zu using 1:2 with ", index);
  if (text && series->mark != HR_FIGURE_MARK_PLAIN_LINE)
    put_letter(out, series);
  else if (series->mark == HR_FIGURE_MARK_POINTS)
    hr_gnuplot_put(out, "points pt %d ps %s lc rgb '%s'", marker, is_published(series) ? "1.1" : "0.6", colour);
  else if (series->mark == HR_FIGURE_MARK_PLAIN_LINE)
    hr_gnuplot_put(out, "lines lw 1.3 dt %zu lc rgb '%s'", series->style % 5 + 1, colour);
  else
    hr_gnuplot_put(out, "linespoints pt %d ps 0.4 lw 1.1 dt %zu lc rgb '%s'", marker, series->style % 5 + 1, colour);
  put_title(out, series);
}

static void put_intervals(FILE *out, size_t index, const hr_figure_series *series, const char **separator)
{
  bool any = false;
  for (size_t i = 0; i < series->count && !any; i++)
    any = !isnan(series->points[i].low) && !isnan(series->points[i].y);
  if (any)
    hr_gnuplot_put(out, "%s$s%zu using 1:3:(0):($4-$3) with vectors nohead lw 0.7 lc rgb '%s' notitle", *separator,
                   index, hr_gnuplot_colour(series->colour));
  *separator = any ? ", " : *separator;
}

static void put_labels(FILE *out, const hr_figure *figure, bool text)
{
  for (size_t i = 0; i < figure->series_count && !figure->labels_hidden; i++) {
    for (size_t j = 0; j < figure->series[i].count; j++) {
      const hr_figure_point *point = &figure->series[i].points[j];
      if (!point->label[0] || isnan(point->y))
        continue;
      fputs("set label ", out);
      hr_gnuplot_quote(out, point->label);
      hr_gnuplot_put(out, " at first %.9g, first %.9g offset %s front\n", point->x, point->y,
                     text ? "2,0" : "0.7,0.4"); /* in text a label above would be the next line's */
    }
  }
}

/* Bands first, so that lines and points are drawn over them. */
static void put_bands(FILE *out, const hr_figure *figure, const char **separator)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    if (series->mark != HR_FIGURE_MARK_BAND)
      continue;
    hr_gnuplot_put(out, "%s$s%zu using 1:3:4 with filledcurves fs transparent solid 0.22 noborder lc rgb '%s'",
                   *separator, i, hr_gnuplot_colour(series->colour));
    put_title(out, series);
    hr_gnuplot_put(out, ", $s%zu using 1:2 with lines lw 0.8 dt 3 lc rgb '%s' notitle", i,
                   hr_gnuplot_colour(series->colour)); /* the value itself: bands may cover one another */
    *separator = ", ";
  }
}

/* In text a band is its values, as small dots that leave room for the letters of points. */
static void put_dots(FILE *out, const hr_figure *figure, const char **separator)
{
  for (size_t i = 0; i < figure->series_count; i++) {
    if (figure->series[i].mark != HR_FIGURE_MARK_BAND)
      continue;
    hr_gnuplot_put(out, "%s$s%zu using 1:2 with points pt '.'", *separator, i);
    put_title(out, &figure->series[i]);
    *separator = ", ";
  }
}

void hr_gnuplot_lines(FILE *out, const hr_figure_options *options, const hr_figure *figure)
{
  const char *separator = "plot ";
  bool text = options->picture == HR_PICTURE_TEXT;
  put_data(out, figure);
  put_absent(out, figure, text);
  put_labels(out, figure, text);
  if (text)
    put_dots(out, figure, &separator);
  else
    put_bands(out, figure, &separator);
  for (size_t i = 0; i < figure->series_count; i++) {
    const hr_figure_series *series = &figure->series[i];
    if (series->mark == HR_FIGURE_MARK_BAND)
      continue;
    if (!text)
      put_intervals(out, i, series, &separator);
    fputs(separator, out);
    separator = ", ";
    put_line(out, i, series, text);
  }
  put_noisy(out, figure, text);
  put_other_entries(out, figure, text);
}

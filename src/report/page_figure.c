/* SPDX-License-Identifier: Apache-2.0 */
/* A figure as JSON in a page; src/report/page.js reads it. */
#include "report/page.h"

#include "base/error.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const forms[] = {[HR_FIGURE_LINES] = "lines",
                                    [HR_FIGURE_BARS] = "bars",
                                    [HR_FIGURE_STACKS] = "stacks",
                                    [HR_FIGURE_HEATMAP] = "heatmap"};
static const char *const scales[] = {[HR_FIGURE_SCALE_LINEAR] = "linear",
                                     [HR_FIGURE_SCALE_LOG2] = "log2",
                                     [HR_FIGURE_SCALE_LOG10] = "log10",
                                     [HR_FIGURE_SCALE_NAMES] = "names"};
static const char *const marks[] = {[HR_FIGURE_MARK_LINE] = "line",
                                    [HR_FIGURE_MARK_PLAIN_LINE] = "plain",
                                    [HR_FIGURE_MARK_POINTS] = "points",
                                    [HR_FIGURE_MARK_BAND] = "band"};

/* Seven digits are more than a measurement has, and half the size of the page. */
static json_t *number(double value)
{
  if (!isfinite(value))
    return json_null();
  double scale = value == 0 ? 1 : pow(10, 6 - floor(log10(fabs(value))));
  double rounded = isfinite(scale) && scale > 0 ? round(value * scale) / scale : value;
  return rounded == floor(rounded) && fabs(rounded) < 9e15 ? json_integer((json_int_t)rounded) : json_real(rounded);
}

static json_t *axis_json(const hr_figure_axis *axis)
{
  json_t *names = json_array();
  for (size_t i = 0; i < axis->name_count; i++)
    json_array_append_new(names, json_string(axis->names[i]));
  return json_pack("{s:s, s:s, s:b, s:o, s:o}", "label", axis->label, "scale", scales[axis->scale], "zero",
                   axis->from_zero, "most", number(axis->most), "names", names);
}

static json_t *point_json(const hr_figure_point *p)
{
  bool interval = isfinite(p->low) && isfinite(p->high), odd = p->status != HR_OK || p->label[0];
  json_t *list = json_array();
  json_array_append_new(list, number(p->x));
  json_array_append_new(list, number(p->y));
  if (interval || odd) {
    json_array_append_new(list, number(p->low));
    json_array_append_new(list, number(p->high));
  }
  if (odd) {
    json_array_append_new(list, json_string(p->status == HR_OK ? "" : hr_status_name(p->status)));
    json_array_append_new(list, json_string(p->label));
  }
  return list;
}

static json_t *series_json(const hr_figure_series *series)
{
  json_t *points = json_array();
  for (size_t i = 0; i < series->count; i++)
    json_array_append_new(points, point_json(&series->points[i]));
  return json_pack("{s:s, s:s, s:s, s:i, s:o}", "name", series->name, "mark", marks[series->mark], "origin",
                   hr_figure_origin_name(series->origin), "style", (int)series->style, "points", points);
}

static json_t *figure_json(const hr_figure *figure)
{
  json_t *series = json_array(), *rules = json_array();
  for (size_t i = 0; i < figure->series_count; i++)
    json_array_append_new(series, series_json(&figure->series[i]));
  for (size_t i = 0; i < figure->rule_count; i++)
    json_array_append_new(rules, json_pack("{s:b, s:o, s:s}", "vertical", figure->rules[i].vertical, "at",
                                           number(figure->rules[i].at), "label", figure->rules[i].label));
  return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "title", figure->title, "form", forms[figure->form], "x",
                   axis_json(&figure->x), "y", axis_json(&figure->y), "series", series, "rules", rules);
}

/* Inside of a script nothing may look like markup: "</script>" and "<!--" would end or change it. */
static void write_script_safe(FILE *out, const char *text)
{
  for (; *text; text++) {
    if (strchr("<>&", *text))
      fprintf(out, "\\u%04x", (unsigned)(unsigned char)*text);
    else
      fputc(*text, out);
  }
}

/* A failed allocation leaves out parts silently in json_array_append_new(); the count of points shows it. */
static bool is_whole(json_t *json, const hr_figure *figure)
{
  json_t *list = json_object_get(json, "series");
  bool whole = json_array_size(list) == figure->series_count &&
               json_array_size(json_object_get(json, "rules")) == figure->rule_count;
  for (size_t i = 0; whole && i < figure->series_count; i++) {
    json_t *points = json_object_get(json_array_get(list, i), "points");
    whole = json_array_size(points) == figure->series[i].count;
  }
  return whole;
}

hr_status hr_page_write_figure(FILE *out, const hr_figure *figure, hr_error *error)
{
  json_t *json = figure_json(figure);
  char *text = json && is_whole(json, figure)
                   ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(7))
                   : NULL;
  json_decref(json);
  if (!text)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the figure %s", figure->title);
  fputs("<figure class=\"chart\">\n<figcaption><strong>", out);
  hr_html_write(out, figure->title);
  fputs("</strong>", out);
  if (figure->note[0]) {
    fputs(" <span>", out);
    hr_html_write(out, figure->note);
    fputs("</span>", out);
  }
  fputs("</figcaption>\n<script type=\"application/json\">", out);
  write_script_safe(out, text);
  fputs("</script>\n</figure>\n", out);
  free(text);
  return HR_OK;
}

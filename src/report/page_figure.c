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
                                    [HR_FIGURE_BOXES] = "boxes",
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

/* A list that is being built; `failed` is shared by all of a figure. */
static void append(json_t *list, json_t *value, bool *failed)
{
  *failed = json_array_append_new(list, value) != 0 || *failed;
}

static json_t *axis_json(const hr_figure_axis *axis, bool *failed)
{
  json_t *names = json_array();
  for (size_t i = 0; i < axis->name_count; i++)
    append(names, json_string(axis->names[i]), failed);
  return json_pack("{s:s, s:s, s:b, s:o, s:o}", "label", axis->label, "scale", scales[axis->scale], "zero",
                   axis->from_zero, "most", number(axis->most), "names", names);
}

static json_t *point_json(const hr_figure_point *p, bool *failed)
{
  bool interval = isfinite(p->low) && isfinite(p->high), odd = p->status != HR_OK || p->label[0];
  json_t *list = json_array();
  append(list, number(p->x), failed);
  append(list, number(p->y), failed);
  if (interval || odd) {
    append(list, number(p->low), failed);
    append(list, number(p->high), failed);
  }
  if (odd) {
    append(list, json_string(p->status == HR_OK ? "" : hr_status_name(p->status)), failed);
    append(list, json_string(p->label), failed);
  }
  return list;
}

static json_t *series_json(const hr_figure_series *series, bool *failed)
{
  json_t *points = json_array();
  for (size_t i = 0; i < series->count; i++)
    append(points, point_json(&series->points[i], failed), failed);
  return json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "name", series->name, "mark", marks[series->mark], "origin",
                   hr_figure_origin_name(series->origin), "style", (int)series->style, "colour", (int)series->colour,
                   "points", points);
}

static json_t *rule_json(const hr_figure_rule *rule)
{
  return json_pack("{s:b, s:o, s:s}", "vertical", rule->vertical, "at", number(rule->at), "label", rule->label);
}

/* NULL if memory ran out. */
static json_t *figure_json(const hr_figure *figure)
{
  bool failed = false;
  json_t *series = json_array(), *rules = json_array();
  for (size_t i = 0; i < figure->series_count; i++) {
    if (figure->series[i].count > 0) /* a legend entry would turn nothing on and off */
      append(series, series_json(&figure->series[i], &failed), &failed);
  }
  for (size_t i = 0; i < figure->rule_count; i++)
    append(rules, rule_json(&figure->rules[i]), &failed);
  json_t *x = axis_json(&figure->x, &failed), *y = axis_json(&figure->y, &failed);
  json_t *json = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "title", figure->title, "form", forms[figure->form], "x",
                           x, "y", y, "series", series, "rules", rules);
  if (json && !failed)
    return json;
  json_decref(json);
  return NULL;
}

/* Inside of a script nothing may look like markup: "</script>" and "<!--" would end or change it. */
static int write_script_safe(const char *text, size_t size, void *out)
{
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '<' || text[i] == '>' || text[i] == '&')
      fprintf(out, "\\u%04x", (unsigned)(unsigned char)text[i]);
    else
      fputc(text[i], out);
  }
  return 0;
}

hr_status hr_page_write_figure(FILE *out, const hr_figure *figure, hr_error *error)
{
  json_t *json = figure_json(figure);
  if (!json)
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
  /* json_dumps() drops keys where its buffer cannot grow. */
  int written =
      json_dump_callback(json, write_script_safe, out, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(7));
  json_decref(json);
  if (written != 0)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the figure %s", figure->title);
  fputs("</script>\n</figure>\n", out);
  return HR_OK;
}

hr_status hr_page_print_figure(FILE *out, hr_figure *figure, hr_error *error)
{
  hr_status status = hr_figure_point_count(figure) > 0 ? hr_page_write_figure(out, figure, error) : HR_OK;
  hr_figure_free(figure);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "report/sweep_figures.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AXES_MAX 32

/* ---- axes: "a=20 b=4 h=1440" ---- */

/* The value of an axis, copied; false if the row lacks it. */
static bool axis_value(const char *axes, const char *name, size_t length, char *value, size_t size)
{
  for (const char *at = axes; *at; at += strspn(at, " ")) {
    size_t token = strcspn(at, " ");
    if (token > length && strncmp(at, name, length) == 0 && at[length] == '=') {
      size_t have = token - length - 1;
      snprintf(value, size, "%.*s", (int)have, at + length + 1);
      return true;
    }
    at += token;
  }
  return false;
}

typedef struct axis_name {
  const char *text; /* in a row's axes */
  size_t length, changes;
  char last[64];
} axis_name;

/* Rows are in the order of their axes, so an axis that changes often has many values; the last one changes most. */
static axis_name changing_axis(const hr_compare_row *rows, size_t count)
{
  axis_name names[AXES_MAX], best = {.text = "", .length = 0};
  size_t used = 0;
  for (const char *at = rows[0].axes; *at && used < AXES_MAX; at += strspn(at, " ")) {
    size_t token = strcspn(at, " "), length = strcspn(at, "= ");
    if (length > 0 && length < token)
      names[used++] = (axis_name){.text = at, .length = length};
    at += token;
  }
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < used; k++) {
      char value[64] = "";
      axis_value(rows[i].axes, names[k].text, names[k].length, value, sizeof value);
      names[k].changes += strcmp(value, names[k].last) != 0;
      hr_copy_text(names[k].last, sizeof names[k].last, value);
    }
  }
  for (size_t k = 0; k < used; k++) {
    if (names[k].changes >= best.changes)
      best = names[k];
  }
  return best;
}

static axis_name axis_of(const hr_compare_row *rows, size_t count, const hr_sweep_about *about)
{
  char value[64];
  if (about && axis_value(rows[0].axes, about->x, strlen(about->x), value, sizeof value))
    return (axis_name){.text = about->x, .length = strlen(about->x)};
  return changing_axis(rows, count);
}

/* ---- series ---- */

/* The properties in which rows differ. */
typedef struct differences {
  bool product, dtype, kernel, warm;
} differences;

static void dtype_of(const hr_compare_row *row, char text[16])
{
  const char *at = strstr(row->problem, " dtype=");
  snprintf(text, 16, "%.*s", at ? (int)strcspn(at + 7, " ") : 0, at ? at + 7 : "");
}

static differences differences_of(const hr_compare_row *rows, size_t count)
{
  differences d = {.product = false};
  char first[16], own[16];
  dtype_of(&rows[0], first);
  for (size_t i = 1; i < count; i++) {
    dtype_of(&rows[i], own);
    d.product = d.product || strcmp(rows[i].product, rows[0].product) != 0;
    d.dtype = d.dtype || strcmp(own, first) != 0;
    d.kernel =
        d.kernel || strcmp(rows[i].kernel_asked, rows[0].kernel_asked) != 0 || rows[i].autotune != rows[0].autotune;
    d.warm = d.warm || rows[i].warm != rows[0].warm;
  }
  return d;
}

static void add_word(char *name, size_t size, const char *word)
{
  size_t used = strlen(name);
  if (word[0])
    snprintf(name + used, size - used, "%s%s", used > 0 ? ", " : "", word);
}

static void series_name(const hr_compare_row *row, differences d, char *name, size_t size)
{
  char dtype[16], raw[HR_FIGURE_TEXT] = "";
  dtype_of(row, dtype);
  add_word(raw, sizeof raw, row->series);
  add_word(raw, sizeof raw, d.product ? row->product : "");
  add_word(raw, sizeof raw, d.dtype ? dtype : "");
  add_word(raw, sizeof raw, d.kernel && row->kernel_asked[0] ? row->kernel_asked : "");
  add_word(raw, sizeof raw, d.kernel && row->autotune > 0 ? "autotuned" : "");
  add_word(raw, sizeof raw, d.warm && row->warm ? "warm" : "");
  hr_copy_text(name, size, raw[0] ? raw : row->product);
}

/* ---- points ---- */

static bool has_rate(const hr_compare_row *row)
{
  return isfinite(row->flops_per_s) && row->flops_per_s > 0;
}

/* TFLOP/s, or ms. */
static hr_figure_point point_of(const hr_compare_row *row, double x, bool rates)
{
  const hr_compared_row *m = &row->measured;
  hr_figure_point point = {.x = x, .y = (double)NAN, .low = (double)NAN, .high = (double)NAN, .status = m->status};
  if (!isfinite(m->median_ns))
    return point;
  double tera = row->flops_per_s / 1e12;
  point.y = rates ? tera : m->median_ns / 1e6;
  point.low = rates ? tera * m->median_ns / m->high_ns : m->low_ns / 1e6;
  point.high = rates ? tera * m->median_ns / m->low_ns : m->high_ns / 1e6;
  return point;
}

static double x_of(hr_figure *figure, const char *value, bool names)
{
  return names ? (double)hr_figure_name(figure, &figure->x, value) : hr_read_number(value, NULL);
}

static bool is_number(const char *text)
{
  char *rest;
  double value = hr_read_number(text, &rest);
  return rest != text && *rest == '\0' && isfinite(value);
}

static bool has_names(const hr_compare_row *rows, size_t count, const axis_name *axis)
{
  char value[64];
  for (size_t i = 0; i < count; i++) {
    if (!axis_value(rows[i].axes, axis->text, axis->length, value, sizeof value) || !is_number(value))
      return true;
  }
  return false;
}

static void describe(hr_figure *figure, const hr_compare_row *row, const axis_name *axis, const hr_sweep_about *about,
                     bool rates)
{
  char own[HR_FIGURE_TEXT];
  snprintf(own, sizeof own, "%s%s%.120s", row->sweep, about ? ": " : "", about ? about->title : "");
  hr_copy_text(figure->title, sizeof figure->title, own);
  snprintf(own, sizeof own, "%.*s", (int)axis->length, axis->text);
  hr_copy_text(figure->x.label, sizeof figure->x.label, about && about->x_label[0] ? about->x_label : own);
  hr_copy_text(figure->y.label, sizeof figure->y.label, rates ? "TFLOP/s" : "time, ms");
  if (about)
    hr_copy_text(figure->source, sizeof figure->source, about->source);
  if (about && about->x_log2)
    figure->x.scale = HR_FIGURE_SCALE_LOG2;
}

hr_status hr_figure_of_rows(const hr_compare_row *rows, size_t count, const hr_sweep_about *about, hr_figure **result,
                            hr_error *error)
{
  hr_figure *figure = hr_figure_new();
  if (!figure)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the figure of %s", rows[0].sweep);
  axis_name axis = axis_of(rows, count, about);
  differences d = differences_of(rows, count);
  bool names = has_names(rows, count, &axis), rates = true;
  for (size_t i = 0; i < count; i++)
    rates = rates && (has_rate(&rows[i]) || !isfinite(rows[i].measured.median_ns));
  describe(figure, &rows[0], &axis, about, rates);
  if (names)
    figure->x.scale = HR_FIGURE_SCALE_NAMES;
  for (size_t i = 0; i < count; i++) {
    char name[HR_FIGURE_TEXT], value[64] = "";
    axis_value(rows[i].axes, axis.text, axis.length, value, sizeof value);
    series_name(&rows[i], d, name, sizeof name);
    size_t series = hr_figure_series_named(figure, name, HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
    hr_figure_add_point(figure, series, point_of(&rows[i], x_of(figure, value, names), rates));
  }
  return hr_figure_end(figure, result, error);
}

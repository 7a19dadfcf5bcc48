/* SPDX-License-Identifier: Apache-2.0 */
/* `compare`: two sets of rows, in all, by sweep and by point. */
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "report/document.h"
#include "report/json.h"
#include "report/lines.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- tables ---- */

/* Four digits: the tolerance is some percent. */
static void ratio_text(const void *number, hr_cell *cell)
{
  double value = *(const double *)number;
  if (isfinite(value))
    hr_cell_format(cell, value < 0.1 || value >= 10 ? "%.3g" : "%.3f", value);
}

#define SWEEP(member) HR_MEMBER(hr_compared_sweep, member)
#define SWEEP_RATIO(member) HR_COMPUTED_OF(TEXT, ratio_text, hr_compared_sweep, sum.ratio.member)
static const hr_column sweep_columns[] = {
    {"sweep", "sweep", HR_PLAIN, 0, HR_OPTIONAL(hr_compared_sweep, name)},
    {"points", "points", HR_PLAIN, 2, SWEEP(sum.points)},
    {"same", "same", HR_PLAIN, 3, SWEEP(sum.verdicts[HR_VERDICT_SAME])},
    {"faster", "faster", HR_PLAIN, 3, SWEEP(sum.verdicts[HR_VERDICT_FASTER])},
    {"slower", "slower", HR_PLAIN, 3, SWEEP(sum.verdicts[HR_VERDICT_SLOWER])},
    {"noisy", "noisy", HR_PLAIN, 3, SWEEP(sum.verdicts[HR_VERDICT_NOISY])},
    {"lost", "lost", HR_PLAIN, 3, SWEEP(sum.lost)},
    {"ratio", NULL, HR_PLAIN, 0, SWEEP(sum.ratio.value)},
    {"ratio_low", NULL, HR_PLAIN, 0, SWEEP(sum.ratio.low)},
    {"ratio_high", NULL, HR_PLAIN, 0, SWEEP(sum.ratio.high)},
    {NULL, "ratio", HR_PLAIN, 0, SWEEP_RATIO(value)},
    {NULL, "low", HR_PLAIN, 1, SWEEP_RATIO(low)},
    {NULL, "high", HR_PLAIN, 1, SWEEP_RATIO(high)},
    {"verdict", "verdict", HR_PLAIN, 0, SWEEP(sum.verdict)},
};

/* What tells the points of a series apart: the axes and the number format, or all of the problem. */
static void point_name(const void *row, hr_cell *cell)
{
  const hr_compared_point *point = row;
  const char *dtype = strstr(point->problem, " dtype=");
  dtype = dtype ? dtype + strlen(" dtype=") : "";
  if (point->axes[0])
    hr_cell_format(cell, "%s %.*s", point->axes, (int)strcspn(dtype, " "), dtype);
  else
    hr_cell_set_text(cell, point->problem);
}

/* A lost point has no verdict. The colours are those of a sweep's verdict. */
static void point_verdict(const void *row, hr_cell *cell)
{
  const hr_compared_point *point = row;
  hr_cell_set_text(cell, point->lost ? "lost" : hr_verdict_name(point->verdict));
  cell->style = point->lost ? HR_STYLE_RED : hr_verdict_style(point->verdict);
}

#define POINT(member) HR_OPTIONAL(hr_compared_point, member)
#define POINT_RATIO(member) HR_COMPUTED_OF(TEXT, ratio_text, hr_compared_point, ratio.member)
static const hr_column point_columns[] = {
    {"sweep", "sweep", HR_PLAIN, 4, POINT(sweep)},
    {"series", "series", HR_PLAIN, 5, POINT(series)},
    {"axes", NULL, HR_PLAIN, 0, POINT(axes)},
    {NULL, "point", HR_PLAIN, 0, HR_COMPUTED(TEXT, point_name)},
    {"problem", NULL, HR_PLAIN, 0, POINT(problem)},
    {"product", NULL, HR_PLAIN, 0, POINT(product)},
    {"a_status", NULL, HR_PLAIN, 0, POINT(a.status)},
    {"a_samples", NULL, HR_PLAIN, 0, POINT(a.samples)},
    {"a_ns", "A", HR_TIME, 2, POINT(a.median_ns)},
    {"a_low_ns", NULL, HR_TIME, 0, POINT(a.low_ns)},
    {"a_high_ns", NULL, HR_TIME, 0, POINT(a.high_ns)},
    {"b_status", "status of B", HR_PLAIN, 6, POINT(b.status)},
    {"b_samples", NULL, HR_PLAIN, 0, POINT(b.samples)},
    {"b_ns", "B", HR_TIME, 2, POINT(b.median_ns)},
    {"b_low_ns", NULL, HR_TIME, 0, POINT(b.low_ns)},
    {"b_high_ns", NULL, HR_TIME, 0, POINT(b.high_ns)},
    {"ratio", NULL, HR_PLAIN, 0, POINT(ratio.value)},
    {"ratio_low", NULL, HR_PLAIN, 0, POINT(ratio.low)},
    {"ratio_high", NULL, HR_PLAIN, 0, POINT(ratio.high)},
    {NULL, "ratio", HR_PLAIN, 0, POINT_RATIO(value)},
    {NULL, "low", HR_PLAIN, 1, POINT_RATIO(low)},
    {NULL, "high", HR_PLAIN, 1, POINT_RATIO(high)},
    {"verdict", "verdict", HR_PLAIN, 0, HR_COMPUTED(TEXT, point_verdict)},
    {"b_reason", NULL, HR_PLAIN, 0, POINT(b.reason)},
};

static bool is_same(const hr_compared_point *point)
{
  return !point->lost && point->verdict == HR_VERDICT_SAME;
}

static hr_table *point_table(const hr_compare_result *c, bool all)
{
  hr_table *table = HR_TABLE_OF(point_columns, hr_compared_point);
  for (size_t i = 0; i < c->count; i++) {
    if (all || !is_same(&c->points[i]))
      hr_table_add(table, &c->points[i]);
  }
  return table;
}

static hr_table *sweep_table(const hr_compare_result *c)
{
  hr_table *table = HR_TABLE_OF(sweep_columns, hr_compared_sweep);
  for (size_t i = 0; i < c->sweep_count; i++)
    hr_table_add(table, &c->sweeps[i]);
  return table;
}

/* ---- JSON ---- */

#define ORIGIN(member) HR_OPTIONAL_FIELD(hr_compared_origin, member)
static const hr_column origin_columns[] = {ORIGIN(name),    ORIGIN(rows),  ORIGIN(products), ORIGIN(libraries),
                                           ORIGIN(drivers), ORIGIN(hosts), ORIGIN(programs), ORIGIN(first),
                                           ORIGIN(last),    ORIGIN(alone)};

static hr_status write_json(FILE *out, const hr_compare_result *c, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("compare/1", &failed);
  hr_json_put_fields(hr_json_put_object(json, "a"), origin_columns, HR_COUNT_OF(origin_columns), &c->a);
  hr_json_put_fields(hr_json_put_object(json, "b"), origin_columns, HR_COUNT_OF(origin_columns), &c->b);
  hr_json_put_number(json, "tolerance", c->tolerance);
  hr_compared_sweep total = {.name = "", .sum = c->total};
  hr_json_put_fields(hr_json_put_object(json, "total"), sweep_columns + 1, HR_COUNT_OF(sweep_columns) - 1, &total);
  hr_json_put_table(json, "sweeps", sweep_table(c));
  hr_json_put_table(json, "points", point_table(c, true));
  return hr_json_write(out, json, error);
}

/* ---- text ---- */

static void print_origin(const hr_document *document, const char *label, const hr_compared_origin *o)
{
  char line[1024] = "";
  const char *parts[] = {o->products, o->libraries, o->drivers, o->hosts};
  const char *before[] = {"", "", "driver ", "host "};
  for (size_t i = 0; i < HR_COUNT_OF(parts); i++) {
    if (parts[i][0])
      hr_append_item(line, sizeof line, "%s%s", before[i], parts[i]);
  }
  if (o->programs[0])
    hr_append_item(line, sizeof line, "Headroom %s", o->programs);
  if (o->rows > 0 && strncmp(o->first, o->last, 10) == 0)
    hr_append_item(line, sizeof line, "%.10s", o->first);
  else if (o->rows > 0)
    hr_append_item(line, sizeof line, "%.10s to %.10s", o->first, o->last);
  hr_print_field(document, label, "%s: %" PRId64 " row%s%s%s", o->name, o->rows, hr_plural(o->rows),
                 line[0] ? ", " : "", line);
}

static const char *words_of(hr_verdict verdict)
{
  static const char *const words[] = {[HR_VERDICT_SAME] = "B is as fast as A",
                                      [HR_VERDICT_FASTER] = "B is faster",
                                      [HR_VERDICT_SLOWER] = "B is slower",
                                      [HR_VERDICT_NOISY] = "noisy: the interval does not tell"};
  return words[verdict];
}

static void print_total(const hr_document *document, const hr_compare_result *c)
{
  const hr_compared_sum *t = &c->total;
  if (isfinite(t->ratio.value))
    hr_print_field(document, "ratio", "%.3f (%.3f … %.3f), %s; time of A over time of B, geometric mean",
                   t->ratio.value, t->ratio.low, t->ratio.high, words_of(t->verdict));
  hr_print_field(document, "points",
                 "%" PRId64 ": %" PRId64 " same, %" PRId64 " faster, %" PRId64 " slower, %" PRId64 " noisy, %" PRId64
                 " lost (a time in A, none in B)",
                 t->points, t->verdicts[HR_VERDICT_SAME], t->verdicts[HR_VERDICT_FASTER],
                 t->verdicts[HR_VERDICT_SLOWER], t->verdicts[HR_VERDICT_NOISY], t->lost);
  if (c->a.alone + c->b.alone > 0)
    hr_print_field(document, "left out", "%" PRId64 " point%s of A alone, %" PRId64 " of B alone", c->a.alone,
                   hr_plural(c->a.alone), c->b.alone);
  hr_print_field(document, "tolerance", "%.3g%%: the same is from %.3f to %.3f", 100 * c->tolerance,
                 1 / (1 + c->tolerance), 1 + c->tolerance);
}

static hr_status write_text(hr_document *document, const hr_compare_result *c, hr_error *error)
{
  bool all = document->options->verbose;
  hr_print_title(document, "headroom compare: %s and %s", c->a.name, c->b.name);
  print_origin(document, "A", &c->a);
  print_origin(document, "B", &c->b);
  if (c->count == 0) {
    hr_print_paragraph(document, "No point has a row in both and a time in A.");
    return HR_OK;
  }
  print_total(document, c);
  hr_print_heading(document, "Sweeps");
  HR_TRY(hr_print_table(document, sweep_table(c), error));
  hr_table *points = point_table(c, all);
  if (hr_table_is_empty(points)) {
    hr_table_free(points);
    return HR_OK;
  }
  hr_print_heading(document, all ? "Points" : "Points that are not the same");
  return hr_print_table(document, points, error);
}

hr_status hr_report_comparison(FILE *out, const hr_report_options *options, const hr_compare_result *comparison,
                               hr_error *error)
{
  HR_NEED(error, out, options, comparison);
  HR_TAKE(hr_report_options, options, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, comparison, error);
  else if (options->format == HR_FORMAT_CSV)
    status = hr_print_table(&document, point_table(comparison, true), error);
  else
    status = write_text(&document, comparison, error);
  return hr_document_end(&document, status, error);
}

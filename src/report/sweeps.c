/* The catalogue of sweeps. */
#include "report/document.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

static const hr_column sweep_columns[] = {
    {"name", "name", HR_CELL_TEXT, 0},      {"figure", NULL, HR_CELL_TEXT, 0},
    {"title", "title", HR_CELL_TEXT, 0},    {"kind", "kind", HR_CELL_TEXT, 3},
    {"x", "along", HR_CELL_TEXT, 4},        {"series", "lines", HR_CELL_COUNT, 5},
    {"points", "points", HR_CELL_COUNT, 1}, {"estimate_ns", "about", HR_CELL_TIME, 2},
    {"source", NULL, HR_CELL_TEXT, 0},      {"note", NULL, HR_CELL_TEXT, 0},
};

/* What a sweep has under a choice. */
typedef struct sweep_cost {
  size_t points;
  double time_ns;
} sweep_cost;

static hr_status measure_cost(const hr_sweep *sweep, const hr_sweep_choice *choice, const hr_hardware *hardware,
                              hr_dtype dtype, sweep_cost *cost, hr_error *error)
{
  size_t *indices;
  HR_TRY(hr_sweep_order(sweep, choice, &indices, &cost->points, error));
  free(indices);
  return hr_sweep_estimate(sweep, choice, hardware, dtype, &cost->time_ns, error);
}

static hr_table *sweep_table(hr_sweep *const *sweeps, size_t count, const sweep_cost *costs)
{
  hr_table *table = hr_table_create(sweep_columns, sizeof sweep_columns / sizeof *sweep_columns);
  for (size_t i = 0; i < count; i++) {
    hr_sweep_about about = hr_sweep_describe(sweeps[i]);
    hr_put_text(table, about.name);
    hr_put_text(table, about.figure[0] ? about.figure : NULL);
    hr_put_text(table, about.title);
    hr_put_text(table, hr_sweep_kind_name(about.kind));
    hr_put_text(table, about.x);
    hr_put_count(table, (int64_t)about.series_count);
    hr_put_count(table, (int64_t)costs[i].points);
    hr_put(table, costs[i].time_ns);
    hr_put_text(table, about.source[0] ? about.source : NULL);
    hr_put_text(table, about.note[0] ? about.note : NULL);
  }
  return table;
}

static hr_status write_json(FILE *out, hr_sweep *const *sweeps, size_t count, const sweep_cost *costs,
                            const sweep_cost *sum, const hr_hardware *hardware, hr_dtype dtype, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("sweeps", &failed);
  hr_json_put_text(json, "device", hardware->name);
  hr_json_put_text(json, "dtype", hr_dtype_name(dtype));
  hr_json_put_count(json, "points", (int64_t)sum->points);
  hr_json_put_number(json, "estimate_ns", sum->time_ns);
  hr_json_put_table(json, "sweeps", sweep_table(sweeps, count, costs));
  return hr_json_write(out, json, error);
}

static hr_status write_text(const hr_document *document, hr_sweep *const *sweeps, size_t count, const sweep_cost *costs,
                            const sweep_cost *sum, const hr_hardware *hardware, hr_dtype dtype, hr_error *error)
{
  HR_TRY(hr_put_table(document, sweep_table(sweeps, count, costs), error));
  if (document->options->format == HR_FORMAT_CSV)
    return HR_OK;
  fprintf(document->out, "\n");
  char text[256];
  if (isnan(sum->time_ns))
    snprintf(text, sizeof text, "%zu points; no time is estimated, because %s has no matrix rate for %s.", sum->points,
             hardware->name, hr_dtype_name(dtype));
  else
    snprintf(text, sizeof text, "%zu points; about %.0f minutes in all on %s in %s, from predicted times.", sum->points,
             ceil(sum->time_ns / 60e9), hardware->name, hr_dtype_name(dtype));
  hr_put_paragraph(document, text);
  return HR_OK;
}

hr_status hr_report_sweeps(FILE *out, const hr_report_options *options, hr_sweep *const *sweeps, size_t count,
                           const hr_sweep_choice *choice, const hr_hardware *hardware, hr_dtype dtype, hr_error *error)
{
  HR_NEED(error, out, options, choice, hardware);
  sweep_cost sum = {0}, *costs = calloc(count + 1, sizeof *costs);
  if (!costs)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "memory ran out for the list of sweeps");
  hr_status status = HR_OK;
  bool estimated = false;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    status = measure_cost(sweeps[i], choice, hardware, dtype, &costs[i], error);
    sum.points += costs[i].points;
    sum.time_ns += isnan(costs[i].time_ns) ? 0 : costs[i].time_ns;
    estimated = estimated || !isnan(costs[i].time_ns);
  }
  if (!estimated)
    sum.time_ns = (double)NAN;
  hr_document document;
  if (status == HR_OK)
    status = hr_document_begin(&document, out, options, error);
  if (status == HR_OK) {
    status = options->format == HR_FORMAT_JSON
                 ? write_json(out, sweeps, count, costs, &sum, hardware, dtype, error)
                 : write_text(&document, sweeps, count, costs, &sum, hardware, dtype, error);
    status = hr_document_end(&document, status, error);
  }
  free(costs);
  return status;
}

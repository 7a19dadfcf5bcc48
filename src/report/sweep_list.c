/* SPDX-License-Identifier: Apache-2.0 */
/* `sweep list`: the sweeps, with the points that a choice leaves of each and how long they take. */
#include "base/error.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "report/document.h"
#include "report/json.h"

#include <math.h>
#include <stdlib.h>

typedef struct sweep_row {
  hr_sweep_about about;
  size_t points; /* that the choice leaves */
  double time_ns;
} sweep_row;

#define ABOUT(member) HR_MEMBER(sweep_row, about.member)
static const hr_column columns[] = {
    {"name", "name", HR_PLAIN, 0, ABOUT(name)},
    {"figure", NULL, HR_PLAIN, 0, HR_OPTIONAL(sweep_row, about.figure)},
    {"title", "title", HR_PLAIN, 0, ABOUT(title)},
    {"kind", "kind", HR_PLAIN, 3, ABOUT(kind)},
    {"x", "x axis", HR_PLAIN, 4, ABOUT(x)},
    {"series", "series", HR_PLAIN, 5, ABOUT(series_count)},
    {"points", "points", HR_PLAIN, 1, HR_MEMBER(sweep_row, points)},
    {"estimate_ns", "about", HR_TIME, 2, HR_MEMBER(sweep_row, time_ns)},
    {"source", NULL, HR_PLAIN, 0, HR_OPTIONAL(sweep_row, about.source)},
    {"note", NULL, HR_PLAIN, 0, HR_OPTIONAL(sweep_row, about.note)},
};

/* The list of sweeps and their sum. */
typedef struct sweep_list {
  hr_table *table;
  size_t points;
  double time_ns;
} sweep_list;

static hr_status estimate(const hr_sweep *sweep, const hr_sweep_choice *choice, const hr_hardware *hardware,
                          hr_dtype dtype, sweep_row *row, hr_error *error)
{
  size_t *indices;
  row->about = *hr_sweep_describe(sweep);
  HR_TRY(hr_sweep_order(sweep, choice, &indices, &row->points, error));
  free(indices);
  return hr_sweep_estimate(sweep, choice, hardware, dtype, &row->time_ns, error);
}

static hr_status write_json(FILE *out, const sweep_list *list, const hr_hardware *hardware, hr_dtype dtype,
                            hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("sweeps/1", &failed);
  hr_json_put_text(json, "device", hardware->about.name);
  hr_json_put_text(json, "dtype", hr_dtype_name(dtype));
  hr_json_put_count(json, "points", (int64_t)list->points);
  hr_json_put_number(json, "estimate_ns", list->time_ns);
  hr_json_put_table(json, "sweeps", list->table);
  return hr_json_write(out, json, error);
}

static hr_status write_text(const hr_document *document, const sweep_list *list, const hr_hardware *hardware,
                            hr_dtype dtype, hr_error *error)
{
  HR_TRY(hr_print_table(document, list->table, error));
  if (document->options->format == HR_FORMAT_CSV)
    return HR_OK;
  fprintf(document->out, "\n");
  char text[256];
  if (isnan(list->time_ns))
    snprintf(text, sizeof text, "%zu points; no time is estimated, because %s has no matrix rate for %s.", list->points,
             hardware->about.name, hr_dtype_name(dtype));
  else
    hr_write_text(text, sizeof text, "%zu points; about %.0f minutes in all on %s in %s, from predicted times.",
                  list->points, ceil(list->time_ns / 60e9), hardware->about.name, hr_dtype_name(dtype));
  hr_print_paragraph(document, text);
  return HR_OK;
}

/* Adds up the points and the times that can be estimated; NAN if none can. */
static hr_status fill_list(sweep_list *list, const hr_sweeps_report *asked, hr_error *error)
{
  bool estimated = false;
  for (size_t i = 0; i < asked->count; i++) {
    sweep_row row = {.points = 0};
    HR_TRY(estimate(asked->sweeps[i], asked->choice, asked->hardware, asked->dtype, &row, error));
    hr_table_add(list->table, &row);
    list->points += row.points;
    list->time_ns += isnan(row.time_ns) ? 0 : row.time_ns;
    estimated = estimated || !isnan(row.time_ns);
  }
  if (!estimated)
    list->time_ns = (double)NAN;
  return HR_OK;
}

hr_status hr_report_sweeps(FILE *out, const hr_report_options *options, const hr_sweeps_report *list, hr_error *error)
{
  HR_NEED(error, out, options, list);
  const hr_sweep_choice *choice = list->choice;
  const hr_hardware *hardware = list->hardware;
  HR_NEED(error, choice, hardware);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_sweep_choice, choice, error);
  sweep_list filled = {.table = HR_TABLE_OF(columns, sweep_row)};
  const hr_sweeps_report asked = {list->sweeps, list->count, choice, hardware, list->dtype};
  hr_status status = fill_list(&filled, &asked, error);
  if (status != HR_OK) {
    hr_table_free(filled.table);
    return status;
  }
  hr_document document;
  hr_document_begin(&document, out, options);
  status = options->format == HR_FORMAT_JSON ? write_json(out, &filled, hardware, list->dtype, error)
                                             : write_text(&document, &filled, hardware, list->dtype, error);
  return hr_document_end(&document, status, error);
}

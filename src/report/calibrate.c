/* SPDX-License-Identifier: Apache-2.0 */
/* `calibrate`: the errors of the fit by kind, the fitted figures, and the rows in the form that --from reads. */
#include "base/error.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "report/document.h"
#include "report/json.h"
#include "report/validated_rows.h"

#include <headroom/experimental/calibrate.h>
#include <headroom/experimental/hardware.h>
#include <inttypes.h>

/* ---- kinds ---- */

static void kind_name(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_interval_kind_name(*(const hr_interval_kind *)member));
}

static void size_name(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_calibrated_size_name(*(const hr_calibrated_size *)member));
}

#define KIND(member) HR_MEMBER(hr_calibrated_kind, member)
static const hr_column kind_columns[] = {
    {"kind", "kind", HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, kind_name, hr_calibrated_kind, kind)},
    {"size", "measured time", HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, size_name, hr_calibrated_kind, size)},
    {"rows", "rows", HR_PLAIN, 0, KIND(rows)},
    {"before", "before", HR_SHARE, 0, KIND(before)},
    {"fitted", "fitted", HR_SHARE, 0, KIND(fitted)},
    {"held_out", "held out", HR_SHARE, 0, KIND(held_out)},
    {"held_out_median", "median", HR_SHARE, 1, KIND(held_out_median)},
    {"held_out_p90", "90% within", HR_SHARE, 0, KIND(held_out_p90)},
    {"held_out_bias", "bias", HR_GAIN, 1, KIND(held_out_bias)},
    {"coverage", "in the interval", HR_SHARE, 2, KIND(coverage)},
};

/* ---- figures ---- */

static void plain_number(const void *member, hr_cell *cell)
{
  char text[32];
  hr_write_text(text, sizeof text, "%.4g", *(const double *)member);
  hr_cell_set_text(cell, text);
}

#define FIGURE(member) HR_MEMBER(hr_fitted_figure, member)
static const hr_column figure_columns[] = {
    {"name", "figure", HR_PLAIN, 0, FIGURE(name)},
    {"before", NULL, HR_PLAIN, 0, FIGURE(before)},
    {"after", NULL, HR_PLAIN, 0, FIGURE(after)},
    {NULL, "before", HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, plain_number, hr_fitted_figure, before)},
    {NULL, "fitted", HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, plain_number, hr_fitted_figure, after)},
    {"rows", "rows", HR_PLAIN, 1, FIGURE(rows)},
};

/* ---- the report ---- */

static hr_table *kind_table(const hr_calibrate_result *result)
{
  hr_table *table = HR_TABLE_OF(kind_columns, hr_calibrated_kind);
  for (size_t i = 0; i < result->kind_count; i++)
    hr_table_add(table, &result->kinds[i]);
  return table;
}

static hr_table *figure_table(const hr_calibrate_result *result)
{
  hr_table *table = HR_TABLE_OF(figure_columns, hr_fitted_figure);
  for (size_t i = 0; i < result->figure_count; i++)
    hr_table_add(table, &result->figures[i]);
  return table;
}

static hr_status write_json(FILE *out, const hr_calibrate_result *result, const char *path, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("calibrate/1", &failed);
  hr_json_put_text(json, "device", result->hardware->about.name);
  hr_json_put_text(json, "file", path);
  hr_json_put_count(json, "rows", result->rows);
  hr_json_put_count(json, "skipped", result->skipped);
  hr_json_put_text(json, "skipped_why", result->skipped_why[0] ? result->skipped_why : NULL);
  hr_json_put_count(json, "parts", result->folds);
  hr_json_put_number(json, "error_band", result->hardware->error_band);
  hr_json_put_table(json, "kinds", kind_table(result));
  hr_json_put_table(json, "figures", figure_table(result));
  return hr_json_write(out, json, error);
}

static hr_status write_text(hr_document *document, const hr_calibrate_result *result, const char *path, hr_error *error)
{
  hr_print_title(document, "headroom calibrate: figures of %s fitted to measured times", result->hardware->about.name);
  hr_print_field(document, "device", "%s: %s", result->hardware->about.name, result->hardware->about.product);
  hr_print_field(document, "rows", "%" PRId64 ", in %" PRId64 " parts for the cross-validation", result->rows,
                 result->folds);
  if (result->skipped > 0)
    hr_print_field(document, "left out", "%" PRId64 ", the first at %s", result->skipped, result->skipped_why);
  hr_print_field(document, "file", "%s", path ? path : "none; --write FILE.json writes one");
  hr_print_heading(document, "Errors");
  HR_TRY(hr_print_table(document, kind_table(result), error));
  hr_print_paragraph(document,
                     "An error is predicted over measured time or its inverse, less 1, of which the geometric "
                     "mean is taken: by the figures before the fit, by the fitted ones on the same rows, and on "
                     "rows held out: each part is predicted by a fit to the others. The columns behind it are "
                     "of the held-out rows.");
  hr_print_heading(document, "Figures");
  return hr_print_table(document, figure_table(result), error);
}

hr_status hr_report_calibration(FILE *out, const hr_report_options *options, const hr_calibrate_result *result,
                                const char *path, hr_error *error)
{
  HR_NEED(error, out, options, result);
  HR_TAKE(hr_report_options, options, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(out, result, path, error);
  else if (options->format == HR_FORMAT_CSV)
    status = hr_print_table(&document, hr_validated_row_table(result->held_out), error);
  else
    status = write_text(&document, result, path, error);
  return hr_document_end(&document, status, error);
}

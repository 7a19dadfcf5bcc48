/* SPDX-License-Identifier: Apache-2.0 */
/* The device file of a fit. */
#include <headroom/experimental/calibrate.h>

#include "analysis/calibrate/device_json.h"

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "json/json.h"

#include <headroom/experimental/hardware.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void hr_calibrate_facts_init(hr_calibrate_facts *facts, size_t size)
{
  HR_INIT(facts, size, (hr_calibrate_facts){.calibration = HR_CALIBRATION_MEASURED});
}

/* Sets a member of a device to that of the fitted one. Of an object it keeps what a figure of 0 has replaced. */
static bool set_field(json_t *root, const json_t *all, const char *field)
{
  json_t *own = json_object_get(root, field), *fitted = json_deep_copy(json_object_get(all, field));
  if (!json_is_object(own) || !fitted)
    return json_object_set_new(root, field, fitted) == 0;
  const bool done = json_object_update(own, fitted) == 0;
  json_decref(fitted);
  return done;
}

#define TEXT_MAX 1024
#define SOURCE_MAX 121 /* bytes of the source in each figure's, with the end */

static json_t *text_or_null(const char *text)
{
  char clean[TEXT_MAX]; /* JSON has only UTF-8, and the name of a file may be anything */
  hr_copy_text(clean, sizeof clean, text ? text : "");
  return clean[0] ? json_string(clean) : json_null();
}

/* Errors are not known to more than four places. */
static double rounded(double error)
{
  return round(1e4 * error) / 1e4;
}

static json_t *errors_of(const hr_calibrated_kind *kind)
{
  return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f}", "kind", hr_interval_kind_name(kind->kind), "size",
                   hr_calibrated_size_name(kind->size), "rows", (json_int_t)kind->rows, "before", rounded(kind->before),
                   "fitted", rounded(kind->fitted), "held_out", rounded(kind->held_out), "held_out_p90",
                   rounded(kind->held_out_p90));
}

/* Returns the mean over all rows. */
static double held_out_mean(const hr_validation *held)
{
  double logs = 0;
  for (size_t i = 0; i < held->row_count; i++)
    logs += log1p(held->rows[i].error);
  return expm1(logs / (double)held->row_count);
}

static json_t *calibrated(const hr_calibrate_result *result, const hr_calibrate_facts *facts)
{
  json_t *errors = json_array();
  for (size_t i = 0; i < result->kind_count; i++)
    json_array_append_new(errors, errors_of(&result->kinds[i]));
  return json_pack("{s:o, s:I, s:f, s:I, s:o, s:o, s:o, s:o}", "date", text_or_null(facts->date), "rows",
                   (json_int_t)result->rows, "held_out", rounded(held_out_mean(result->held_out)), "parts",
                   (json_int_t)result->folds, "source", text_or_null(facts->source), "driver",
                   text_or_null(facts->driver), "libraries", text_or_null(facts->libraries), "errors", errors);
}

static bool set_sources(json_t *root, const hr_calibrate_result *result, const hr_calibrate_facts *facts)
{
  char source[256], from[SOURCE_MAX];
  json_t *sources = json_object_get(root, "sources");
  if (!sources && json_object_set_new(root, "sources", sources = json_object()) != 0)
    return false;
  hr_copy_text(from, sizeof from, facts->source ? facts->source : "");
  snprintf(source, sizeof source, "fitted by headroom calibrate to %" PRId64 " rows%s%s%s%.24s", result->rows,
           from[0] ? ", " : "", from, facts->date ? ", " : "", facts->date ? facts->date : "");
  for (size_t i = 0; i < result->figure_count; i++) {
    if (json_object_set_new(sources, result->figures[i].field, json_string(source)) != 0)
      return false;
  }
  return json_object_set_new(sources, "intervals", json_string(source)) == 0 &&
         json_object_set_new(sources, "error_band", json_string(source)) == 0;
}

/* `all`: every figure of the fitted device, for what the root does not have. */
static bool fill(json_t *root, const json_t *all, const hr_calibrate_result *result, const hr_calibrate_facts *facts)
{
  bool done = true;
  static const char *const others[] = {"launch_ns", "error_band", "intervals"};
  for (size_t i = 0; i < result->figure_count; i++)
    done = done && set_field(root, all, result->figures[i].field);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    done = done && set_field(root, all, others[i]);
  done = done && json_object_set_new(root, "calibration", json_string(hr_calibration_name(facts->calibration))) == 0 &&
         json_object_set_new(root, "calibrated", calibrated(result, facts)) == 0;
  return done && set_sources(root, result, facts);
}

hr_status hr_calibrate_device_file(const hr_calibrate_result *result, const char *base, size_t length,
                                   const hr_calibrate_facts *facts, char **text, hr_error *error)
{
  HR_NEED(error, result, facts, text);
  HR_TAKE(hr_calibrate_facts, facts, error);
  json_t *all = hr_device_json(result->hardware), *root = NULL;
  hr_status status = HR_OK;
  if (base)
    status = hr_json_parse(base, length, "device file", &root, error);
  else
    root = json_deep_copy(all);
  char *written = NULL;
  if (status == HR_OK && all && root && fill(root, all, result, facts))
    written = hr_device_json_text(root);
  json_decref(all);
  json_decref(root);
  if (status != HR_OK)
    return status;
  if (!written)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a device file");
  *text = written;
  return HR_OK;
}

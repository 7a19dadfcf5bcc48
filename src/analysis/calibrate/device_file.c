/* SPDX-License-Identifier: Apache-2.0 */
/* The device file of a fit. */
#include <headroom/experimental/calibrate.h>

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "hardware/figures.h"
#include "json/json.h"

#include <headroom/experimental/hardware.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hr_calibrate_facts_init(hr_calibrate_facts *facts, size_t size)
{
  HR_INIT(facts, size, (hr_calibrate_facts){.calibration = HR_CALIBRATION_MEASURED});
}

/* ---- the fitted device ---- */

/* Sets "reach", "vllm.experts.sort_ns" or "tiles[2].share", whose rows come in order. */
static void put(json_t *to, const char *path, json_t *value)
{
  char name[64];
  const size_t length = strcspn(path, ".[");
  const bool row = path[length] == '[';
  hr_write_text(name, sizeof name, "%.*s", (int)length, path);
  if (path[length] == '\0') {
    json_object_set_new(to, name, value);
    return;
  }
  if (!json_object_get(to, name))
    json_object_set_new(to, name, row ? json_array() : json_object());
  json_t *holder = json_object_get(to, name);
  const size_t index = row ? strtoul(path + length + 1, NULL, 10) : 0;
  if (row && json_array_size(holder) == index)
    json_array_append_new(holder, json_object());
  put(row ? json_array_get(holder, index) : holder, strchr(path, '.') + 1, value);
}

/* A number that a reader would take for a missing one is left out. */
static void put_number(json_t *json, const hr_hardware *h, const hr_device_figure *figure, size_t index)
{
  char path[64];
  const double value = hr_device_figure_get(h, figure, index);
  if (value == figure->missing && (!figure->needed || figure->place == HR_PLACE_FORMATS))
    return;
  hr_device_figure_name(figure, index, path, sizeof path);
  put(json, path,
      figure->bounds->name ? json_string(figure->bounds->name((int)value))
      : figure->integer    ? json_integer(llround(value))
                           : json_real(value));
}

static void put_simt_formats(json_t *json, const hr_hardware *h)
{
  json_t *list = json_array();
  for (int i = 0; i < HR_DTYPE_COUNT; i++) {
    if (h->simt_formats[i])
      json_array_append_new(list, json_string(hr_dtype_name((hr_dtype)i)));
  }
  json_object_set_new(json, "simt_formats", list);
}

static void put_versions(json_t *json, const hr_hardware *h)
{
  const struct {
    const char *name, *version;
  } servers[] = {{"trtllm", h->trtllm.version}, {"vllm", h->vllm.version}, {"sglang", h->sglang.version}};
  for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
    json_t *server = json_object_get(json, servers[i].name);
    if (server)
      json_object_set_new(server, "version", json_string(servers[i].version));
  }
}

/* What a prediction of GEMMs, attention and decode needs, under the names of a device file; NULL without memory. */
static json_t *device_json(const hr_hardware *h)
{
  size_t count;
  bool known = true;
  const hr_device_figure *figures = hr_device_figures(&count);
  json_t *json =
      json_pack("{ssssss}", "name", h->about.name, "product", h->about.product, "architecture", h->about.architecture);
  if (!json)
    return NULL;
  put_simt_formats(json, h);
  for (size_t i = 0; i < count; i++) {
    const hr_device_figure *figure = &figures[i];
    if (figure->place != HR_PLACE_OBJECT)
      known =
          !figure->former && !(figure->object && strcmp(figure->object, "ceilings") == 0); /* those are the probe's */
    else if (i == 0 || !figures[i - 1].object || strcmp(figure->object, figures[i - 1].object) != 0)
      known = hr_device_figure_get(h, figure, 0) > 0; /* as the first number of a cost says */
    for (size_t at = 0; known && at < hr_device_figure_numbers(h, figure); at++)
      put_number(json, h, figure, at);
  }
  put_versions(json, h);
  return json;
}

/* ---- text ---- */

#define JOINED_MAX 400 /* bytes of an object or list, with its indents, that is put into a line */

/* Puts short objects and lists without others in them into a line. Strings have no line ends. */
static void join_lines(char *text)
{
  char *to = text;
  const char *line_end = text;
  for (const char *from = text; *from; from++) {
    const char *end = *from == '{' || *from == '[' ? strpbrk(from + 1, "{}[]") : NULL;
    if (end && (*end == '}' || *end == ']') && end - from < JOINED_MAX)
      line_end = end;
    if (*from == '\n' && from < line_end) {
      from += strspn(from, "\n ") - 1;
      if (to[-1] == ',')
        *to++ = ' ';
    } else
      *to++ = *from;
  }
  *to = '\0';
}

/* NULL without memory. */
static char *text_of(const json_t *root)
{
  char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(7));
  char *longer = text ? realloc(text, strlen(text) + sizeof "\n") : NULL;
  if (!longer) {
    free(text);
    return NULL;
  }
  join_lines(longer);
  return strcat(longer, "\n"); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy): it has room */
}

/* ---- the file ---- */

/* Sets a member of a device to that of the fitted one, which lacks lists without rows. An object keeps what it alone
 * has. */
static bool set_field(json_t *root, json_t *all, const char *field)
{
  json_t *own = json_object_get(root, field), *fitted = json_object_get(all, field);
  if (!fitted)
    return true;
  return (json_is_object(own) ? json_object_update(own, fitted) : json_object_set(root, field, fitted)) == 0;
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
static bool fill(json_t *root, json_t *all, const hr_calibrate_result *result, const hr_calibrate_facts *facts)
{
  bool done = true;
  static const char *const others[] = {"launch_ns", "error_band", "intervals"};
  for (size_t i = 0; i < result->figure_count; i++) {
    if (result->figures[i].after == 0) /* the device that it is like may have another */
      put(all, result->figures[i].name, json_integer(0));
  }
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
  json_auto_t *all = device_json(result->hardware), *root = NULL;
  if (base)
    HR_TRY(hr_json_parse(base, length, "device file", &root, error));
  else
    root = json_deep_copy(all);
  char *written = all && root && fill(root, all, result, facts) ? text_of(root) : NULL;
  if (!written)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a device file");
  *text = written;
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Device files: data/hardware/<name>.json and data/architectures/<name>.json, described in docs/hardware.md and
 * docs/notes/hardware.md. */
#include <headroom/experimental/device_file.h>

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "catalog/embedded.h"
#include "hardware/figures.h"
#include "hardware/file/former_names.h"
#include "json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_COUNT ((int64_t)1 << 60)

static hr_status read_text(const hr_json_reader *reader, const char *field, char *to, size_t size)
{
  const char *text = NULL;
  HR_TRY(hr_json_string_or(reader, field, NULL, &text));
  hr_copy_text(to, size, text);
  return HR_OK;
}

static hr_status read_names(const hr_json_reader *reader, hr_hardware *hardware)
{
  HR_TRY(read_text(reader, "name", hardware->about.name, sizeof hardware->about.name));
  HR_TRY(read_text(reader, "product", hardware->about.product, sizeof hardware->about.product));
  return read_text(reader, "architecture", hardware->about.architecture, sizeof hardware->about.architecture);
}

/* ---- figures ---- */

static hr_status read_count(const hr_json_reader *reader, const hr_device_figure *figure, double *value)
{
  int64_t count, least = figure->zero ? 0 : (int64_t)figure->bounds->least;
  HR_TRY(hr_json_integer(reader, figure->field, least, (int64_t)figure->bounds->most, &count));
  *value = (double)count;
  return HR_OK;
}

#define WORDS_MAX 32

/* The enumerator that the file names. */
static hr_status read_word(const hr_json_reader *reader, const hr_device_figure *figure, double *value)
{
  const char *names[WORDS_MAX];
  int count = 0, found;
  for (; count < WORDS_MAX && count <= (int)figure->bounds->most && strcmp(figure->bounds->name(count), "unknown") != 0;
       count++)
    names[count] = figure->bounds->name(count);
  HR_TRY(hr_json_choice_or(reader, figure->field, names, (size_t)count, NULL, &found));
  *value = found;
  return HR_OK;
}

/* `field`: the figure's, or a format. */
static hr_status read_figure(const hr_json_reader *reader, const hr_device_figure *figure, const char *field,
                             size_t index, hr_hardware *hardware)
{
  double value = figure->missing, least = figure->bounds->least, most = figure->bounds->most;
  bool given = hr_json_has(reader, field);
  if (!given && figure->former)
    return HR_OK;
  if (given || figure->needed)
    HR_TRY(figure->bounds->name ? read_word(reader, figure, &value)
           : figure->integer    ? read_count(reader, figure, &value)
                                : hr_json_number(reader, field, figure->zero ? 0 : least, most, &value));
  if (given && !hr_device_figure_allows(figure, value))
    return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected 0 or %g to %g, found %g", least, most, value);
  hr_device_figure_set(hardware, figure, index, value);
  return HR_OK;
}

/* An object with one number per format; missing formats stay 0. */
static hr_status read_formats(const hr_json_reader *reader, const hr_device_figure *figure, hr_hardware *hardware)
{
  const json_t *object = json_object_get(reader->object, figure->object);
  if (!figure->needed && !hr_json_has(reader, figure->object))
    return HR_OK;
  if (!json_is_object(object))
    return hr_json_fail(reader, figure->object, HR_ERROR_INVALID, "expected an object with a number for each format");
  char path[64];
  snprintf(path, sizeof path, "%s.", figure->object);
  const hr_json_reader inner = {object, reader->input, path, reader->error};
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value)
  {
    hr_dtype dtype;
    if (hr_dtype_parse(key, &dtype) != HR_OK)
      return hr_json_fail(reader, figure->object, HR_ERROR_INVALID, "\"%.40s\" is not a number format", key);
    HR_TRY(read_figure(&inner, figure, key, (size_t)dtype, hardware));
  }
  return HR_OK;
}

/* A number of an object that the file may not have; "vllm.experts" is one in another. */
static hr_status read_cost(const hr_json_reader *reader, const char *object, const hr_device_figure *figure,
                           hr_hardware *hardware)
{
  char name[64], path[128];
  const size_t length = strcspn(object, ".");
  hr_write_text(name, sizeof name, "%.*s", (int)length, object);
  if (!hr_json_has(reader, name))
    return HR_OK;
  snprintf(path, sizeof path, "%s%s.", reader->path, name);
  const hr_json_reader inner = {json_object_get(reader->object, name), reader->input, path, reader->error};
  if (!json_is_object(inner.object))
    return hr_json_fail(reader, name, HR_ERROR_INVALID, "expected an object");
  return object[length] == '.' ? read_cost(&inner, object + length + 1, figure, hardware)
                               : read_figure(&inner, figure, figure->field, 0, hardware);
}

/* A column of a list of objects; a missing list is empty. */
static hr_status read_column(const hr_json_reader *reader, const hr_device_figure *figure, hr_hardware *hardware)
{
  const json_t *rows = json_object_get(reader->object, figure->object);
  if (!hr_json_has(reader, figure->object))
    return HR_OK;
  if (!json_is_array(rows) || json_array_size(rows) > figure->most)
    return hr_json_fail(reader, figure->object, HR_ERROR_INVALID, "expected a list of at most %zu objects",
                        figure->most);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    char path[64];
    snprintf(path, sizeof path, "%s[%zu].", figure->object, i);
    const hr_json_reader row = {json_array_get(rows, i), reader->input, path, reader->error};
    if (!json_is_object(row.object))
      return hr_json_fail(reader, figure->object, HR_ERROR_INVALID, "expected a list of objects");
    HR_TRY(read_figure(&row, figure, figure->field, i, hardware));
  }
  hr_device_figure_resize(hardware, figure, json_array_size(rows));
  return HR_OK;
}

static hr_status read_figures(const hr_json_reader *reader, hr_hardware *hardware)
{
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  for (size_t i = 0; i < count; i++) {
    switch (figures[i].place) {
    case HR_PLACE_ALONE: HR_TRY(read_figure(reader, &figures[i], figures[i].field, 0, hardware)); break;
    case HR_PLACE_FORMATS: HR_TRY(read_formats(reader, &figures[i], hardware)); break;
    case HR_PLACE_OBJECT: HR_TRY(read_cost(reader, figures[i].object, &figures[i], hardware)); break;
    case HR_PLACE_LIST: HR_TRY(read_column(reader, &figures[i], hardware)); break;
    }
  }
  return HR_OK;
}

/* ---- words ---- */

/* A list of names of formats. */
static hr_status read_simt_formats(const hr_json_reader *reader, hr_hardware *hardware)
{
  static const char field[] = "simt_formats";
  const json_t *list = json_object_get(reader->object, field);
  if (list && !json_is_array(list))
    return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected a list of number formats");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    hr_dtype dtype;
    if (!name || hr_dtype_parse(name, &dtype) != HR_OK)
      return hr_json_fail(reader, field, HR_ERROR_INVALID, "\"%.40s\" is not a number format", name ? name : "");
    hardware->simt_formats[dtype] = true;
  }
  return HR_OK;
}

/* What ceilings have besides their figures. */
static hr_status read_instructions(const hr_json_reader *reader, hr_hardware *hardware)
{
  for (size_t i = 0; i < hardware->ceiling_count; i++) {
    char path[32];
    hr_ceiling *ceiling = &hardware->ceilings[i];
    snprintf(path, sizeof path, "ceilings[%zu].", i);
    const json_t *object = json_array_get(json_object_get(reader->object, "ceilings"), i);
    const hr_json_reader row = {object, reader->input, path, reader->error};
    if (ceiling->kind == HR_CEILING_GEMM && !hr_json_has(&row, "dtype"))
      return hr_json_fail(&row, "dtype", HR_ERROR_INVALID, "is missing");
    HR_TRY(read_text(&row, "instruction", ceiling->instruction, sizeof ceiling->instruction));
  }
  return HR_OK;
}

/* What hr_calibrate_device_file() says about the fit. */
static hr_status read_calibrated(const hr_json_reader *reader, hr_hardware *hardware)
{
  static const char field[] = "calibrated";
  if (!hr_json_has(reader, field))
    return HR_OK;
  const char *date = NULL;
  int64_t rows = 0;
  double held_out = 0;
  const hr_json_reader inner = {json_object_get(reader->object, field), reader->input, "calibrated.", reader->error};
  if (!json_is_object(inner.object))
    return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected an object");
  HR_TRY(hr_json_string_or(&inner, "date", "", &date));
  HR_TRY(hr_json_integer(&inner, "rows", 1, MAX_COUNT, &rows));
  HR_TRY(hr_json_number(&inner, "held_out", 0, 1e6, &held_out));
  hr_write_text(hardware->about.calibrated, sizeof hardware->about.calibrated, "%.24s%s%" PRId64 " rows, %.1f%% off",
                date, date[0] ? ", " : "", rows, 100 * held_out);
  return HR_OK;
}

/* The versions of servers whose kernels the file has costs of. */
static hr_status read_versions(const hr_json_reader *reader, hr_hardware *hardware)
{
  const struct {
    const char *name;
    hr_server_cost *cost;
  } servers[] = {{"trtllm", &hardware->trtllm}, {"vllm", &hardware->vllm}, {"sglang", &hardware->sglang}};
  for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
    char path[16];
    snprintf(path, sizeof path, "%s.", servers[i].name);
    const hr_json_reader inner = {json_object_get(reader->object, servers[i].name), reader->input, path, reader->error};
    if (inner.object)
      HR_TRY(read_text(&inner, "version", servers[i].cost->version, sizeof servers[i].cost->version));
  }
  return HR_OK;
}

static hr_status read_hardware(const hr_json_reader *reader, hr_hardware *hardware)
{
  HR_TRY(read_names(reader, hardware));
  HR_TRY(read_figures(reader, hardware));
  HR_TRY(read_calibrated(reader, hardware));
  HR_TRY(read_versions(reader, hardware));
  HR_TRY(read_simt_formats(reader, hardware));
  HR_TRY(read_instructions(reader, hardware));
  return HR_OK;
}

/* Whether a device says it of itself: its names, the figures of its datasheet, how it is connected, and where its own
 * measurements lie. All others may come from the device that it is like. */
static bool is_own(const char *field)
{
  static const char *const words[] = {"name", "product", "architecture", "aliases", "calibrated", "sources"};
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(words[i], field) == 0)
      return true;
  }
  for (size_t i = 0; i < count; i++) {
    if (figures[i].own && strcmp(figures[i].object ? figures[i].object : figures[i].field, field) == 0)
      return true;
  }
  return false;
}

/* Sets what `root` lacks of `known`; `members`: also what its objects lack. */
static void take_missing(json_t *root, json_t *known, bool members)
{
  const char *field;
  json_t *value;
  json_object_foreach(known, field, value)
  {
    json_t *own = json_object_get(root, field);
    if (is_own(field))
      continue;
    if (!own)
      json_object_set(root, field, value);
    else if (members && json_is_object(own))
      json_object_update_missing(own, value);
  }
}

/* Reads the file of the device's architecture, if there is one, and takes the figures that the device lacks. */
static hr_status take_architecture(const hr_json_reader *reader, json_t *root, json_t **known)
{
  const char *name = json_string_value(json_object_get(root, "architecture"));
  const hr_catalog_entry *entry = hr_find_entry(hr_embedded_architectures, hr_embedded_architectures_count, name);
  if (!entry)
    return HR_OK;
  HR_TRY(hr_json_parse(entry->text, entry->length, entry->name, known, reader->error));
  take_missing(root, *known, true);
  return HR_OK;
}

/* The figures that the file lacks, of the built-in device that it names and that device's architecture. */
static hr_status take_figures(const hr_json_reader *reader, json_t *root)
{
  const char *name = NULL;
  json_auto_t *like = NULL, *architecture = NULL;
  HR_TRY(hr_json_string_or(reader, "like", "", &name));
  const hr_catalog_entry *entry = hr_find_entry(hr_embedded_hardware, hr_embedded_hardware_count, name);
  if (!entry)
    return name[0] ? hr_json_fail(reader, "like", HR_ERROR_INVALID, "\"%.40s\" is not a built-in device", name) : HR_OK;
  HR_TRY(hr_json_parse(entry->text, entry->length, entry->name, &like, reader->error));
  if (json_object_get(like, "like"))
    return hr_json_fail(reader, "like", HR_ERROR_INVALID, "\"%.40s\" is itself like another device", name);
  HR_TRY(take_architecture(reader, like, &architecture));
  take_missing(root, like, false);
  return HR_OK;
}

/* GEMMs of a device that has not been measured have the band of its architecture's figures at least. */
static void widen_band(hr_hardware *hardware, const json_t *architecture)
{
  for (size_t i = 0; i < hardware->interval_count; i++) {
    if (hardware->intervals[i].kind == HR_INTERVAL_GEMM)
      return;
  }
  hardware->error_band = fmax(hardware->error_band, json_number_value(json_object_get(architecture, "error_band")));
}

static hr_status read_file(const hr_input *input, hr_hardware *hardware, hr_error *error)
{
  json_auto_t *root = NULL, *architecture = NULL;
  HR_TRY(hr_json_parse(input->text, input->length, input->name, &root, error));
  const hr_json_reader reader = {root, input->name, "", error};
  HR_TRY(hr_take_former_names(&reader, root));
  HR_TRY(take_figures(&reader, root));
  HR_TRY(take_architecture(&reader, root, &architecture));
  HR_TRY(read_hardware(&reader, hardware));
  widen_band(hardware, architecture);
  return HR_OK;
}

hr_status hr_hardware_from_json(const hr_input *input, hr_hardware *hardware, hr_error *error)
{
  HR_NEED(error, input, hardware);
  const char *text = input->text, *name = input->name;
  HR_NEED(error, text, name);
  hr_hardware read = hr_hardware_default();
  HR_TRY(read_file(input, &read, error));
  hr_error problem;
  hr_status status = hr_hardware_check(&read, &problem);
  if (status != HR_OK)
    return hr_fail(error, status, "%s: %s", name, problem.message);
  *hardware = read;
  return HR_OK;
}

bool hr_hardware_has_alias(const char *text, size_t length, const char *name)
{
  json_auto_t *root = NULL;
  if (hr_json_parse(text, length, "device", &root, NULL) != HR_OK)
    return false;
  const json_t *aliases = json_object_get(root, "aliases");
  for (size_t i = 0; i < json_array_size(aliases); i++) {
    const char *alias = json_string_value(json_array_get(aliases, i));
    if (alias && strcasecmp(alias, name) == 0)
      return true;
  }
  return false;
}

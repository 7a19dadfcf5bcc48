/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/calibrate/device_json.h"

#include "base/text.h"
#include "hardware/figures.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/hardware.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a row of a list has besides its numbers. */
static void put_words(json_t *row, const hr_hardware *h, const char *list, size_t index)
{
  const hr_interval *interval = &h->intervals[index];
  const hr_collective_rate *rate = &h->collectives[index];
  if (strcmp(list, "intervals") == 0) {
    json_object_set_new(row, "kind", json_string(hr_interval_kind_name(interval->kind)));
    if (interval->dtype != HR_DTYPE_COUNT)
      json_object_set_new(row, "dtype", json_string(hr_dtype_name(interval->dtype)));
  }
  if (strcmp(list, "collectives") == 0) {
    json_object_set_new(row, "library", json_string(hr_collective_library_name(rate->library)));
    json_object_set_new(row, "kind", json_string(hr_collective_name(rate->kind)));
  }
}

/* A number that a reader would take for a missing one is left out. */
static void put_number(json_t *to, const hr_hardware *h, const hr_device_figure *figure, size_t index)
{
  double value = hr_device_figure_get(h, figure, index);
  if (figure->needed || value != figure->missing)
    json_object_set_new(to, figure->field, figure->integer ? json_integer(llround(value)) : json_real(value));
}

static void put_formats(json_t *json, const hr_hardware *h, const hr_device_figure *figure)
{
  json_t *formats = json_object();
  for (size_t i = 0; i < HR_DTYPE_COUNT; i++) {
    double value = hr_device_figure_get(h, figure, i);
    if (value > 0)
      json_object_set_new(formats, hr_dtype_name((hr_dtype)i), json_real(value));
  }
  json_object_set_new(json, figure->object, formats);
}

/* Costs of kernels are known whose first number is above 0. "vllm.experts" is an object in another. */
static void put_cost(json_t *json, const hr_hardware *h, const hr_device_figure *figure, bool first)
{
  char outer[32];
  const size_t length = strcspn(figure->object, ".");
  hr_write_text(outer, sizeof outer, "%.*s", (int)length, figure->object);
  const bool nested = figure->object[length] == '.';
  const char *name = nested ? figure->object + length + 1 : outer;
  json_t *holder = nested ? json_object_get(json, outer) : json;
  if (first && hr_device_figure_get(h, figure, 0) > 0) {
    if (!holder)
      json_object_set_new(json, outer, holder = json_object());
    json_object_set_new(holder, name, json_object());
  }
  json_t *cost = json_object_get(holder, name);
  if (cost)
    put_number(cost, h, figure, 0);
}

static void put_column(json_t *json, const hr_hardware *h, const hr_device_figure *figure, bool first)
{
  const size_t count = hr_device_figure_numbers(h, figure);
  if (first)
    json_object_set_new(json, figure->object, json_array());
  json_t *list = json_object_get(json, figure->object);
  for (size_t i = 0; i < count; i++) {
    if (first) {
      json_array_append_new(list, json_object());
      put_words(json_array_get(list, i), h, figure->object, i);
    }
    put_number(json_array_get(list, i), h, figure, i);
  }
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

/* The ceilings are the probe's. */
static bool is_left_out(const hr_device_figure *figure)
{
  return figure->former || (figure->object && strcmp(figure->object, "ceilings") == 0);
}

json_t *hr_device_json(const hr_hardware *h)
{
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  json_t *json = json_pack("{ssssssssss}", "name", h->about.name, "product", h->about.product, "kind",
                           h->about.kind == HR_HARDWARE_GPU ? "gpu" : "cpu", "architecture", h->about.architecture,
                           "calibration", hr_calibration_name(h->about.calibration));
  if (!json)
    return NULL;
  put_simt_formats(json, h);
  for (size_t i = 0; i < count; i++) {
    const hr_device_figure *figure = &figures[i];
    const char *before = i > 0 && figures[i - 1].object ? figures[i - 1].object : "";
    const bool first = figure->object && strcmp(figure->object, before) != 0;
    if (is_left_out(figure))
      continue;
    switch (figure->place) {
    case HR_PLACE_ALONE: put_number(json, h, figure, 0); break;
    case HR_PLACE_FORMATS: put_formats(json, h, figure); break;
    case HR_PLACE_OBJECT: put_cost(json, h, figure, first); break;
    case HR_PLACE_LIST: put_column(json, h, figure, first); break;
    }
  }
  put_versions(json, h);
  return json;
}

/* ---- text ---- */

typedef struct text_builder {
  char *text;
  size_t used, size;
  bool failed;
} text_builder;

static void add(text_builder *to, const char *text)
{
  size_t length = strlen(text);
  if (!to->failed && to->used + length >= to->size) {
    size_t size = 2 * (to->used + length) + 256;
    char *more = realloc(to->text, size);
    to->failed = !more;
    to->text = more ? more : to->text;
    to->size = more ? size : to->size;
  }
  if (!to->failed)
    memcpy(to->text + to->used, text, length + 1);
  to->used += to->failed ? 0 : length;
}

static void add_value(text_builder *to, const json_t *value)
{
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(7));
  to->failed = to->failed || !text;
  add(to, text ? text : "");
  free(text);
}

static void add_list(text_builder *to, const json_t *list, const char *indent)
{
  size_t i;
  json_t *row;
  add(to, "[");
  json_array_foreach(list, i, row)
  {
    add(to, i > 0 ? ",\n" : "\n");
    add(to, indent);
    add(to, "  ");
    add_value(to, row);
  }
  add(to, "\n");
  add(to, indent);
  add(to, "]");
}

static bool is_list_of_objects(const json_t *value)
{
  return json_is_array(value) && json_is_object(json_array_get(value, 0));
}

#define MEMBERS_IN_A_LINE 8

static bool is_long(const json_t *object)
{
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value)
  {
    if (is_list_of_objects(value))
      return true;
  }
  return json_object_size(object) > MEMBERS_IN_A_LINE;
}

/* An object with a member a line, and in it objects of the same form; `depth` 0 or 1. */
static void add_object(text_builder *to, const json_t *object, int depth)
{
  const char *key, *indent = depth > 0 ? "    " : "  ";
  json_t *value;
  bool first = true;
  add(to, "{\n");
  json_object_foreach((json_t *)object, key, value)
  {
    json_t *name = json_string(key);
    add(to, first ? indent : ",\n");
    add(to, first ? "" : indent);
    add_value(to, name);
    add(to, ": ");
    json_decref(name);
    if (is_list_of_objects(value))
      add_list(to, value, indent);
    else if (json_is_object(value) && depth == 0 && is_long(value))
      add_object(to, value, depth + 1); /* "calibrated" and "sources" */
    else
      add_value(to, value);
    first = false;
  }
  add(to, depth > 0 ? "\n  }" : "\n}\n");
}

char *hr_device_json_text(const json_t *root)
{
  text_builder to = {.text = NULL};
  add_object(&to, root, 0);
  if (to.failed) {
    free(to.text);
    return NULL;
  }
  return to.text;
}

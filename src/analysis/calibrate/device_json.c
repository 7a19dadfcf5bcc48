/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/calibrate/device_json.h"

#include "hardware/figures.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/hardware.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BEYOND_ALL 1e18 /* hr_interval.below_ns without an end */

static void put_number(json_t *json, const char *name, double value)
{
  if (value > 0)
    json_object_set_new(json, name, json_real(value));
}

static void put_count(json_t *json, const char *name, int64_t value)
{
  if (value > 0)
    json_object_set_new(json, name, json_integer(value));
}

static json_t *by_format(const double *values)
{
  json_t *json = json_object();
  for (int i = 0; i < HR_DTYPE_COUNT; i++)
    put_number(json, hr_dtype_name((hr_dtype)i), values[i]);
  return json;
}

static json_t *tiles_of(const hr_tile *tiles, size_t count)
{
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(
        list, json_pack("{sIsIsf}", "m", (json_int_t)tiles[i].m, "n", (json_int_t)tiles[i].n, "share", tiles[i].share));
  return list;
}

static json_t *alignments_of(const hr_hardware *h)
{
  json_t *list = json_array();
  for (size_t i = 0; i < h->alignment_count; i++) {
    const hr_alignment_class *class = &h->alignments[i];
    json_t *row = json_pack("{sIsfsf}", "bytes", (json_int_t) class->bytes, "gemm_share", class->gemm_share,
                            "bmm_share", class->bmm_share);
    put_number(row, "result_share", class->result_share);
    json_array_append_new(list, row);
  }
  return list;
}

static json_t *attentions_of(const hr_hardware *h)
{
  json_t *list = json_array();
  for (size_t i = 0; i < h->attention_count; i++) {
    const hr_attention_share *share = &h->attentions[i];
    json_t *row = json_pack("{sIsfsf}", "head_dim", (json_int_t)share->head_dim, "forward_share", share->forward_share,
                            "backward_share", share->backward_share);
    put_number(row, "headroom_share", share->headroom_share);
    if (share->short_share > 0)
      put_number(row, "short_share", share->short_share);
    if (share->headroom_backward_share > 0)
      put_number(row, "headroom_backward_share", share->headroom_backward_share);
    if (share->full_share > 0)
      put_number(row, "full_share", share->full_share);
    json_array_append_new(list, row);
  }
  return list;
}

static json_t *intervals_of(const hr_hardware *h)
{
  json_t *list = json_array();
  for (size_t i = 0; i < h->interval_count; i++) {
    const hr_interval *interval = &h->intervals[i];
    json_t *row = json_pack("{ss}", "kind", hr_interval_kind_name(interval->kind));
    if (interval->dtype != HR_DTYPE_COUNT)
      json_object_set_new(row, "dtype", json_string(hr_dtype_name(interval->dtype)));
    if (interval->below_ns < BEYOND_ALL)
      put_number(row, "below_ns", interval->below_ns);
    put_number(row, "low", round(1000 * interval->low) / 1000);
    put_number(row, "high", round(1000 * interval->high) / 1000);
    json_array_append_new(list, row);
  }
  return list;
}

static json_t *collectives_of(const hr_hardware *h)
{
  json_t *list = json_array();
  for (size_t i = 0; i < h->collective_count; i++) {
    const hr_collective_rate *rate = &h->collectives[i];
    json_t *row = json_pack("{sssssI}", "library", hr_collective_library_name(rate->library), "kind",
                            hr_collective_name(rate->kind), "devices", (json_int_t)rate->devices);
    put_count(row, "nodes", rate->nodes);
    json_object_set_new(row, "latency_ns", json_real(round(rate->latency_ns)));
    json_object_set_new(row, "bus_bytes_per_s", json_real(rate->bus_bytes_per_s));
    json_object_set_new(row, "ramp", json_real(round(1000 * rate->ramp) / 1000));
    json_object_set_new(row, "error_band", json_real(rate->error_band));
    json_array_append_new(list, row);
  }
  return list;
}

static void put_numbers(json_t *json, const hr_hardware *h)
{
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"clock_hz", h->clock_hz},
                 {"bandwidth_bytes_per_s", h->bandwidth_bytes_per_s},
                 {"bandwidth_share", h->bandwidth_share},
                 {"load_share", h->load_share},
                 {"store_share", h->store_share},
                 {"softmax_share", h->softmax_share},
                 {"norm_share", h->norm_share},
                 {"activation_share", h->activation_share},
                 {"store_exposed", h->store_exposed},
                 {"boost", h->boost},
                 {"burst", h->burst},
                 {"cache_bytes_per_s", h->cache_bytes_per_s},
                 {"l2_bytes_per_s", h->l2_bytes_per_s},
                 {"reach", h->reach},
                 {"split_ns", h->split_ns},
                 {"row_share", h->row_share},
                 {"small_tile_share", h->small_tile_share},
                 {"gemm_launch_ns", h->gemm_launch_ns},
                 {"gemm_busy_ns", h->gemm_busy_ns},
                 {"gemm_step_ns", h->gemm_step_ns},
                 {"attention_block_ns", h->attention_block_ns}};
  const struct {
    const char *name;
    int64_t value;
  } counts[] = {{"multiprocessors", h->multiprocessors},
                {"blocks_per_multiprocessor", h->blocks_per_multiprocessor},
                {"memory_bytes", h->memory_bytes},
                {"l2_bytes", h->l2_bytes},
                {"shared_bytes", h->shared_bytes},
                {"tile_k_bytes", h->tile_k_bytes},
                {"split_k_bytes", h->split_k_bytes},
                {"split_gemm_size", h->split_gemm_size},
                {"simt_batched_tiles", h->simt_batched_tiles},
                {"long_row_bytes", h->long_row_bytes}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    put_count(json, counts[i].name, counts[i].value);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    put_number(json, numbers[i].name, numbers[i].value);
  json_object_set_new(json, "launch_ns", json_real(h->launch_ns));
  json_object_set_new(json, "error_band", json_real(h->error_band));
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

/* Costs of kernels that are known: objects whose first number is above 0. */
static void put_costs(json_t *json, const hr_hardware *h)
{
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  json_t *object = NULL;
  for (size_t i = 0; i < count; i++) {
    if (figures[i].place != HR_PLACE_OBJECT)
      continue;
    double value = hr_device_figure_get(h, &figures[i], 0);
    bool first = strcmp(figures[i].object, figures[i - 1].object ? figures[i - 1].object : "") != 0;
    if (first)
      object = value > 0 ? json_object() : NULL;
    if (first && object)
      json_object_set_new(json, figures[i].object, object);
    if (object)
      put_number(object, figures[i].field, value);
  }
}

json_t *hr_device_json(const hr_hardware *h)
{
  json_t *json = json_pack("{sssssssssssoso}", "name", h->about.name, "product", h->about.product, "kind",
                           h->about.kind == HR_HARDWARE_GPU ? "gpu" : "cpu", "architecture", h->about.architecture,
                           "calibration", hr_calibration_name(h->about.calibration), "dense_flops_per_s",
                           by_format(h->dense_flops_per_s), "library_share", by_format(h->library_share));
  if (!json)
    return NULL;
  put_numbers(json, h);
  put_simt_formats(json, h);
  json_object_set_new(json, "tiles", tiles_of(h->tiles, h->tile_count));
  if (h->simt_tile_count > 0)
    json_object_set_new(json, "simt_tiles", tiles_of(h->simt_tiles, h->simt_tile_count));
  json_object_set_new(json, "alignments", alignments_of(h));
  json_object_set_new(json, "attentions", attentions_of(h));
  put_costs(json, h);
  if (h->collective_count > 0)
    json_object_set_new(json, "collectives", collectives_of(h));
  json_object_set_new(json, "intervals", intervals_of(h));
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Device files: data/hardware/<name>.json, described in docs/hardware.md. */
#include <headroom/hardware.h>

#include "analysis/hardware/costs.h"
#include "analysis/hardware/enumerator_names.h"
#include "base/error.h"
#include "base/json.h"
#include "base/names.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MOST_COUNT ((int64_t)1 << 60)

static hr_status read_text(const hr_json_reader *reader, const char *field, char *to, size_t size)
{
  const char *text = NULL;
  HR_TRY(hr_json_string_or(reader, field, NULL, &text));
  hr_copy_text(to, size, text);
  return HR_OK;
}

static hr_status read_choice(const hr_json_reader *reader, const char *field, const char *const *names, size_t count,
                             int *value)
{
  const char *text = NULL;
  HR_TRY(hr_json_string_or(reader, field, NULL, &text));
  if (hr_name_find(names, count, text, value) == HR_OK)
    return HR_OK;
  char expected[96] = "";
  for (size_t i = 0; i < count; i++) {
    size_t used = strlen(expected);
    snprintf(expected + used, sizeof expected - used, "%s%s", i ? ", " : "", names[i]);
  }
  return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected one of %s, found \"%.40s\"", expected, text);
}

static hr_status read_names(const hr_json_reader *reader, hr_hardware *hardware)
{
  static const char *const kinds[] = {"gpu", "cpu"};
  int kind = 0, calibration = 0;
  HR_TRY(read_text(reader, "name", hardware->name, sizeof hardware->name));
  HR_TRY(read_text(reader, "product", hardware->product, sizeof hardware->product));
  HR_TRY(read_text(reader, "architecture", hardware->architecture, sizeof hardware->architecture));
  HR_TRY(read_choice(reader, "kind", kinds, 2, &kind));
  HR_TRY(read_choice(reader, "calibration", hr_calibration_names, HR_CALIBRATION_COUNT, &calibration));
  hardware->kind = (hr_hardware_kind)kind;
  hardware->calibration = (hr_calibration)calibration;
  return HR_OK;
}

static hr_status read_counts(const hr_json_reader *reader, hr_hardware *hardware)
{
  const struct {
    const char *field;
    int64_t least, fallback; /* fallback −1: required */
    int64_t *value;
  } fields[] = {
      {"multiprocessors", 1, -1, &hardware->multiprocessors},
      {"blocks_per_multiprocessor", 1, 1, &hardware->blocks_per_multiprocessor},
      {"memory_bytes", 1, -1, &hardware->memory_bytes},
      {"l2_bytes", 0, 0, &hardware->l2_bytes},
      {"shared_bytes", 0, 0, &hardware->shared_bytes},
      {"tile_k_bytes", 0, 0, &hardware->tile_k_bytes},
      {"split_k_bytes", 0, 0, &hardware->split_k_bytes},
      {"split_products", 0, 0, &hardware->split_products},
      {"vector_batched_tiles", 0, 0, &hardware->vector_batched_tiles},
      {"long_row_bytes", 0, 0, &hardware->long_row_bytes},
      {"narrow_k_bytes", 0, 0, &hardware->narrow_k_bytes},
      {"narrow_split_bytes", 0, 0, &hardware->narrow_split_bytes},
      {"odd_split_bytes", 0, 0, &hardware->odd_split_bytes},
      {"devices_per_node", 0, 0, &hardware->devices_per_node},
  };
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (fields[i].fallback < 0)
      HR_TRY(hr_json_integer(reader, fields[i].field, fields[i].least, MOST_COUNT, fields[i].value));
    else
      HR_TRY(hr_json_integer_or(reader, fields[i].field, fields[i].least, MOST_COUNT, fields[i].fallback,
                                fields[i].value));
  }
  return HR_OK;
}

static hr_status read_numbers(const hr_json_reader *reader, hr_hardware *hardware)
{
  const struct {
    const char *field;
    double most, fallback; /* fallback −1: required */
    double *value;
  } fields[] = {
      {"error_band", 100, -1, &hardware->error_band},
      {"clock_hz", 1e12, 0, &hardware->clock_hz},
      {"int8_ops_per_s", 1e21, 0, &hardware->int8_ops_per_s},
      {"bandwidth_bytes_per_s", 1e18, -1, &hardware->bandwidth_bytes_per_s},
      {"bandwidth_share", 1, -1, &hardware->bandwidth_share},
      {"load_share", 1, 0, &hardware->load_share},
      {"store_share", 1, 0, &hardware->store_share},
      {"sector_store_share", 1, 0, &hardware->sector_store_share},
      {"softmax_share", 1, 0, &hardware->softmax_share},
      {"norm_share", 1, 0, &hardware->norm_share},
      {"activation_share", 1, 0, &hardware->activation_share},
      {"store_exposed", 1, 0, &hardware->store_exposed},
      {"boost", 4, 0, &hardware->boost},
      {"burst", 4, 0, &hardware->burst},
      {"cache_bytes_per_s", 1e18, 0, &hardware->cache_bytes_per_s},
      {"reach", 1e6, 0, &hardware->reach},
      {"split_ns", 1e9, 0, &hardware->split_ns},
      {"row_share", 1, 0, &hardware->row_share},
      {"small_tile_share", 1, 0, &hardware->small_tile_share},
      {"launch_ns", 1e9, -1, &hardware->launch_ns},
      {"product_launch_ns", 1e9, 0, &hardware->product_launch_ns},
      {"product_busy_ns", 1e9, 0, &hardware->product_busy_ns},
      {"product_step_ns", 1e9, 0, &hardware->product_step_ns},
      {"narrow_store", 1000, 0, &hardware->narrow_store},
      {"attention_block_ns", 1e9, 0, &hardware->attention_block_ns},
      {"prefill_launch_ns", 1e9, 0, &hardware->prefill_launch_ns},
      {"attention_launch_ns", 1e9, 0, &hardware->decode_framework.launch_ns}, /* former names */
      {"decode_launch_ns", 1e9, 0, &hardware->decode_headroom.launch_ns},
      {"interconnect_bytes_per_s", 1e18, 0, &hardware->interconnect_bytes_per_s},
      {"interconnect_latency_ns", 1e9, 0, &hardware->interconnect_latency_ns},
      {"network_bytes_per_s", 1e18, 0, &hardware->network_bytes_per_s},
      {"network_latency_ns", 1e9, 0, &hardware->network_latency_ns},
  };
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (fields[i].fallback < 0)
      HR_TRY(hr_json_number(reader, fields[i].field, 0, fields[i].most, fields[i].value));
    else
      HR_TRY(hr_json_number_or(reader, fields[i].field, 0, fields[i].most, fields[i].fallback, fields[i].value));
  }
  return HR_OK;
}

/* An object with one number per format; missing formats stay 0. */
static hr_status read_by_dtype(const hr_json_reader *reader, const char *field, double most, bool required,
                               double *values)
{
  if (!required && !hr_json_has(reader, field))
    return HR_OK;
  const json_t *object = json_object_get(reader->object, field);
  if (!json_is_object(object))
    return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected an object with a number for each format");
  char path[64];
  snprintf(path, sizeof path, "%s.", field);
  const hr_json_reader inner = {object, reader->input, path, reader->error};
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value)
  {
    hr_dtype dtype;
    if (hr_dtype_parse(key, &dtype) != HR_OK)
      return hr_json_fail(reader, field, HR_ERROR_INVALID, "\"%.40s\" is not a number format", key);
    HR_TRY(hr_json_number(&inner, key, 0, most, &values[dtype]));
  }
  return HR_OK;
}

typedef hr_status (*read_row_fn)(const hr_json_reader *row, hr_hardware *hardware, size_t index);

/* A list of at most `most` objects, each read by `read_row`. A missing list is empty. */
static hr_status read_rows(const hr_json_reader *reader, const char *field, size_t most, read_row_fn read_row,
                           hr_hardware *hardware, size_t *count)
{
  *count = 0;
  if (!hr_json_has(reader, field))
    return HR_OK;
  const json_t *list = json_object_get(reader->object, field);
  if (!json_is_array(list) || json_array_size(list) > most)
    return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected a list of at most %zu objects", most);
  for (size_t i = 0; i < json_array_size(list); i++) {
    char path[64];
    snprintf(path, sizeof path, "%s[%zu].", field, i);
    const hr_json_reader row = {json_array_get(list, i), reader->input, path, reader->error};
    if (!json_is_object(row.object))
      return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected a list of objects");
    HR_TRY(read_row(&row, hardware, i));
  }
  *count = json_array_size(list);
  return HR_OK;
}

static hr_status read_alignment(const hr_json_reader *row, hr_hardware *hardware, size_t index)
{
  hr_alignment_class *class = &hardware->alignments[index];
  HR_TRY(hr_json_integer(row, "bytes", 1, 4096, &class->bytes));
  HR_TRY(hr_json_number(row, "gemm_share", 0, 1, &class->gemm_share));
  HR_TRY(hr_json_number(row, "bmm_share", 0, 1, &class->bmm_share));
  return hr_json_number_or(row, "result_share", 0, 1, 0, &class->result_share);
}

static hr_status read_one_tile(const hr_json_reader *row, hr_tile *tile)
{
  HR_TRY(hr_json_integer(row, "m", 1, 65536, &tile->m));
  HR_TRY(hr_json_integer(row, "n", 1, 65536, &tile->n));
  return hr_json_number(row, "share", 0, 1, &tile->share);
}

static hr_status read_tile(const hr_json_reader *row, hr_hardware *hardware, size_t index)
{
  return read_one_tile(row, &hardware->tiles[index]);
}

#define LATENCY_MOST_NS 1e6

/* A tile of which a multiprocessor may run several at once. */
static hr_status read_block_tile(const hr_json_reader *row, hr_tile *tile, int64_t *blocks, double *latency_ns)
{
  HR_TRY(hr_json_integer_or(row, "blocks", 1, 64, 0, blocks));
  HR_TRY(hr_json_number_or(row, "latency_ns", 0, LATENCY_MOST_NS, 0, latency_ns));
  return read_one_tile(row, tile);
}

static hr_status read_vector_tile(const hr_json_reader *row, hr_hardware *hardware, size_t i)
{
  return read_block_tile(row, &hardware->vector_tiles[i], &hardware->vector_blocks[i], &hardware->vector_latency_ns[i]);
}

static hr_status read_narrow_tile(const hr_json_reader *row, hr_hardware *hardware, size_t i)
{
  return read_block_tile(row, &hardware->narrow_tiles[i], &hardware->narrow_blocks[i], &hardware->narrow_latency_ns[i]);
}

static hr_status read_odd_tile(const hr_json_reader *row, hr_hardware *hardware, size_t i)
{
  return read_block_tile(row, &hardware->odd_tiles[i], &hardware->odd_blocks[i], &hardware->odd_latency_ns[i]);
}

/* A list of names of formats. */
static hr_status read_vector_formats(const hr_json_reader *reader, hr_hardware *hardware)
{
  static const char field[] = "vector_formats";
  const json_t *list = json_object_get(reader->object, field);
  if (list && !json_is_array(list))
    return hr_json_fail(reader, field, HR_ERROR_INVALID, "expected a list of number formats");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    hr_dtype dtype;
    if (!name || hr_dtype_parse(name, &dtype) != HR_OK)
      return hr_json_fail(reader, field, HR_ERROR_INVALID, "\"%.40s\" is not a number format", name ? name : "");
    hardware->vector_formats[dtype] = true;
  }
  return HR_OK;
}

static hr_status read_attention(const hr_json_reader *row, hr_hardware *hardware, size_t index)
{
  hr_attention_share *share = &hardware->attentions[index];
  HR_TRY(hr_json_integer(row, "head_dim", 1, 65536, &share->head_dim));
  HR_TRY(hr_json_number(row, "forward_share", 0, 2, &share->forward_share));
  HR_TRY(hr_json_number_or(row, "headroom_share", 0, 2, 0, &share->headroom_share));
  HR_TRY(hr_json_number_or(row, "short_share", 0, 2, 0, &share->short_share));
  return hr_json_number(row, "backward_share", 0, 2, &share->backward_share);
}

static hr_status read_dtype(const hr_json_reader *row, hr_dtype *dtype)
{
  const char *name = NULL;
  HR_TRY(hr_json_string_or(row, "dtype", NULL, &name));
  if (hr_dtype_parse(name, dtype) != HR_OK)
    return hr_json_fail(row, "dtype", HR_ERROR_INVALID, "\"%.40s\" is not a number format", name);
  return HR_OK;
}

static hr_status read_ceiling(const hr_json_reader *row, hr_hardware *hardware, size_t index)
{
  hr_ceiling *ceiling = &hardware->ceilings[index];
  int kind = 0;
  HR_TRY(read_choice(row, "kind", hr_ceiling_names, HR_CEILING_KIND_COUNT, &kind));
  ceiling->kind = (hr_ceiling_kind)kind;
  ceiling->dtype = HR_FP32;
  if (ceiling->kind == HR_CEILING_PRODUCT)
    HR_TRY(read_dtype(row, &ceiling->dtype));
  HR_TRY(read_text(row, "instruction", ceiling->instruction, sizeof ceiling->instruction));
  HR_TRY(hr_json_number(row, "per_s", 0, 1e21, &ceiling->per_s));
  HR_TRY(hr_json_number_or(row, "core_per_s", 0, 1e21, 0, &ceiling->core_per_s));
  HR_TRY(hr_json_number_or(row, "clock_hz", 0, 1e12, 0, &ceiling->clock_hz));
  return hr_json_number_or(row, "power_w", 0, 1e6, 0, &ceiling->power_w);
}

static hr_status read_collective(const hr_json_reader *row, hr_hardware *hardware, size_t index)
{
  hr_collective_rate *rate = &hardware->collectives[index];
  const char *name = NULL;
  HR_TRY(hr_json_string_or(row, "kind", NULL, &name));
  if (hr_collective_parse(name, &rate->kind) != HR_OK)
    return hr_json_fail(row, "kind", HR_ERROR_INVALID, "\"%.40s\" is not a collective", name);
  HR_TRY(hr_json_integer(row, "devices", 2, MOST_COUNT, &rate->devices));
  HR_TRY(hr_json_number(row, "latency_ns", 0, 1e9, &rate->latency_ns));
  HR_TRY(hr_json_number(row, "bus_bytes_per_s", 0, 1e18, &rate->bus_bytes_per_s));
  HR_TRY(hr_json_number_or(row, "ramp", 0, 100, 0, &rate->ramp));
  return hr_json_number(row, "error_band", 0, 100, &rate->error_band);
}

static hr_status read_interval(const hr_json_reader *row, hr_hardware *hardware, size_t index)
{
  hr_interval *interval = &hardware->intervals[index];
  int kind = 0;
  HR_TRY(read_choice(row, "kind", hr_interval_names, HR_INTERVAL_KIND_COUNT, &kind));
  interval->kind = (hr_interval_kind)kind;
  interval->dtype = HR_DTYPE_COUNT;
  if (hr_json_has(row, "dtype"))
    HR_TRY(read_dtype(row, &interval->dtype));
  HR_TRY(hr_json_number_or(row, "below_ns", 0, 1e18, 1e18, &interval->below_ns));
  HR_TRY(hr_json_number(row, "low", 0, 1, &interval->low));
  return hr_json_number(row, "high", 1, 1000, &interval->high);
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
  HR_TRY(hr_json_integer(&inner, "rows", 1, MOST_COUNT, &rows));
  HR_TRY(hr_json_number(&inner, "held_out", 0, 1e6, &held_out));
  hr_write_text(hardware->calibrated, sizeof hardware->calibrated, "%.24s%s%" PRId64 " rows, %.1f%% off", date,
                date[0] ? ", " : "", rows, 100 * held_out);
  return HR_OK;
}

static hr_status read_hardware(const hr_json_reader *reader, hr_hardware *hardware)
{
  HR_TRY(read_names(reader, hardware));
  HR_TRY(read_counts(reader, hardware));
  HR_TRY(read_numbers(reader, hardware));
  HR_TRY(read_by_dtype(reader, "dense_flops_per_s", 1e21, true, hardware->dense_flops_per_s));
  HR_TRY(read_calibrated(reader, hardware));
  HR_TRY(read_by_dtype(reader, "library_share", 100, false, hardware->library_share));
  HR_TRY(read_rows(reader, "alignments", HR_ALIGNMENTS_MAX, read_alignment, hardware, &hardware->alignment_count));
  HR_TRY(read_rows(reader, "tiles", HR_TILES_MAX, read_tile, hardware, &hardware->tile_count));
  HR_TRY(read_rows(reader, "narrow_tiles", HR_TILES_MAX, read_narrow_tile, hardware, &hardware->narrow_tile_count));
  HR_TRY(read_rows(reader, "odd_tiles", HR_TILES_MAX, read_odd_tile, hardware, &hardware->odd_tile_count));
  HR_TRY(read_vector_formats(reader, hardware));
  HR_TRY(read_rows(reader, "vector_tiles", HR_TILES_MAX, read_vector_tile, hardware, &hardware->vector_tile_count));
  HR_TRY(
      read_rows(reader, "attentions", HR_ATTENTION_SHARES_MAX, read_attention, hardware, &hardware->attention_count));
  HR_TRY(hr_hardware_read_costs(reader, hardware));
  HR_TRY(read_rows(reader, "intervals", HR_INTERVALS_MAX, read_interval, hardware, &hardware->interval_count));
  HR_TRY(read_rows(reader, "ceilings", HR_CEILINGS_MAX, read_ceiling, hardware, &hardware->ceiling_count));
  HR_TRY(read_rows(reader, "collectives", HR_COLLECTIVE_RATES_MAX, read_collective, hardware,
                   &hardware->collective_count));
  hr_error problem;
  hr_status status = hr_hardware_check(hardware, &problem);
  return status == HR_OK ? HR_OK : hr_fail(reader->error, status, "%s: %s", reader->input, problem.message);
}

hr_status hr_hardware_from_json(const char *text, size_t length, const char *name, hr_hardware *hardware,
                                hr_error *error)
{
  HR_NEED(error, text, name, hardware);
  json_t *root = NULL;
  HR_TRY(hr_json_parse(text, length, name, &root, error));
  const hr_json_reader reader = {root, name, "", error};
  hr_hardware read = hr_hardware_default();
  hr_status status = read_hardware(&reader, &read);
  if (status == HR_OK)
    *hardware = read;
  json_decref(root);
  return status;
}

bool hr_hardware_has_alias(const char *text, size_t length, const char *name)
{
  json_t *root = NULL;
  if (hr_json_parse(text, length, "device", &root, NULL) != HR_OK)
    return false;
  const json_t *aliases = json_object_get(root, "aliases");
  bool found = false;
  for (size_t i = 0; i < json_array_size(aliases) && !found; i++) {
    const char *alias = json_string_value(json_array_get(aliases, i));
    found = alias && strcasecmp(alias, name) == 0;
  }
  json_decref(root);
  return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/file/former_names.h"

#include "base/error.h"

#include <string.h>

typedef struct former_name {
  const char *former, *name;
} former_name;

static const former_name keys[] = {
    {"wide", "tma"},
    {"vector_formats", "simt_formats"},
    {"vector_tiles", "simt_tiles"},
    {"vector_batched_tiles", "simt_batched_tiles"},
    {"product_launch_ns", "gemm_launch_ns"},
    {"product_busy_ns", "gemm_busy_ns"},
    {"split_products", "split_gemm_size"},
};

/* A cost of GEMMs that has this member was fitted to an earlier model, to which its other numbers belong, too. */
static const struct {
  const char *cost, *member;
} former_costs[] = {
    {"tma", "idle_share"}, {"aligned_4", "element_ns"}, {"aligned_2", "element_ns"}, {"simt", "tile_ns"}};

static const former_name kinds[] = {
    {"gemm_narrow", "gemm_misaligned"},
    {"bmm_narrow", "bmm_misaligned"},
    {"product", "gemm"},
};

static hr_status rename_keys(const hr_json_reader *reader, json_t *object)
{
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    json_t *value = json_object_get(object, keys[i].former);
    if (!value)
      continue;
    if (json_object_get(object, keys[i].name))
      return hr_json_fail(reader, keys[i].former, HR_ERROR_INVALID, "is the former name of \"%s\", which is given, too",
                          keys[i].name);
    if (json_object_set(object, keys[i].name, value) != 0)
      return hr_fail(reader->error, HR_ERROR_OUT_OF_MEMORY, "out of memory");
    json_object_del(object, keys[i].former);
  }
  return HR_OK;
}

static hr_status rename_kind(const hr_json_reader *reader, json_t *row)
{
  const char *kind = json_string_value(json_object_get(row, "kind"));
  for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kind, kinds[i].former) == 0)
      return json_object_set_new(row, "kind", json_string(kinds[i].name)) == 0
                 ? HR_OK
                 : hr_fail(reader->error, HR_ERROR_OUT_OF_MEMORY, "out of memory");
  }
  return HR_OK;
}

static void leave_out_former_costs(json_t *device)
{
  for (size_t i = 0; i < sizeof former_costs / sizeof *former_costs; i++) {
    if (json_object_get(json_object_get(device, former_costs[i].cost), former_costs[i].member))
      json_object_del(device, former_costs[i].cost);
  }
}

hr_status hr_take_former_names(const hr_json_reader *reader, json_t *device)
{
  HR_TRY(rename_keys(reader, device));
  leave_out_former_costs(device);
  const char *key;
  json_t *value;
  json_object_foreach(device, key, value)
  {
    if (json_is_object(value))
      HR_TRY(rename_keys(reader, value));
    for (size_t i = 0; i < json_array_size(value); i++)
      HR_TRY(rename_kind(reader, json_array_get(value, i)));
  }
  return HR_OK;
}

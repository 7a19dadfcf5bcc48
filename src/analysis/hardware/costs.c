/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of kernels in a device file: objects of numbers. */
#include "analysis/hardware/costs.h"

#include "base/error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MOST_NS 1e9
#define LEAST_SHARE 0.001 /* of a share that is given: every time stays finite */

/* A number of an object. A share is 0, not given, or within LEAST_SHARE … most. */
typedef struct cost_field {
  const char *object, *field;
  size_t offset;
  double most;
  bool share;
} cost_field;

#define NS(object, member)                                                 \
  {                                                                        \
#object, #member, offsetof(hr_hardware, object.member), MOST_NS, false \
  }
#define SHARE(object, member, most)                                    \
  {                                                                    \
#object, #member, offsetof(hr_hardware, object.member), most, true \
  }
#define DECODE(object)                                                                                             \
  NS(object, launch_ns), SHARE(object, bandwidth_share, 1), SHARE(object, few_share, 1),                           \
      SHARE(object, few_long_share, 1), NS(object, pair_ns), NS(object, element_ns), NS(object, split_ns),         \
      SHARE(object, compute_share, 2), NS(object, key_ns), NS(object, wave_ns), NS(object, busy_ns),               \
      NS(object, combine_ns), NS(object, cluster_ns), NS(object, combine_element_ns), NS(object, read_latency_ns), \
      SHARE(object, fill_share, 4), SHARE(object, reach, 256)
#define PREFILL(object)                                                                                              \
  NS(object, launch_ns), NS(object, block_ns), SHARE(object, share, 4), NS(object, element_ns), NS(object, busy_ns), \
      SHARE(object, load_share, 1)

#define NARROW(object)                                                                                           \
  NS(object, launch_ns), NS(object, busy_ns), NS(object, wave_ns), NS(object, latency_ns), NS(object, tile_ns),  \
      NS(object, element_ns), NS(object, step_ns), NS(object, row_ns), NS(object, column_ns),                    \
      SHARE(object, aligned, 100), SHARE(object, load_8, 100), SHARE(object, short_k, 1e6),                      \
      SHARE(object, store, 1000), SHARE(object, aligned_store, 1000), NS(object, split_ns), NS(object, part_ns), \
      NS(object, fill_ns), SHARE(object, matrix_share, 4)

#define SCAN(object)                                                                                              \
  NS(object, launch_ns), SHARE(object, bandwidth_share, 1), SHARE(object, matrix_share, 4), NS(object, token_ns), \
      NS(object, update_ns), SHARE(object, update_share, 1)

/* Rows of an object are neighbours; the first, a time, is needed where the file has the object. */
static const cost_field fields[] = {
    DECODE(decode_framework),
    DECODE(decode_headroom),
    DECODE(decode_latent),
    DECODE(decode_latent_headroom),
    PREFILL(prefill_headroom),
    PREFILL(prefill_latent),
    NS(experts, routing_ns),
    SHARE(experts, matrix_share, 4),
    SHARE(experts, load_share, 1),
    NS(experts, expert_ns),
    SHARE(experts, moved_share, 1),
    NS(rounding, launch_ns),
    SHARE(rounding, bandwidth_share, 1),
    NS(rounding, element_ns),
    SHARE(rounding, matrix_share, 4),
    NS(wide, launch_ns),
    NS(wide, busy_ns),
    NS(wide, refill_ns),
    NS(wide, step_ns),
    NS(wide, latency_ns),
    NS(wide, row_latency_ns),
    SHARE(wide, cluster_idle, 1024),
    SHARE(wide, matrix_share, 4),
    NS(wide, row_ns),
    SHARE(wide, idle_share, 1),
    SHARE(wide, load_16, 100),
    SHARE(wide, load_32, 100),
    SHARE(wide, load_64, 100),
    SHARE(wide, store_bytes_per_ns, 1e5),
    SHARE(wide, sector_bytes_per_ns, 1e7),
    NS(wide, fill_ns),
    NS(wide, split_ns),
    NS(wide, part_ns),
    NARROW(narrow),
    NARROW(odd),
    NARROW(vector),
    SCAN(scan_mamba),
    SCAN(scan_mamba2),
    SCAN(scan_gated_delta),
    SCAN(scan_lightning),
    SCAN(scan_rg_lru),
    SCAN(scan_convolution),
};

static double *number_of(hr_hardware *hardware, const cost_field *field)
{
  return (double *)(void *)((char *)hardware + field->offset);
}

static double value_of(const hr_hardware *hardware, const cost_field *field)
{
  return *(const double *)(const void *)((const char *)hardware + field->offset);
}

static bool is_first(size_t i)
{
  return i == 0 || strcmp(fields[i].object, fields[i - 1].object) != 0;
}

hr_status hr_hardware_read_costs(const hr_json_reader *reader, hr_hardware *hardware)
{
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const cost_field *f = &fields[i];
    if (!hr_json_has(reader, f->object))
      continue;
    char path[64];
    snprintf(path, sizeof path, "%s.", f->object);
    const hr_json_reader inner = {json_object_get(reader->object, f->object), reader->input, path, reader->error};
    if (!json_is_object(inner.object))
      return hr_json_fail(reader, f->object, HR_ERROR_INVALID, "expected an object");
    if (is_first(i))
      HR_TRY(hr_json_number(&inner, f->field, 0, f->most, number_of(hardware, f)));
    else
      HR_TRY(hr_json_number_or(&inner, f->field, 0, f->most, 0, number_of(hardware, f)));
  }
  return HR_OK;
}

void hr_hardware_put_costs(const hr_hardware *hardware, json_t *json)
{
  json_t *object = NULL;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    double value = value_of(hardware, &fields[i]);
    if (is_first(i))
      object = value > 0 ? json_object() : NULL;
    if (is_first(i) && object)
      json_object_set_new(json, fields[i].object, object);
    if (object && value > 0)
      json_object_set_new(object, fields[i].field, json_real(value));
  }
}

/* `!(a && b)` instead of `a || b`, so that NaN is refused. */
hr_status hr_hardware_check_costs(const hr_hardware *hardware, hr_error *error)
{
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const cost_field *f = &fields[i];
    double value = value_of(hardware, f);
    double least = f->share && value != 0 ? LEAST_SHARE : 0;
    if (!(value >= least && value <= f->most))
      return hr_fail(error, HR_ERROR_INVALID, "%s: %s: expected %g to %g, found %g", f->object, f->field, least,
                     f->most, value);
  }
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The fewest devices that carry a load: so many copies of each layout, with the batch that keeps requests shortest. */
#include "analysis/serve/plan.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>

#define INSTANCES_MAX 0x1p40

/* Requests per second of a copy, of which the load is a part. */
static double carried(const hr_serve_options *options, const hr_serve_point *point)
{
  return options->sure > 0 ? point->requests_per_s_low : point->requests_per_s;
}

/* Devices of a copy that prefills. */
static double prefill_copy(const hr_serve_point *point)
{
  return (double)(point->prefill_tensor_parallel > 0 ? point->prefill_tensor_parallel : point->devices);
}

/* Copies that prefill for a load: `prefill_devices` do so for point->requests_per_s. */
static double prefill_copies(const hr_serve_options *options, const hr_serve_point *point)
{
  double copies = point->prefill_devices / prefill_copy(point);
  return ceil(options->recommend / carried(options, point) * copies);
}

/* False if the load takes more copies than are counted. */
static bool make_fleet(const hr_serve_options *options, const hr_serve_point *point, hr_serve_fleet *fleet)
{
  double instances = ceil(options->recommend / carried(options, point));
  double prefilling = prefill_copies(options, point), decoding = instances * (double)point->devices;
  double devices = decoding + prefilling * prefill_copy(point);
  if (!(instances <= INSTANCES_MAX && devices <= INSTANCES_MAX))
    return false;
  bool priced = options->price_per_device_hour > 0;
  double per_hour = options->price_per_device_hour * decoding + hr_serve_prefill_price(options) * (devices - decoding);
  per_hour = priced ? per_hour : (double)NAN;
  *fleet = (hr_serve_fleet){.point = point,
                            .instances = (int64_t)instances,
                            .prefill_instances = (int64_t)prefilling,
                            .devices = (int64_t)devices,
                            .load_share = options->recommend / (instances * carried(options, point)),
                            .cost_per_hour = per_hour,
                            .cost_per_million_output_tokens =
                                per_hour / (3600 * options->recommend * (double)options->output_tokens) * 1e6};
  return true;
}

static bool is_better(const hr_serve_fleet *a, const hr_serve_fleet *b)
{
  return a->devices != b->devices ? a->devices < b->devices : a->point->request_ns < b->point->request_ns;
}

static bool same_layout(const hr_serve_point *a, const hr_serve_point *b)
{
  return a->tensor_parallel == b->tensor_parallel && a->expert_parallel == b->expert_parallel;
}

/* The place of the fleet of this layout; the count if there is none yet. */
static size_t place_of(const hr_serve_result *result, const hr_serve_point *point)
{
  size_t i = 0;
  while (i < result->fleet_count && !same_layout(result->fleets[i].point, point))
    i++;
  return i;
}

static int by_devices(const void *a, const void *b)
{
  return is_better(b, a) - is_better(a, b);
}

hr_status hr_serve_recommend(hr_serve_result *result, hr_error *error)
{
  if (!(result->options.recommend > 0))
    return HR_OK;
  result->fleets = calloc(result->layout_count, sizeof *result->fleets);
  if (!result->fleets)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the plans");
  for (size_t i = 0; i < result->count; i++) {
    hr_serve_fleet fleet;
    if (!result->points[i].meets_limits || !make_fleet(&result->options, &result->points[i], &fleet))
      continue;
    size_t at = place_of(result, &result->points[i]);
    if (at == result->fleet_count || is_better(&fleet, &result->fleets[at]))
      result->fleets[at] = fleet;
    if (at == result->fleet_count)
      result->fleet_count++;
  }
  qsort(result->fleets, result->fleet_count, sizeof *result->fleets, by_devices);
  return HR_OK;
}

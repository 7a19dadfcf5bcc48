/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor-parallel degrees and pipeline stages side by side. */
#include <headroom/experimental/parallel_layouts.h>

#include "analysis/advise/context.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "model/layers/split.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/model.h>
#include <headroom/experimental/workload.h>
#include <headroom/memory.h>
#include <inttypes.h>
#include <stdlib.h>

#define NODE_UNKNOWN 8 /* devices, where a device file does not say how many a node has */
#define DEGREE_MAX 4096

typedef struct comparison {
  const hr_hardware *hardware;
  const hr_model *model;
  hr_workload workload; /* with its number of microbatches spelt out */
  int64_t device_limit, per_node;
  hr_parallel_layouts *layouts;
  hr_step *step;
} comparison;

/* Counts the devices of all replicas: those that share experts are there even if dp is 1. Returns 0 beyond 2^62. */
static int64_t devices_of(const hr_workload *w)
{
  int64_t replicas = hr_max64(w->data_parallel, hr_max64(w->expert_parallel / w->tensor_parallel, 1));
  hr_checked64 devices = hr_times(hr_checked(w->tensor_parallel), w->pipeline_stages);
  int64_t count = 0;
  return hr_checked_take(hr_times(hr_times(devices, w->context_parallel), replicas), &count) == HR_OK ? count : 0;
}

static hr_status describe_layout(const comparison *c, const hr_workload *workload, hr_parallel_layout *layout,
                                 hr_error *error)
{
  int64_t usable = hr_hardware_usable_memory_bytes(c->hardware);
  hr_memory memory;
  HR_TRY(hr_fill_step(c->hardware, c->model, workload, c->step, error));
  HR_TRY(hr_memory_estimate(c->model, workload, &memory, error));
  *layout = (hr_parallel_layout){
      .workload = *workload,
      .devices = devices_of(workload),
      .memory_bytes = memory.total_bytes,
      .fits = usable <= 0 || memory.total_bytes <= usable,
      .time_ns = c->step->about.time_ns,
      .low_ns = c->step->about.low_ns,
      .high_ns = c->step->about.high_ns,
      .tokens_per_s_per_device = c->step->about.tokens_per_s_per_device,
      .communication_share = c->step->about.time_ns > 0 ? c->step->about.communication_ns / c->step->about.time_ns : 0,
      .bubble = c->step->about.bubble,
      .heads_split = hr_heads_split(c->model, workload->tensor_parallel)};
  const hr_split split = hr_split_of_workload(c->model, workload);
  layout->splits = split.whole;
  hr_write_text(layout->split, sizeof layout->split, "%s", split.words);
  layout->tokens_per_s = layout->tokens_per_s_per_device * (double)layout->devices;
  layout->nodes = hr_ceil_div(layout->devices, c->per_node);
  return usable > 0 ? hr_memory_largest_batch(c->model, workload, usable, &layout->largest_batch, error) : HR_OK;
}

/* Whether the comparison lists t and p beside those of the workload. */
static bool is_listed(const comparison *c, const hr_workload *other)
{
  const hr_workload *own = &c->workload;
  int64_t devices = devices_of(other);
  bool same_t = other->tensor_parallel == own->tensor_parallel, same_p = other->pipeline_stages == own->pipeline_stages;
  if (same_t && same_p)
    return true;
  if (devices < 1 || devices > c->device_limit || other->pipeline_stages > hr_model_layers(c->model))
    return false;
  if (!same_t && !hr_heads_split(c->model, other->tensor_parallel))
    return false;
  return same_t || same_p || devices == devices_of(own);
}

/* The next degree: powers of two, and the workload's own between them. */
static int64_t next_degree(int64_t degree, int64_t own)
{
  int64_t next = 1;
  while (next <= degree)
    next *= 2;
  return own > degree && own < next ? own : next;
}

/* One place is kept for the workload itself, whose failure alone ends the comparison. */
static hr_status add_layout(const comparison *c, const hr_workload *workload, hr_error *error)
{
  hr_parallel_layouts *layouts = c->layouts;
  bool is_own = workload->tensor_parallel == c->workload.tensor_parallel &&
                workload->pipeline_stages == c->workload.pipeline_stages;
  size_t kept = is_own || layouts->current >= 0 ? 0 : 1;
  if (layouts->count + kept >= HR_PARALLEL_LAYOUTS_MAX)
    return HR_OK;
  hr_status status = describe_layout(c, workload, &layouts->items[layouts->count], is_own ? error : NULL);
  if (status != HR_OK)
    return is_own ? status : HR_OK;
  layouts->current = is_own ? (int)layouts->count : layouts->current;
  layouts->count++;
  return HR_OK;
}

static hr_status list_layouts(const comparison *c, hr_error *error)
{
  hr_workload other = c->workload;
  int64_t own_t = other.tensor_parallel, own_p = other.pipeline_stages;
  int64_t most = hr_min64(c->device_limit, DEGREE_MAX), max_t = hr_max64(most, own_t), max_p = hr_max64(most, own_p);
  for (int64_t p = 1; p <= max_p; p = next_degree(p, own_p)) {
    for (int64_t t = 1; t <= max_t; t = next_degree(t, own_t)) {
      other.tensor_parallel = t, other.pipeline_stages = p;
      if (is_listed(c, &other))
        HR_TRY(add_layout(c, &other, error));
    }
  }
  return HR_OK;
}

/* Less is better; of equals the faster step, then the one listed first. */
static int best_of(const hr_parallel_layouts *layouts, double (*cost)(const hr_parallel_layout *layout))
{
  int best = -1;
  for (size_t i = 0; i < layouts->count; i++) {
    const hr_parallel_layout *layout = &layouts->items[i], *before = best < 0 ? NULL : &layouts->items[best];
    if (!layout->fits || !layout->splits)
      continue;
    if (!before || cost(layout) < cost(before) || (!(cost(before) < cost(layout)) && layout->time_ns < before->time_ns))
      best = (int)i;
  }
  return best;
}

static double time_of(const hr_parallel_layout *layout)
{
  return layout->time_ns;
}

static double less_per_device(const hr_parallel_layout *layout)
{
  return -layout->tokens_per_s_per_device;
}

static double devices_taken(const hr_parallel_layout *layout)
{
  return (double)layout->devices;
}

static hr_status set_limits(comparison *c, int64_t nodes, hr_error *error)
{
  const hr_hardware *hardware = c->hardware;
  int64_t devices = devices_of(&c->workload);
  c->per_node = hardware->devices_per_node > 0 ? hardware->devices_per_node : hr_max64(NODE_UNKNOWN, devices);
  int64_t taken = hr_ceil_div(devices, c->per_node);
  if (nodes > 0 && taken > nodes)
    return hr_fail(error, HR_ERROR_INVALID,
                   "nodes: %" PRId64 " devices need %" PRId64 " nodes of %" PRId64 ", found %" PRId64, devices, taken,
                   c->per_node, nodes);
  c->layouts->nodes = nodes > 0 ? nodes : taken;
  if (hr_checked_take(hr_times(hr_checked(c->layouts->nodes), c->per_node), &c->device_limit) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "nodes: the devices of %" PRId64 " nodes do not fit into 63 bits",
                   c->layouts->nodes);
  return HR_OK;
}

static hr_status compare(comparison *c, int64_t nodes, hr_error *error)
{
  hr_parallel_layouts *layouts = c->layouts;
  if (devices_of(&c->workload) < 1)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the number of devices does not fit into 63 bits");
  HR_TRY(set_limits(c, nodes, error));
  HR_TRY(list_layouts(c, error));
  layouts->fastest = best_of(layouts, time_of);
  layouts->max_per_device = best_of(layouts, less_per_device);
  layouts->fewest_devices = best_of(layouts, devices_taken);
  return HR_OK;
}

hr_status hr_compare_parallel_layouts(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                                      int64_t nodes, hr_parallel_layouts *layouts, hr_error *error)
{
  HR_NEED(error, hardware, model, workload, layouts);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TRY(hr_hardware_check(hardware, error));
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  comparison c = {.hardware = hardware, .model = model, .workload = *workload, .layouts = layouts};
  c.workload.microbatches = hr_workload_microbatches(workload);
  *layouts = (hr_parallel_layouts){.current = -1, .fastest = -1, .max_per_device = -1, .fewest_devices = -1};
  c.step = malloc(sizeof *c.step);
  hr_status status =
      c.step ? compare(&c, nodes, error) : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the layouts");
  free(c.step);
  return status;
}

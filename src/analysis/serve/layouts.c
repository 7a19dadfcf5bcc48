/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts that are tried, and what fits into a device's memory. */
#include "analysis/serve/plan.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "model/layers/split.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/model.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- which are tried ---- */

static bool has_experts(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    if (model->groups[i].experts.experts > 0)
      return true;
  }
  return false;
}

static bool shares_experts(const hr_model *model, int64_t e)
{
  for (size_t i = 0; i < model->group_count; i++) {
    if (model->groups[i].experts.experts % e != 0)
      return false;
  }
  return true;
}

/* Whether t and e are tried with at most `devices` devices. One that does not split is listed with the reason. */
static bool is_tried(const hr_serve_state *state, int64_t t, int64_t e, int64_t devices)
{
  const hr_serve_options *options = &state->options;
  if ((options->tensor_parallel > 0 && t != options->tensor_parallel) ||
      (options->expert_parallel > 0 && e != options->expert_parallel))
    return false;
  if (e > 1 && (e % t != 0 || !has_experts(state->model)))
    return false;
  return hr_max64(t, e) * options->pipeline_stages <= devices &&
         (options->expert_parallel > 0 || shares_experts(state->model, e));
}

/* 1, 2, 4, … up to `most`, and `named` where it lies between two of them. Returns their number. */
static size_t list_degrees(int64_t most, int64_t named, int64_t degrees[HR_SERVE_LAYOUTS_MAX])
{
  size_t count = 0;
  bool seen = named == 0;
  for (int64_t degree = 1; degree <= most; degree *= 2) {
    if (!seen && named <= degree) {
      if (named < degree)
        degrees[count++] = named;
      seen = true;
    }
    degrees[count++] = degree;
  }
  if (!seen)
    degrees[count++] = named;
  return count;
}

/* ---- memory ---- */

static bool fits(const hr_serve_state *state, const hr_serve_layout *layout, int64_t batch)
{
  hr_memory memory;
  return batch <= HR_SERVE_BATCH_MAX &&
         hr_split_of(state->model, layout->tensor_parallel, layout->expert_parallel, HR_SPLIT_ALL).whole &&
         hr_serve_memory(state, layout, batch, &memory, NULL) == HR_OK &&
         memory.kv_cache_bytes + memory.state_bytes <= hr_serve_room(state, &memory) &&
         memory.total_bytes <= state->hardware->memory_bytes;
}

static int64_t largest_batch(const hr_serve_state *state, const hr_serve_layout *layout)
{
  int64_t low = 0, high = 1; /* invariant after the first loop: `low` fits, `high` does not */
  while (fits(state, layout, high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (fits(state, layout, middle))
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* Tokens of sequences that fit into what `one` sequence with its step leaves. */
static int64_t cache_tokens(const hr_serve_state *state, const hr_memory *one, int64_t sequence_bytes)
{
  int64_t free_bytes = hr_serve_room(state, one);
  if (free_bytes <= 0 || one->kv_cache_bytes == 0)
    return 0;
  return (int64_t)((double)free_bytes / (double)sequence_bytes * (double)state->cached_tokens);
}

static hr_serve_layout layout_of(const hr_serve_state *state, int64_t t, int64_t e)
{
  int64_t p = state->options.pipeline_stages;
  return (hr_serve_layout){
      .tensor_parallel = t, .expert_parallel = e, .pipeline_stages = p, .devices = hr_max64(t, e) * p};
}

/* Adds that servers give the stages of a pipeline unequal numbers of layers. */
static void add_stages(const hr_serve_state *state, hr_serve_layout *layout)
{
  int64_t layers = hr_model_layers(state->model), p = layout->pipeline_stages;
  size_t used = strlen(layout->split);
  if (layers % p != 0)
    hr_write_text(layout->split + used, sizeof layout->split - used, "%sstages of %" PRId64 " and %" PRId64 " layers",
                  used > 0 ? "; " : "", hr_ceil_div(layers, p), layers / p);
}

static hr_status fill_layout(const hr_serve_state *state, int64_t t, int64_t e, hr_serve_layout *layout,
                             hr_error *error)
{
  const hr_split split = hr_split_of(state->model, t, e, HR_SPLIT_ALL);
  hr_memory memory;
  *layout = layout_of(state, t, e);
  HR_TRY(hr_serve_memory(state, layout, 1, &memory, error));
  layout->weight_bytes = memory.weight_bytes;
  layout->sequence_bytes = memory.kv_cache_bytes + memory.state_bytes;
  layout->step_bytes = memory.activation_bytes;
  layout->cache_tokens = split.whole ? cache_tokens(state, &memory, layout->sequence_bytes) : 0;
  layout->splits = split.whole;
  hr_write_text(layout->split, sizeof layout->split, "%s", split.words);
  if (split.whole)
    add_stages(state, layout);
  layout->largest_batch = largest_batch(state, layout);
  return HR_OK;
}

/* ---- lists ---- */

static bool goes_before(const hr_serve_layout *a, const hr_serve_layout *b)
{
  if (a->devices != b->devices)
    return a->devices < b->devices;
  return a->tensor_parallel != b->tensor_parallel ? a->tensor_parallel < b->tensor_parallel
                                                  : a->expert_parallel < b->expert_parallel;
}

static void insert(hr_serve_layout *layouts, size_t *count, const hr_serve_layout *layout)
{
  size_t at = (*count)++;
  for (; at > 0 && goes_before(layout, &layouts[at - 1]); at--)
    layouts[at] = layouts[at - 1];
  layouts[at] = *layout;
}

hr_status hr_serve_list_layouts(hr_serve_state *state, hr_serve_layout layouts[HR_SERVE_LAYOUTS_MAX], size_t *count,
                                hr_error *error)
{
  const hr_serve_options *options = &state->options;
  int64_t ts[HR_SERVE_LAYOUTS_MAX], es[HR_SERVE_LAYOUTS_MAX];
  size_t t_count = list_degrees(options->devices_max, options->tensor_parallel, ts);
  size_t e_count = list_degrees(options->devices_max, options->expert_parallel, es);
  *count = 0;
  for (size_t i = 0; i < t_count; i++) {
    for (size_t j = 0; j < e_count; j++) {
      hr_serve_layout layout;
      if (!is_tried(state, ts[i], es[j], options->devices_max))
        continue;
      HR_TRY(fill_layout(state, ts[i], es[j], &layout, error));
      insert(layouts, count, &layout);
    }
  }
  if (*count > 0)
    return HR_OK;
  if (options->expert_parallel > 1 && !has_experts(state->model))
    return hr_fail(error, HR_ERROR_INVALID, "expert_parallel: the model has no experts");
  return hr_fail(error, HR_ERROR_INVALID,
                 "tensor_parallel %" PRId64 " with expert_parallel %" PRId64 " cannot be tried on %" PRId64
                 " devices: e is 1, or a multiple of t that divides the experts",
                 hr_max64(options->tensor_parallel, 1), hr_max64(options->expert_parallel, 1), options->devices_max);
}

/* ---- what would fit ---- */

static bool fits_somehow(const hr_serve_state *state, int64_t devices)
{
  for (int64_t t = 1; t <= devices; t *= 2) {
    for (int64_t e = 1; e <= devices; e *= 2) {
      const hr_serve_layout layout = layout_of(state, t, e);
      if (layout.devices == devices && is_tried(state, t, e, devices) && fits(state, &layout, 1))
        return true;
    }
  }
  return false;
}

/* The fewest devices, a power of two up to `most`, on which one sequence fits; 0: none. */
static int64_t fewest_devices(const hr_serve_state *state, int64_t most)
{
  for (int64_t devices = 1; devices <= most; devices *= 2) {
    if (fits_somehow(state, devices))
      return devices;
  }
  return 0;
}

/* Whether one sequence fits in a layout that the options allow. */
static bool fits_a_layout(const hr_serve_state *state, const hr_serve_result *result)
{
  for (size_t i = 0; i < result->layout_count; i++) {
    if (fits(state, &result->layouts[i], 1))
      return true;
  }
  return false;
}

void hr_serve_find_fit(const hr_serve_state *state, hr_serve_result *result)
{
  static const struct {
    const char *name;
    hr_dtype multiplied; /* format that the device must have a rate for */
  } formats[] = {{"fp8", HR_FP8_E4M3}, {"int8", HR_BF16}, {"int4", HR_BF16}};
  hr_serve_state tried = *state;
  tried.options.tensor_parallel = tried.options.expert_parallel = 0, tried.options.pipeline_stages = 1;
  tried.workload.pipeline_stages = 1;
  result->devices_needed = fewest_devices(&tried, HR_SERVE_DEVICES_MAX);
  hr_model narrow = *state->model;
  tried.model = &narrow;
  for (size_t i = 0; i < sizeof formats / sizeof *formats && !result->weights_needed[0]; i++) {
    if (hr_hardware_library_flops_per_s(state->hardware, formats[i].multiplied) > 0 &&
        hr_model_set_weights(&narrow, formats[i].name, NULL) == HR_OK && fits_a_layout(&tried, result))
      snprintf(result->weights_needed, sizeof result->weights_needed, "%s", formats[i].name);
  }
}

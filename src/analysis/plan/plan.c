/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/plan/plan.h"
#include "analysis/predict/terms.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/model.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

void hr_training_options_init(hr_training_options *options, size_t size)
{
  HR_INIT(options, size, (hr_training_options){.global_batch = 256});
}

/* ---- options ---- */

static hr_status check_count(const char *member, int64_t value, int64_t least, int64_t most, hr_error *error)
{
  if (value >= least && value <= most)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected %" PRId64 " to %" PRId64 ", found %" PRId64, member, least,
                 most, value);
}

static hr_status check_number(const char *member, double value, hr_error *error)
{
  if (value >= 0 && isfinite(value))
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected 0 or more, found %g", member, value);
}

static hr_status check_options(const hr_training_options *o, hr_error *error)
{
  const struct {
    const char *member;
    int64_t value, least, most;
  } counts[] = {{"device_counts", (int64_t)o->device_counts, 1, HR_TRAINING_COUNTS_MAX},
                {"global_batch", o->global_batch, 1, HR_TRAINING_GLOBAL_BATCH_MAX},
                {"tensor_parallel", o->tensor_parallel, 0, HR_TRAINING_DEVICES_MAX},
                {"pipeline_stages", o->pipeline_stages, 0, HR_TRAINING_DEVICES_MAX},
                {"virtual_stages", o->virtual_stages, 0, HR_TRAINING_DEVICES_MAX},
                {"context_parallel", o->context_parallel, 0, HR_TRAINING_DEVICES_MAX},
                {"expert_parallel", o->expert_parallel, 0, HR_TRAINING_DEVICES_MAX},
                {"batch", o->batch, 0, HR_TRAINING_GLOBAL_BATCH_MAX},
                {"zero_stages", o->zero_stages, 0, 15},
                {"recomputes", o->recomputes, 0, 7},
                {"accepted_by", o->accepted_by, 0, HR_TRAINING_MEGATRON | HR_TRAINING_TORCHTITAN}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    HR_TRY(check_count(counts[i].member, counts[i].value, counts[i].least, counts[i].most, error));
  for (size_t i = 0; i < o->device_counts; i++)
    HR_TRY(check_count("devices", o->devices[i], 1, HR_TRAINING_DEVICES_MAX, error));
  HR_TRY(check_number("tokens", o->tokens, error));
  HR_TRY(check_number("price_per_device_hour", o->price_per_device_hour, error));
  return check_number("power_w", o->power_w, error);
}

static int by_number(const void *a, const void *b)
{
  const int64_t *left = a, *right = b;
  return (*left > *right) - (*left < *right);
}

/* Ascending, each once. */
static void sort_devices(hr_training_options *options)
{
  size_t kept = 0;
  qsort(options->devices, options->device_counts, sizeof *options->devices, by_number);
  for (size_t i = 0; i < options->device_counts; i++) {
    if (kept == 0 || options->devices[kept - 1] != options->devices[i])
      options->devices[kept++] = options->devices[i];
  }
  options->device_counts = kept;
}

/* ---- ranking ---- */

/* -1 where the left comes first. */
static int order_of(double left, double right)
{
  return (left > right) - (left < right);
}

/* The first order that is not equal. */
static int first_of(const int *orders, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (orders[i] != 0)
      return orders[i];
  }
  return 0;
}

/* A layout by what most often decides: the layouts themselves are large. */
typedef struct ranked {
  int64_t devices;
  double tokens_per_s;
  const hr_training_layout *layout;
} ranked;

/* Layouts that are equally fast in as much memory are put in the order of their degrees, so that the order does not
 * depend on that of the enumeration. */
static int by_rank(const void *a, const void *b)
{
  const ranked *left = a, *right = b;
  if (left->devices != right->devices)
    return by_number(&left->devices, &right->devices);
  if (left->tokens_per_s != right->tokens_per_s)
    return order_of(right->tokens_per_s, left->tokens_per_s);
  const hr_workload *l = &left->layout->workload, *r = &right->layout->workload;
  const int orders[] = {
      by_number(&left->layout->memory_bytes, &right->layout->memory_bytes),
      by_number(&l->tensor_parallel, &r->tensor_parallel),
      by_number(&l->pipeline_stages, &r->pipeline_stages),
      by_number(&l->context_parallel, &r->context_parallel),
      by_number(&l->expert_parallel, &r->expert_parallel),
      by_number(&l->virtual_stages, &r->virtual_stages),
      by_number(&l->zero_stage, &r->zero_stage),
      by_number(&l->batch, &r->batch),
      (int)l->recompute - (int)r->recompute,
      l->sequence_parallel - r->sequence_parallel,
  };
  return first_of(orders, sizeof orders / sizeof *orders);
}

/* Puts each layout into the place of its rank, one circle of layouts that give way to each other after another. */
static void move_to_ranks(hr_training_layout *layouts, ranked *ranks, size_t count)
{
  for (size_t first = 0; first < count; first++) {
    if (ranks[first].layout == &layouts[first])
      continue;
    const hr_training_layout kept = layouts[first];
    size_t place = first, from;
    while ((from = (size_t)(ranks[place].layout - layouts)) != first) {
      layouts[place] = layouts[from];
      ranks[place].layout = &layouts[place];
      place = from;
    }
    layouts[place] = kept;
    ranks[place].layout = &layouts[place];
  }
}

static hr_status sort_layouts(hr_training_plan *plan, hr_error *error)
{
  ranked *ranks = malloc(plan->layout_count * sizeof *ranks);
  if (!ranks)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %zu layouts", plan->layout_count);
  for (size_t i = 0; i < plan->layout_count; i++)
    ranks[i] = (ranked){plan->layouts[i].devices, plan->layouts[i].tokens_per_s, &plan->layouts[i]};
  qsort(ranks, plan->layout_count, sizeof *ranks, by_rank);
  move_to_ranks(plan->layouts, ranks, plan->layout_count);
  free(ranks);
  return HR_OK;
}

static bool have_equal_degrees(const hr_training_layout *left, const hr_training_layout *right)
{
  const hr_workload *l = &left->workload, *r = &right->workload;
  return left->devices == right->devices && l->tensor_parallel == r->tensor_parallel &&
         l->pipeline_stages == r->pipeline_stages && l->context_parallel == r->context_parallel &&
         l->expert_parallel == r->expert_parallel;
}

static uint64_t hash_of_degrees(const hr_training_layout *layout)
{
  const hr_workload *w = &layout->workload;
  const int64_t degrees[] = {layout->devices, w->tensor_parallel, w->pipeline_stages, w->context_parallel,
                             w->expert_parallel};
  return hr_hash_sizes(degrees, sizeof degrees / sizeof *degrees);
}

/* The first of those with the same degrees is the best. */
static hr_status mark_best_of_degrees(hr_training_plan *plan, hr_error *error)
{
  size_t places = 1;
  while (places < 2 * plan->layout_count)
    places *= 2;
  const hr_training_layout **seen = calloc(places, sizeof *seen);
  if (!seen)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %zu layouts", plan->layout_count);
  for (hr_training_layout *layout = plan->layouts; layout < plan->layouts + plan->layout_count; layout++) {
    size_t place = (size_t)hash_of_degrees(layout) & (places - 1);
    while (seen[place] && !have_equal_degrees(seen[place], layout))
      place = (place + 1) & (places - 1);
    layout->best_of_degrees = !seen[place];
    seen[place] = seen[place] ? seen[place] : layout;
  }
  free(seen);
  return HR_OK;
}

static hr_status rank(hr_training_plan *plan, hr_error *error)
{
  double fastest = 0;
  if (plan->layout_count == 0)
    return HR_OK;
  HR_TRY(sort_layouts(plan, error));
  HR_TRY(mark_best_of_degrees(plan, error));
  for (size_t i = 0; i < plan->count_of_devices; i++) {
    const hr_training_count *count = &plan->counts[i];
    hr_training_layout *layouts = plan->layouts + count->first;
    if (count->fitting > 0 && layouts->tokens_per_s > fastest)
      layouts->pareto = true, fastest = layouts->tokens_per_s;
  }
  return HR_OK;
}

/* ---- the plan ---- */

static hr_status fill_state(const hr_subject *subject, const hr_workload *workload, hr_training_state *state,
                            hr_error *error)
{
  state->workload = *workload;
  state->workload.phase = HR_PHASE_TRAIN;
  state->workload.tensor_parallel = state->workload.pipeline_stages = state->workload.context_parallel = 1;
  state->workload.expert_parallel = state->workload.data_parallel = state->workload.batch = 1;
  state->workload.zero_stage = state->workload.microbatches = state->workload.virtual_stages = 0;
  state->workload.recompute = HR_RECOMPUTE_NONE;
  state->workload.sequence_parallel = false;
  HR_TRY(hr_hardware_check(subject->hardware, error));
  HR_TRY(hr_model_check(state->model, error));
  HR_TRY(hr_workload_check(&state->workload, state->model, error));
  state->plan->capacity_bytes = hr_hardware_usable_memory_bytes(subject->hardware);
  if (state->plan->capacity_bytes <= 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: memory_bytes is not known, so what fits cannot be computed",
                   subject->hardware->about.name);
  return HR_OK;
}

static hr_status fill_plan(hr_training_state *state, hr_error *error)
{
  hr_training_plan *plan = state->plan;
  sort_devices(&plan->options);
  for (size_t i = 0; i < plan->options.device_counts; i++) {
    plan->counts[i] = (hr_training_count){.devices = plan->options.devices[i], .first = plan->layout_count};
    plan->count_of_devices++;
    HR_TRY(hr_training_list_layouts(state, i, error));
  }
  return rank(plan, error);
}

static hr_status plan_for(const hr_subject *subject, const hr_workload *workload, hr_training_state *state,
                          hr_error *error)
{
  hr_model split = *state->model;
  HR_TRY(fill_state(subject, workload, state, error));
  HR_TRY(hr_model_set_weights(&split, "bf16", error));
  state->split = &split;
  state->hardware = subject->hardware;
  state->microbatch = calloc(1, sizeof *state->microbatch);
  hr_status status = state->microbatch ? fill_plan(state, error)
                                       : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the layouts");
  free(state->microbatch);
  state->split = NULL;
  return status;
}

hr_status hr_plan_training(const hr_subject *subject, const hr_training_options *options, hr_training_plan **plan,
                           hr_error *error)
{
  HR_NEED(error, subject, options, plan);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  HR_NEED(error, model, workload, subject->hardware);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_training_options, options, error);
  HR_TRY(check_options(options, error));
  double rate;
  if (workload->fp8_linears)
    HR_TRY(hr_predict_rate(subject->hardware, HR_FP8_E4M3, &rate, error));
  hr_training_plan *made = calloc(1, sizeof *made);
  if (!made)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a plan");
  made->options = *options;
  hr_training_state state = {.model = model, .plan = made};
  hr_status status = plan_for(subject, workload, &state, error);
  if (status == HR_OK)
    *plan = made;
  else
    hr_training_plan_free(made);
  return status;
}

/* The first of each count is its fastest. */
const hr_training_layout *hr_training_plan_best(const hr_training_plan *plan)
{
  const hr_training_layout *best = NULL;
  for (size_t i = 0; i < plan->count_of_devices; i++) {
    const hr_training_count *count = &plan->counts[i];
    const hr_training_layout *first = count->fitting > 0 ? &plan->layouts[count->first] : NULL;
    if (first && (!best || first->tokens_per_s > best->tokens_per_s))
      best = first;
  }
  return best;
}

void hr_training_plan_free(hr_training_plan *plan)
{
  if (plan)
    free(plan->layouts);
  free(plan);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One layout: whether it fits, its step, and what the run takes with it. */
#include "analysis/plan/plan.h"
#include "base/checked.h"
#include "base/error.h"

#include <headroom/experimental/model.h>
#include <headroom/memory.h>
#include <math.h>
#include <stdlib.h>

#define SECONDS_PER_HOUR 3600.0
#define SECONDS_PER_DAY 86400.0

static double given_or_nan(double value)
{
  return value > 0 ? value : (double)NAN;
}

static void set_run(const hr_training_options *options, hr_training_layout *layout)
{
  double seconds = given_or_nan(options->tokens) / layout->tokens_per_s, devices = (double)layout->devices;
  layout->days = seconds / SECONDS_PER_DAY;
  layout->device_hours = devices * seconds / SECONDS_PER_HOUR;
  layout->cost = layout->device_hours * given_or_nan(options->price_per_device_hour);
  layout->energy_joules = devices * seconds * given_or_nan(options->power_w);
}

static void set_step(const hr_step_about *about, hr_training_layout *layout)
{
  layout->time_ns = about->time_ns, layout->low_ns = about->low_ns, layout->high_ns = about->high_ns;
  layout->tokens_per_s = about->tokens_per_s;
  layout->tokens_per_s_low = about->tokens_per_s * about->time_ns / about->high_ns;
  layout->tokens_per_s_high = about->tokens_per_s * about->time_ns / about->low_ns;
  layout->communication_share = about->communication_ns / about->time_ns;
  layout->bubble = about->bubble;
  layout->model_efficiency = about->model_efficiency;
}

static hr_status append(hr_training_state *state, const hr_training_layout *layout, hr_error *error)
{
  hr_training_plan *plan = state->plan;
  if (plan->layout_count == state->capacity) {
    size_t capacity = state->capacity > 0 ? 2 * state->capacity : 256;
    hr_training_layout *grown = realloc(plan->layouts, capacity * sizeof *grown);
    if (!grown)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %zu layouts", capacity);
    plan->layouts = grown, state->capacity = capacity;
  }
  plan->layouts[plan->layout_count++] = *layout;
  return HR_OK;
}

static void note_least(hr_training_count *count, int64_t bytes)
{
  if (count->least_memory_bytes == 0 || bytes < count->least_memory_bytes)
    count->least_memory_bytes = bytes;
}

/* HR_ERROR_OVERFLOW: bytes that no device has. */
static hr_status estimate_memory(hr_training_state *state, const hr_workload *workload, hr_memory *memory,
                                 hr_error *error)
{
  if (!state->knows_memory) {
    HR_TRY(hr_workload_check(workload, state->model, error));
    HR_TRY(hr_memory_begin(state->model, workload, &state->memory, error));
    state->knows_memory = true;
  }
  return hr_memory_end(&state->memory, workload, memory, error);
}

hr_status hr_training_add_layout(hr_training_state *state, hr_training_count *count, const hr_workload *workload,
                                 unsigned accepted_by, hr_error *error)
{
  hr_memory memory;
  hr_training_layout layout = {.workload = *workload, .devices = count->devices, .accepted_by = accepted_by};
  hr_status status = estimate_memory(state, workload, &memory, error);
  if (status == HR_ERROR_OVERFLOW)
    return HR_OK;
  HR_TRY(status);
  count->tried++;
  layout.memory_bytes = memory.total_bytes;
  if (memory.total_bytes > state->plan->capacity_bytes) {
    note_least(count, memory.total_bytes);
    return HR_OK;
  }
  const hr_subject subject = {.model = state->model, .workload = workload, .hardware = state->hardware};
  hr_training_stage_ends(hr_model_layers(state->model), workload->pipeline_stages, &layout.first_stage_layers,
                         &layout.last_stage_layers);
  hr_step_about about;
  state->microbatch->held = &state->memory.held;
  HR_TRY(hr_time_step(&subject, state->microbatch, &about, error));
  set_step(&about, &layout);
  set_run(&state->plan->options, &layout);
  count->fitting++;
  return append(state, &layout, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan as workloads, and the memory that they need on a device. */
#include "analysis/serve/plan.h"
#include "base/checked.h"
#include "base/error.h"
#include "model/layers/split.h"

int64_t hr_serve_prefill_batch(const hr_serve_options *options, int64_t batch)
{
  int64_t held = hr_max64(options->prefill_tokens / options->prompt_tokens, 1);
  int64_t freed = options->output_tokens > 1 ? batch / (options->output_tokens - 1) : batch;
  return hr_min64(hr_min64(hr_max64(freed, 1), held), batch);
}

int64_t hr_serve_stage_batch(const hr_serve_state *state, int64_t batch)
{
  return hr_ceil_div(batch, hr_min64(state->workload.pipeline_stages, batch));
}

int64_t hr_serve_groups(const hr_serve_layout *layout)
{
  return layout->devices / (layout->tensor_parallel * layout->pipeline_stages);
}

hr_workload hr_serve_workload(const hr_serve_state *state, const hr_serve_layout *layout, hr_phase phase, int64_t batch)
{
  hr_workload workload = state->workload;
  workload.phase = phase;
  workload.batch = batch;
  workload.tensor_parallel = layout->tensor_parallel;
  workload.expert_parallel = layout->expert_parallel;
  return workload;
}

/* The largest prefill step: prefill_tokens in equal prompts, or parts of prompts. A server sets its activations aside
 * whatever its requests are. */
static hr_workload largest_prefill(const hr_serve_state *state, const hr_serve_layout *layout)
{
  const hr_serve_options *options = &state->options;
  int64_t prompts = hr_min64(hr_ceil_div(options->prefill_tokens, options->prompt_tokens), options->batch_max);
  hr_workload prefill = hr_serve_workload(state, layout, HR_PHASE_PREFILL, prompts);
  prefill.sequence = hr_min64(hr_ceil_div(options->prefill_tokens, prompts), options->prompt_tokens);
  return prefill;
}

/* K and V of a decode step where layers keep tokens behind their windows, too. */
static hr_status uniform_cache(const hr_serve_state *state, const hr_workload *decode, hr_memory *memory,
                               hr_error *error)
{
  hr_model model = *state->model;
  hr_memory kept;
  for (size_t i = 0; i < model.group_count; i++)
    model.groups[i].attention.window = 0;
  HR_TRY(hr_memory_estimate(&model, decode, &kept, error));
  hr_checked64 more = hr_plus(hr_checked(kept.kv_cache_bytes), hr_checked(-memory->kv_cache_bytes));
  memory->kv_cache_bytes = kept.kv_cache_bytes;
  return hr_checked_take(hr_plus(hr_checked(memory->total_bytes), more), &memory->total_bytes);
}

hr_serve_layout hr_serve_drafter_layout(const hr_serve_state *drafter, const hr_serve_layout *layout)
{
  const int64_t t = layout->tensor_parallel;
  const bool whole = hr_split_of(drafter->model, t, 1, HR_SPLIT_ALL).whole;
  return (hr_serve_layout){
      .tensor_parallel = whole ? t : 1, .expert_parallel = 1, .pipeline_stages = 1, .devices = whole ? t : 1};
}

/* Adds what drafts, whose steps and those of the model take turns. */
static hr_status add_drafter(const hr_serve_state *drafter, const hr_serve_layout *layout, int64_t batch,
                             hr_memory *memory, hr_error *error)
{
  const hr_serve_layout own = hr_serve_drafter_layout(drafter, layout);
  hr_memory more;
  HR_TRY(hr_serve_memory(drafter, &own, batch, &more, error));
  const int64_t activations = hr_max64(more.activation_bytes - memory->activation_bytes, 0);
  memory->weight_bytes += more.weight_bytes;
  memory->kv_cache_bytes += more.kv_cache_bytes;
  memory->state_bytes += more.state_bytes;
  memory->activation_bytes += activations;
  hr_checked64 kept = hr_checked(more.total_bytes - more.activation_bytes + activations);
  return hr_checked_take(hr_plus(hr_checked(memory->total_bytes), kept), &memory->total_bytes);
}

hr_status hr_serve_memory(const hr_serve_state *state, const hr_serve_layout *layout, int64_t batch, hr_memory *memory,
                          hr_error *error)
{
  hr_workload decode = hr_serve_workload(state, layout, HR_PHASE_DECODE, batch);
  hr_memory prefill = {0};
  decode.context = state->cached_tokens;
  HR_TRY(hr_memory_estimate(state->model, &decode, memory, error));
  if (state->options.uniform_pages)
    HR_TRY(uniform_cache(state, &decode, memory, error));
  if (!state->options.disaggregated) {
    hr_workload step = largest_prefill(state, layout);
    HR_TRY(hr_memory_estimate(state->model, &step, &prefill, error));
  }
  int64_t more = hr_max64(prefill.activation_bytes - memory->activation_bytes, 0);
  memory->activation_bytes += more;
  hr_checked64 set_aside = hr_plus(hr_checked(more), hr_checked(state->options.reserve_bytes));
  HR_TRY(hr_checked_take(hr_plus(hr_checked(memory->total_bytes), set_aside), &memory->total_bytes));
  return state->drafter ? add_drafter(state->drafter, layout, batch, memory, error) : HR_OK;
}

int64_t hr_serve_memory_bytes(const hr_serve_state *state, const hr_serve_layout *layout, int64_t batch)
{
  hr_memory memory;
  return hr_serve_memory(state, layout, batch, &memory, NULL) == HR_OK ? memory.total_bytes : INT64_MAX;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan as workloads, and the memory that they need on a device. */
#include "analysis/serve/plan.h"
#include "base/checked.h"
#include "base/error.h"

#include <headroom/memory.h>

int64_t hr_serve_prefill_batch(const hr_serve_options *options, int64_t batch)
{
  int64_t held = hr_max64(options->prefill_tokens / options->prompt_tokens, 1);
  int64_t freed = options->output_tokens > 1 ? batch / (options->output_tokens - 1) : batch;
  return hr_min64(hr_min64(hr_max64(freed, 1), held), batch);
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

/* Weights, caches and states of `batch` sequences at their end, and the larger activations: of a decode step, or of the
 * prefill, of which a step holds prefill_tokens. */
static hr_status estimate(const hr_serve_state *state, const hr_serve_layout *layout, int64_t batch, hr_memory *memory,
                          hr_error *error)
{
  hr_workload decode = hr_serve_workload(state, layout, HR_PHASE_DECODE, batch);
  decode.context = state->cached_tokens;
  HR_TRY(hr_memory_estimate(state->model, &decode, memory, error));
  if (state->options.disaggregated)
    return HR_OK;
  hr_memory prompts;
  hr_workload prefill =
      hr_serve_workload(state, layout, HR_PHASE_PREFILL, hr_serve_prefill_batch(&state->options, batch));
  prefill.sequence = hr_min64(state->options.prompt_tokens, state->options.prefill_tokens);
  HR_TRY(hr_memory_estimate(state->model, &prefill, &prompts, error));
  if (prompts.activation_bytes > memory->activation_bytes) {
    hr_checked64 more = hr_checked(prompts.activation_bytes - memory->activation_bytes);
    HR_TRY(hr_checked_take(hr_plus(hr_checked(memory->total_bytes), more), &memory->total_bytes));
    memory->activation_bytes = prompts.activation_bytes;
  }
  return HR_OK;
}

int64_t hr_serve_memory_bytes(const hr_serve_state *state, const hr_serve_layout *layout, int64_t batch)
{
  hr_memory memory;
  return estimate(state, layout, batch, &memory, NULL) == HR_OK ? memory.total_bytes : INT64_MAX;
}

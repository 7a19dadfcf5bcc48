/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan is asked for: checks of the options, and what follows from them alone. */
#include "analysis/serve/plan.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"

#include <headroom/experimental/workload.h>
#include <inttypes.h>

static hr_status check_count(const char *member, int64_t value, int64_t least, int64_t most, hr_error *error)
{
  if (value >= least && value <= most)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected %" PRId64 " to %" PRId64 ", found %" PRId64, member, least,
                 most, value);
}

static hr_status check_number(const char *member, double value, double most, hr_error *error)
{
  if (value >= 0 && value <= most)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected 0 to %g, found %g", member, most, value);
}

static hr_status check_options(const hr_serve_options *options, hr_error *error)
{
  const struct {
    const char *member;
    int64_t value, least, most;
  } counts[] = {
      {"prompt_tokens", options->prompt_tokens, 1, HR_SERVE_TOKENS_MAX},
      {"output_tokens", options->output_tokens, 1, HR_SERVE_TOKENS_MAX},
      {"batch", options->batch, 0, HR_SERVE_BATCH_MAX},
      {"batch_max", options->batch_max, 1, HR_SERVE_BATCH_MAX},
      {"devices_max", options->devices_max, 0, HR_SERVE_DEVICES_MAX},
      {"tensor_parallel", options->tensor_parallel, 0, HR_SERVE_DEVICES_MAX},
      {"expert_parallel", options->expert_parallel, 0, HR_SERVE_DEVICES_MAX},
      {"pipeline_stages", options->pipeline_stages, 0, HR_SERVE_DEVICES_MAX},
      {"prefill_tokens", options->prefill_tokens, 1, HR_SERVE_PREFILL_MAX},
      {"page_tokens", options->page_tokens, 1, HR_SERVE_PAGE_MAX},
      {"reserve_bytes", options->reserve_bytes, 0, HR_SERVE_RESERVE_MAX},
      {"prefill_tensor_parallel", options->prefill_tensor_parallel, 0, HR_SERVE_DEVICES_MAX},
  };
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    HR_TRY(check_count(counts[i].member, counts[i].value, counts[i].least, counts[i].most, error));
  if ((unsigned)options->engine >= HR_SERVE_ENGINE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "engine: %d is not in the list", (int)options->engine);
  if (options->pipeline_stages > 1 && !hr_serve_has_stages(options->engine))
    return hr_fail(error, HR_ERROR_INVALID, "pipeline_stages: this engine has none, found %" PRId64,
                   options->pipeline_stages);
  HR_TRY(check_number("ttft_limit_ns", options->ttft_limit_ns, 1e18, error));
  HR_TRY(check_number("tpot_limit_ns", options->tpot_limit_ns, 1e18, error));
  HR_TRY(check_number("price_per_device_hour", options->price_per_device_hour, 1e12, error));
  HR_TRY(check_number("prefill_price_per_device_hour", options->prefill_price_per_device_hour, 1e12, error));
  HR_TRY(check_number("recommend", options->recommend, (double)HR_SERVE_RATE_MAX, error));
  HR_TRY(check_number("memory_share", options->memory_share, 1, error));
  if (options->sure != 0 && options->sure != 90)
    return hr_fail(error, HR_ERROR_INVALID, "sure: expected 90, the percentage of times in a band, found %" PRId64,
                   options->sure);
  if (!options->disaggregated && (options->prefill_hardware || options->prefill_tensor_parallel > 0))
    return hr_fail(error, HR_ERROR_INVALID, "%s: only prompts of disaggregated plans are prefilled apart",
                   options->prefill_hardware ? "prefill_hardware" : "prefill_tensor_parallel");
  if (options->disaggregated && options->output_tokens == 1)
    return hr_fail(error, HR_ERROR_INVALID, "disaggregated: output_tokens is 1, so no device would decode");
  return HR_OK;
}

/* devices_max of 0 is a node, or what the caller names if that is more. */
static hr_status fill_devices(const hr_hardware *hardware, hr_serve_options *options, hr_error *error)
{
  int64_t sharing = hr_max64(options->tensor_parallel, options->expert_parallel);
  options->pipeline_stages = hr_max64(options->pipeline_stages, 1);
  int64_t named = hr_max64(sharing, 1) * options->pipeline_stages;
  if (options->devices_max == 0)
    options->devices_max = hr_min64(hr_max64(hr_max64(hardware->devices_per_node, named), 1), HR_SERVE_DEVICES_MAX);
  if (named > options->devices_max)
    return hr_fail(error, HR_ERROR_INVALID, "%s: %" PRId64 " needs more than the %" PRId64 " devices of devices_max",
                   sharing <= 1                          ? "pipeline_stages"
                   : options->tensor_parallel == sharing ? "tensor_parallel"
                                                         : "expert_parallel",
                   named, options->devices_max);
  return HR_OK;
}

hr_status hr_serve_fill_state(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                              const hr_serve_options *options, hr_serve_state *state, hr_error *error)
{
  HR_TRY(check_options(options, error));
  HR_TRY(hr_hardware_check(hardware, error));
  HR_TRY(hr_model_check(model, error));
  if (hardware->memory_bytes == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: memory_bytes is not known, so what fits cannot be computed",
                   hardware->about.name);
  *state = (hr_serve_state){.hardware = hardware, .model = model};
  state->workload = hr_workload_default(model);
  state->workload.dtype = workload->dtype;
  state->workload.kv_cache = workload->kv_cache;
  state->workload.attention = workload->attention;
  state->workload.expert_imbalance = workload->expert_imbalance;
  state->workload.framework = workload->framework;
  state->workload.phase = HR_PHASE_DECODE;
  state->workload.batch = state->workload.sequence = state->workload.context = 1;
  state->workload.tensor_parallel = 1;
  state->workload.pipeline_stages = hr_max64(options->pipeline_stages, 1);
  HR_TRY(hr_workload_check(&state->workload, model, error));
  state->options = *options;
  HR_TRY(fill_devices(hardware, &state->options, error));
  state->capacity_bytes = hr_serve_capacity(state);
  /* The last token of the output is never an input. */
  state->cached_tokens = hr_round_up(options->prompt_tokens + options->output_tokens - 1, options->page_tokens);
  return HR_OK;
}

/* ---- devices that prefill ---- */

bool hr_serve_has_own_prefill(const hr_serve_options *options)
{
  return options->disaggregated && (options->prefill_hardware || options->prefill_tensor_parallel > 0);
}

const hr_hardware *hr_serve_prefill_hardware(const hr_serve_state *state)
{
  return state->options.prefill_hardware ? state->options.prefill_hardware : state->hardware;
}

double hr_serve_prefill_price(const hr_serve_options *options)
{
  double own = options->prefill_price_per_device_hour;
  return own > 0 ? own : options->price_per_device_hour;
}

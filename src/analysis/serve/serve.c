/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/serve.h>

#include "analysis/predict/step.h"
#include "analysis/serve/plan.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Powers of two up to HR_SERVE_BATCH_MAX, the largest batch, and the largest one within the limits. */
#define BATCHES_MAX 48

/* A context takes 0.51 GiB of an H100 and of an H200, PyTorch after its first GEMM 0.67 GiB without its tensors (driver
 * 580.159.04, PyTorch 2.11, 2026-11-28). CUDA graphs of vLLM take 0.26 and 0.36 GiB more (vllm-project/vllm pull
 * request 30515, gpustack/runner pull request 251). */
#define RESERVE_BYTES ((int64_t)1 << 30)

void hr_serve_options_init(hr_serve_options *options, size_t size)
{
  HR_INIT(options, size,
          (hr_serve_options){.prompt_tokens = 2048,
                             .output_tokens = 256,
                             /* These are a vLLM 0.9 server's on a GPU of 70 GiB or more (engine/arg_utils.py):
                             * gpu_memory_utilization, max_num_seqs, max_num_batched_tokens, block_size. */
                             .memory_share = 0.9,
                             .batch_max = 1024,
                             .prefill_tokens = 8192,
                             .page_tokens = 16,
                             .reserve_bytes = RESERVE_BYTES});
}

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

/* The batches to try in ascending order. Returns their number. */
static size_t list_batches(const hr_serve_options *options, int64_t largest, int64_t batches[BATCHES_MAX])
{
  size_t count = 0;
  int64_t most = hr_min64(largest, options->batch > 0 ? options->batch : options->batch_max);
  if (options->batch > 0) {
    batches[0] = options->batch;
    return most == options->batch;
  }
  for (int64_t batch = 1; batch <= most; batch *= 2)
    batches[count++] = batch;
  if (count > 0 && batches[count - 1] < most)
    batches[count++] = most;
  return count;
}

/* The largest batch between two others, of which only the smaller one meets the limits, that meets them, too: a larger
 * one takes longer. False if there is none. */
static hr_status largest_within_limits(hr_serve_state *state, const hr_serve_layout *layout, int64_t low, int64_t high,
                                       hr_serve_point *best, bool *found, hr_error *error)
{
  *found = false;
  while (high - low > 1) {
    hr_serve_point point;
    int64_t middle = low + (high - low) / 2;
    HR_TRY(hr_serve_predict_point(state, layout, middle, &point, error));
    if (point.meets_limits) {
      low = middle;
      *best = point;
      *found = true;
    } else {
      high = middle;
    }
  }
  return HR_OK;
}

static hr_status predict_layout(hr_serve_state *state, const hr_serve_layout *layout, hr_serve_point *points,
                                size_t *count, hr_error *error)
{
  int64_t batches[BATCHES_MAX];
  size_t last = list_batches(&state->options, layout->largest_batch, batches);
  for (*count = 0; *count < last; ++*count)
    HR_TRY(hr_serve_predict_point(state, layout, batches[*count], &points[*count], error));
  size_t met = 0; /* points up to the last one that meets the limits */
  for (size_t i = 0; i < last; i++)
    met = points[i].meets_limits ? i + 1 : met;
  if (met == 0 || met == last)
    return HR_OK;
  bool found;
  hr_serve_point best;
  HR_TRY(largest_within_limits(state, layout, batches[met - 1], batches[met], &best, &found, error));
  if (found) {
    memmove(&points[met + 1], &points[met], (last - met) * sizeof *points);
    points[met] = best;
    ++*count;
  }
  return HR_OK;
}

static hr_status predict_points(hr_serve_state *state, hr_serve_result *result, hr_error *error)
{
  result->points = calloc(result->layout_count * BATCHES_MAX, sizeof *result->points);
  if (!result->points)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the plans");
  for (size_t i = 0; i < result->layout_count; i++) {
    size_t added;
    HR_TRY(predict_layout(state, &result->layouts[i], &result->points[result->count], &added, error));
    result->count += added;
  }
  return HR_OK;
}

static hr_status run(hr_serve_state *state, hr_serve_result *result, hr_error *error)
{
  HR_TRY(hr_serve_list_layouts(state, result->layouts, &result->layout_count, error));
  if (hr_serve_has_own_prefill(&state->options))
    HR_TRY(hr_serve_choose_prefill(state, error));
  result->options = state->options;
  result->capacity_bytes = state->capacity_bytes;
  result->cached_tokens = state->cached_tokens;
  HR_TRY(predict_points(state, result, error));
  bool fits = false;
  for (size_t i = 0; i < result->layout_count; i++)
    fits = fits || result->layouts[i].largest_batch > 0;
  if (!fits)
    hr_serve_find_fit(state, result);
  hr_serve_choose(result);
  return hr_serve_recommend(result, error);
}

hr_status hr_serve_plan(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                        const hr_serve_options *options, hr_serve_result **result, hr_error *error)
{
  HR_NEED(error, hardware, model, workload, options, result);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_serve_options, options, error);
  hr_serve_state state;
  HR_TRY(hr_serve_fill_state(hardware, model, workload, options, &state, error));
  hr_serve_result *made = calloc(1, sizeof *made);
  state.step = malloc(sizeof *state.step);
  if (made)
    made->layouts = calloc(HR_SERVE_LAYOUTS_MAX, sizeof *made->layouts);
  hr_status status;
  if (made && made->layouts && state.step)
    status = run(&state, made, error);
  else
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the plans");
  free(state.step);
  if (status == HR_OK)
    *result = made;
  else
    hr_serve_result_free(made);
  return status;
}

void hr_serve_result_free(hr_serve_result *result)
{
  if (!result)
    return;
  free(result->layouts);
  free(result->points);
  free(result->fleets);
  free(result);
}

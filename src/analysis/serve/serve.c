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
  state.known = calloc(HR_KNOWN_OPERATORS, sizeof *state.known);
  if (made)
    made->layouts = calloc(HR_SERVE_LAYOUTS_MAX, sizeof *made->layouts);
  hr_status status;
  if (made && made->layouts && state.step && state.known)
    status = run(&state, made, error);
  else
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the plans");
  free(state.step);
  free(state.known);
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

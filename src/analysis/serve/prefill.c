/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that prefill alone, of a type and a layout of their own. */
#include "analysis/serve/plan.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"

#include <inttypes.h>

static hr_status fill_state(const hr_serve_state *state, hr_serve_state *prefill, hr_error *error)
{
  hr_serve_options options = hr_serve_prefill_options(&state->options, state->hardware);
  options.disaggregated = false, options.prefill_hardware = NULL, options.recommend = 0;
  options.tensor_parallel = options.prefill_tensor_parallel, options.prefill_tensor_parallel = 0;
  options.expert_parallel = options.pipeline_stages = options.output_tokens = 1;
  options.batch = options.devices_max = 0;
  HR_TRY(
      hr_serve_fill_state(hr_serve_prefill_hardware(state), state->model, &state->workload, &options, prefill, error));
  prefill->step = state->step;
  return HR_OK;
}

hr_status hr_serve_fill_prefill_state(const hr_serve_state *state, hr_serve_state *prefill, hr_serve_state *drafter,
                                      hr_error *error)
{
  HR_TRY(fill_state(state, prefill, error));
  if (!state->drafter)
    return HR_OK;
  HR_TRY(fill_state(state->drafter, drafter, error));
  prefill->drafter = drafter;
  return HR_OK;
}

hr_status hr_serve_no_prefill(const hr_serve_state *state, hr_error *error)
{
  const char *name = hr_serve_prefill_hardware(state)->about.name;
  const char *models = state->drafter ? "the model, the model that drafts" : "the model";
  if (state->options.prefill_tensor_parallel > 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "prefill: %s and a prompt do not fit, or do not split, with t = %" PRId64 " on %s", models,
                   state->options.prefill_tensor_parallel, name);
  return hr_fail(error, HR_ERROR_INVALID, "prefill: %s and a prompt fit into no layout on a node of %s", models, name);
}

/* Among layouts within the limit the one that keeps devices busy for the shortest time, else the quickest. */
static bool is_better(const hr_serve_options *options, const hr_serve_layout *a, const hr_serve_time *a_time,
                      const hr_serve_layout *b, const hr_serve_time *b_time)
{
  double a_ns = options->sure > 0 ? a_time->high_ns : a_time->ns,
         b_ns = options->sure > 0 ? b_time->high_ns : b_time->ns;
  bool a_meets = options->ttft_limit_ns <= 0 || a_ns <= options->ttft_limit_ns;
  bool b_meets = options->ttft_limit_ns <= 0 || b_ns <= options->ttft_limit_ns;
  if (a_meets != b_meets)
    return a_meets;
  return a_meets ? (double)a->devices * a_time->ns < (double)b->devices * b_time->ns : a_time->ns < b_time->ns;
}

/* A prompt, which passes what drafts, too. */
static hr_status predict_prompt(hr_serve_state *prefill, const hr_serve_layout *layout, int64_t tokens,
                                hr_serve_time *time, hr_error *error)
{
  HR_TRY(hr_serve_predict(prefill, layout, HR_PHASE_PREFILL, 1, tokens, time, error));
  if (!prefill->drafter)
    return HR_OK;
  const hr_serve_layout own = hr_serve_drafter_layout(prefill->drafter, layout);
  hr_serve_time more;
  HR_TRY(hr_serve_predict(prefill->drafter, &own, HR_PHASE_PREFILL, 1, tokens, &more, error));
  time->ns += more.ns, time->low_ns += more.low_ns, time->high_ns += more.high_ns;
  return HR_OK;
}

hr_status hr_serve_choose_prefill(hr_serve_state *state, hr_error *error)
{
  hr_serve_layout layouts[HR_SERVE_LAYOUTS_MAX];
  hr_serve_state prefill, drafter;
  size_t count;
  int64_t tokens = state->options.prompt_tokens - hr_serve_decodes_first(state->options.engine);
  HR_TRY(hr_serve_fill_prefill_state(state, &prefill, &drafter, error));
  HR_TRY(hr_serve_list_layouts(&prefill, layouts, &count, error));
  for (size_t i = 0; i < count; i++) {
    hr_serve_time time;
    if (layouts[i].largest_batch == 0)
      continue;
    HR_TRY(predict_prompt(&prefill, &layouts[i], hr_max64(tokens, 1), &time, error));
    if (state->prefill_layout.devices > 0 &&
        !is_better(&state->options, &layouts[i], &time, &state->prefill_layout, &state->prefill_time))
      continue;
    state->prefill_layout = layouts[i];
    state->prefill_time = time;
  }
  return state->prefill_layout.devices > 0 ? HR_OK : hr_serve_no_prefill(state, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy decoding: a prefill, then a step for each token. */
#include <headroom/experimental/step.h>

#include "base/error.h"
#include "base/struct_size.h"
#include "experiment/step/team.h"
#include "runtime/device/clock.h"

#include <inttypes.h>
#include <stdlib.h>

static hr_status next_id(hr_executor *executor, const hr_executor_input *input, int32_t *id, hr_error *error)
{
  HR_TRY(hr_executor_step(executor, input, NULL, error));
  return hr_executor_largest(executor, id, error);
}

static hr_status generate(hr_executor *executor, const hr_executor_input *prompt, hr_generated *to, hr_error *error)
{
  hr_executor_input input = *prompt;
  double start_ns = hr_clock_ns();
  HR_TRY(next_id(executor, prompt, &to->ids[0], error));
  to->first_ns = hr_clock_ns() - start_ns;
  input.phase = HR_PHASE_DECODE;
  input.tokens = 1;
  start_ns = hr_clock_ns();
  for (int64_t i = 1; i < to->count; i++) {
    input.ids = &to->ids[i - 1];
    HR_TRY(next_id(executor, &input, &to->ids[i], error));
  }
  to->others_ns = hr_clock_ns() - start_ns;
  return HR_OK;
}

static hr_generated *new_generated(int64_t prompt_count, int64_t count)
{
  hr_generated *to = calloc(1, sizeof *to);
  if (!to)
    return NULL;
  *to = (hr_generated){.prompt_count = prompt_count, .count = count, .ids = malloc((size_t)count * sizeof *to->ids)};
  if (to->ids)
    return to;
  free(to);
  return NULL;
}

hr_status hr_generate(hr_executor *executor, const hr_executor_input *prompt, int64_t count, hr_generated **generated,
                      hr_error *error)
{
  HR_NEED(error, executor, prompt, generated);
  HR_TAKE(hr_executor_input, prompt, error);
  if (prompt->phase != HR_PHASE_PREFILL || prompt->batch != 1)
    return hr_fail(error, HR_ERROR_INVALID, "prompt: expected a prefill of one sequence");
  if (count < 1 || count > 1 << 24)
    return hr_fail(error, HR_ERROR_INVALID, "count: expected 1 to 2^24, found %" PRId64, count);
  hr_generated *to = new_generated(prompt->tokens, count);
  hr_status status = to ? generate(executor, prompt, to, error)
                        : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " tokens", count);
  if (status == HR_OK)
    *generated = to;
  else
    hr_generated_free(to);
  return status;
}

/* ---- with executors of its own ---- */

void hr_generate_options_init(hr_generate_options *options, size_t size)
{
  HR_INIT(options, size,
          (hr_generate_options){.count = 16, .dtype = HR_FP32, .seed = 1, .tensor_parallel = 1, .pipeline_stages = 1});
}

typedef struct generation {
  const hr_generate_options *options;
  hr_team *team;
  hr_generated *generated; /* of the first rank */
} generation;

static hr_status generate_rank(hr_team_rank *rank, void *context, hr_error *error)
{
  generation *g = context;
  hr_executor_input prompt = hr_executor_input_default();
  hr_generated *own = NULL;
  prompt.tokens = g->options->prompt_count;
  prompt.ids = g->options->prompt;
  HR_TRY(hr_generate(rank->executor, &prompt, g->options->count, &own, error));
  if (rank == hr_team_first(g->team))
    g->generated = own;
  else
    hr_generated_free(own);
  return HR_OK;
}

static hr_status generate_in_team(const hr_model *model, generation *g, hr_error *error)
{
  const hr_generate_options *o = g->options;
  const hr_team_weights weights = {o->weights, o->seed, o->progress, o->context};
  hr_executor_options options = hr_executor_options_default();
  options.dtype = o->dtype;
  options.tokens = o->prompt_count + o->count;
  options.expert_parallel = o->expert_parallel;
  const hr_team_kind kind = o->pipeline_stages > 1 ? HR_TEAM_OF_STAGES : HR_TEAM_SHARES_LAYERS;
  HR_TRY(hr_team_open_executors(g->team, model, &options, kind, error));
  HR_TRY(hr_team_load(g->team, &weights, error));
  return hr_team_do(g->team, generate_rank, g, error);
}

hr_status hr_generate_on(hr_device *device, const hr_model *model, const hr_generate_options *options,
                         hr_generated **generated, hr_error *error)
{
  HR_NEED(error, device, model, options, generated);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_generate_options, options, error);
  const int64_t t = options->tensor_parallel, p = options->pipeline_stages;
  if (!options->prompt || options->prompt_count < 1 || options->prompt_count > 1 << 24)
    return hr_fail(error, HR_ERROR_INVALID, "prompt: expected 1 to 2^24 tokens, found %" PRId64, options->prompt_count);
  if (options->count < 1 || options->count > 1 << 24)
    return hr_fail(error, HR_ERROR_INVALID, "count: expected 1 to 2^24, found %" PRId64, options->count);
  if (t < 1 || t > 1024)
    return hr_fail(error, HR_ERROR_INVALID, "tensor_parallel: expected 1 to 1024, found %" PRId64, t);
  if (p < 1 || p > 1024)
    return hr_fail(error, HR_ERROR_INVALID, "pipeline_stages: expected 1 to 1024, found %" PRId64, p);
  if (t > 1 && p > 1)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "stages of several devices cannot be run yet");
  generation g = {.options = options};
  HR_TRY(options->communicator ? hr_team_join(device, options->communicator, t * p, &g.team, error)
                               : hr_team_open(device, t * p, &g.team, error));
  hr_status status = generate_in_team(model, &g, error);
  hr_team_close(g.team);
  if (status == HR_OK)
    *generated = g.generated;
  else
    hr_generated_free(g.generated);
  return status;
}

void hr_generated_free(hr_generated *generated)
{
  if (generated)
    free(generated->ids);
  free(generated);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy decoding: a prefill, then a step for each token. */
#include <headroom/experimental/step.h>

#include "base/error.h"
#include "base/struct_size.h"
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

void hr_generated_free(hr_generated *generated)
{
  if (generated)
    free(generated->ids);
  free(generated);
}

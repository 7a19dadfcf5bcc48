/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an executor, for tests of whole models. */
#ifndef HR_TESTS_UNIT_RUN_STEP_H
#define HR_TESTS_UNIT_RUN_STEP_H

#include "test.h"

#include <headroom/experimental/run.h>

static inline void step(hr_executor *x, hr_phase phase, int64_t batch, int64_t tokens, const int64_t *slots,
                        const int32_t *at, float *logits)
{
  hr_executor_input input = hr_executor_input_default();
  hr_error error;
  input.phase = phase;
  input.batch = batch, input.tokens = tokens;
  input.slots = slots;
  input.ids = at;
  assert_ok(hr_executor_step(x, &input, logits, &error), error);
}

#endif

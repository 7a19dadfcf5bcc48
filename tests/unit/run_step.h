/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an executor, for tests of whole models. */
#ifndef HR_TESTS_UNIT_RUN_STEP_H
#define HR_TESTS_UNIT_RUN_STEP_H

#include "test.h"

#include "runtime/device/device.h"
#include "runtime/device/persistent.h"

#include <headroom/experimental/run.h>

/* Whether the device runs linear layers of a step in one kernel. */
static inline bool persists(const hr_device *device)
{
  const hr_linear_arguments linear = {.rows = 1,
                                      .n = 64,
                                      .k = 64,
                                      .x_stride = 64,
                                      .alignment = 16,
                                      .dtype = HR_BF16,
                                      .norm = HR_ROWWISE_COUNT,
                                      .activation = HR_ROWWISE_COUNT};
  return device->backend->persists && device->backend->persists(device, &(hr_persistent_part){.linear = &linear});
}

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

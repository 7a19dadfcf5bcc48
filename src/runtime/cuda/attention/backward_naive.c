/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention by kernels/attention_backward_naive.cu: their definition, in float64. */
#include "base/checked.h"
#include "runtime/cuda/attention/backward.h"

#include <stdio.h>

#define MULTIPLY_ADDS_MAX ((int64_t)1 << 40)

void hr_backward_naive_defines(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_PER_LANE=%d%s", (int)hr_ceil_div(hr_max64(a->qk_dim, a->v_dim), 32),
           a->first_keys ? " HR_FIRST_KEYS" : "");
}

/* Counts all five products; of variable lengths the most. */
static bool is_quick(const hr_attention *a)
{
  int64_t entries = 0;
  return hr_attention_entries(a, &entries) == HR_OK &&
         (double)entries * (double)(3 * a->qk_dim + 2 * a->v_dim) * (double)a->q_heads * (double)a->batch <=
             (double)MULTIPLY_ADDS_MAX;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *a = &problem->backward.forward;
  if (!hr_cuda_backward_fits(a, HR_BACKWARD_NAIVE_ROWS, why, why_size))
    return false;
  if (is_quick(a))
    return true;
  snprintf(why, why_size, "takes at most 2^40 multiply-adds");
  return false;
}

/* Reads single elements of any alignment. */
static hr_cuda_backward_config configure(const hr_attention *a, size_t shared_max, bool aligned)
{
  (void)shared_max;
  (void)aligned;
  hr_cuda_backward_config c = {.source = "attention_backward_naive",
                               .rows = HR_BACKWARD_NAIVE_ROWS,
                               .threads = 32 * HR_BACKWARD_NAIVE_WARPS,
                               .shared_bytes = (size_t)hr_backward_naive_bytes((int)a->qk_dim, (int)a->v_dim)};
  hr_backward_naive_defines(a, c.defines);
  return c;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return hr_cuda_backward_prepare(device, problem, configure, state, workspace_bytes, error);
}

const hr_kernel_functions hr_kernel_attention_backward_naive_cuda = {.state_bytes = sizeof(hr_cuda_backward_plan),
                                                                     .supports = supports,
                                                                     .prepare = prepare,
                                                                     .run = hr_cuda_backward_run};

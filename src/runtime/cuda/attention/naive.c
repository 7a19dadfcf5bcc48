/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by kernels/attention_naive.cu: its definition, in float64. */
#include "base/checked.h"
#include "runtime/cuda/attention/attention.h"

#include <stdio.h>

#define MULTIPLY_ADDS_MAX ((int64_t)1 << 40)

void hr_naive_cuda_defines(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_V_PER_LANE=%d%s%s%s", (int)hr_ceil_div(a->v_dim, 32),
           hr_cuda_attention_output_define(a), a->head_scales ? " HR_HEAD_SCALES" : "",
           a->first_keys ? " HR_FIRST_KEYS" : "");
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *a = &problem->attention;
  if (!hr_cuda_attention_dims_fit(a, why, why_size))
    return false;
  int64_t entries = 0;
  if (hr_attention_entries(a, &entries) != HR_OK ||
      (double)entries * (double)(a->qk_dim + a->v_dim) * (double)a->q_heads * (double)a->batch >
          (double)MULTIPLY_ADDS_MAX) {
    snprintf(why, why_size, "takes at most 2^40 multiply-adds, about a second");
    return false;
  }
  return hr_cuda_attention_fits(a, HR_NAIVE_ROWS, why, why_size);
}

/* Reads single elements of any alignment. */
static hr_cuda_attention_config configure(const hr_attention *a, size_t shared_max, bool aligned)
{
  (void)shared_max;
  (void)aligned;
  hr_cuda_attention_config c = {.source = "attention_naive",
                                .dtype = a->dtype == HR_TF32 ? HR_FP32 : a->dtype,
                                .q_rows = HR_NAIVE_ROWS,
                                .threads = 32 * HR_NAIVE_WARPS,
                                .shared_bytes = (size_t)hr_naive_bytes((int)a->qk_dim)};
  hr_naive_cuda_defines(a, c.defines);
  return c;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return hr_cuda_attention_prepare(device, problem, configure, state, workspace_bytes, error);
}

const hr_kernel_functions hr_kernel_attention_naive_cuda = {.state_bytes = sizeof(hr_cuda_attention_plan),
                                                            .supports = supports,
                                                            .prepare = prepare,
                                                            .run = hr_cuda_attention_run};

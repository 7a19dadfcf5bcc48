/* Attention by kernels/attention_naive.cu: the definition in float64. */
#include "base/checked.h"
#include "runtime/cuda/attention/attention.h"

#include <stdio.h>

#define ROWS 32
#define KEYS 32
#define THREADS 256
#define PRODUCTS_MOST ((int64_t)1 << 40)

void hr_naive_cuda_defines(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_COLUMNS=%d", (int)hr_ceil_div(a->v_dim, 32));
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
          (double)PRODUCTS_MOST) {
    snprintf(why, why_size, "takes at most 2^40 multiply-adds, about a second");
    return false;
  }
  return hr_cuda_attention_fits(a, ROWS, why, why_size);
}

/* Reads elements one by one, wherever they lie. */
static hr_cuda_attention_cut cut(const hr_attention *a, size_t shared_most, bool aligned)
{
  (void)shared_most;
  (void)aligned;
  hr_cuda_attention_cut c = {
      .source = "attention_naive", .dtype = a->dtype == HR_TF32 ? HR_FP32 : a->dtype, .rows = ROWS, .threads = THREADS};
  c.shared_bytes = (size_t)(ROWS * a->qk_dim * 8 + KEYS * (a->qk_dim | 1) * 4); /* as in the program */
  hr_naive_cuda_defines(a, c.defines);
  return c;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return hr_cuda_attention_prepare(device, problem, cut, state, workspace_bytes, error);
}

const hr_kernel_functions hr_kernel_attention_naive_cuda = {.state_bytes = sizeof(hr_cuda_attention_tiled),
                                                            .supports = supports,
                                                            .prepare = prepare,
                                                            .run_attention = hr_cuda_attention_run};

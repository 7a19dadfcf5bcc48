/* Attention by kernels/attention_naive.cu: the definition in float64. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention.h"

#include <stdio.h>
#include <stdlib.h>

#define DIM_MOST 256
#define ROWS 32
#define KEYS 32
#define THREADS 256
#define PRODUCTS_MOST ((int64_t)1 << 40)

typedef struct launch {
  const hr_cuda *cuda;
  cu_function function;
  unsigned shared_bytes;
  hr_cuda_attention call;
} launch;

void hr_naive_cuda_defines(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_COLUMNS=%d", (int)hr_ceil_div(a->v_dim, 32));
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *a = &problem->attention;
  if (a->qk_dim > DIM_MOST || a->v_dim > DIM_MOST) {
    snprintf(why, why_size, "takes head sizes up to %d", DIM_MOST);
    return false;
  }
  int64_t entries = 0;
  if (hr_attention_entries(a, &entries) != HR_OK ||
      (double)entries * (double)(a->qk_dim + a->v_dim) * (double)a->q_heads * (double)a->batch >
          (double)PRODUCTS_MOST) {
    snprintf(why, why_size, "takes at most 2^40 multiply-adds, about a second");
    return false;
  }
  return hr_cuda_attention_fits(a, ROWS, why, why_size);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_attention *a = &problem->attention;
  char defines[HR_DEFINES_SIZE];
  launch *l = calloc(1, sizeof *l);
  if (!l)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", device->name);
  l->cuda = device->state;
  l->call = hr_cuda_attention_describe(a, ROWS);
  l->shared_bytes = (unsigned)(ROWS * a->qk_dim * 8 + KEYS * (a->qk_dim | 1) * 4); /* as in the program */
  hr_naive_cuda_defines(a, defines);
  hr_dtype dtype = a->dtype == HR_TF32 ? HR_FP32 : a->dtype;
  hr_status status =
      hr_cuda_attention_function(l->cuda, "attention_naive", dtype, defines, l->shared_bytes, &l->function, error);
  if (status != HR_OK) {
    free(l);
    return status;
  }
  *workspace_bytes = 0;
  *state = l;
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace, hr_error *error)
{
  (void)workspace;
  const launch *l = plan->state;
  hr_cuda_attention call = l->call;
  if (call.items == 0)
    return HR_OK;
  hr_cuda_attention_address(&call, &plan->problem.attention, arguments);
  hr_cuda_attention_launch started = {.function = l->function,
                                      .blocks = (unsigned)call.items,
                                      .threads = THREADS,
                                      .shared_bytes = l->shared_bytes,
                                      .call = &call};
  return hr_cuda_attention_start(l->cuda, &started, error);
}

const hr_kernel_functions hr_kernel_attention_naive_cuda = {
    .supports = supports, .prepare = prepare, .run_attention = run, .release = free};

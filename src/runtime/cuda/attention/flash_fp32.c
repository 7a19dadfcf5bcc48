/* Attention by kernels/attention_flash_fp32.cu: exact fp32, also for tf32, whose products it betters. */
#include "base/checked.h"
#include "runtime/cuda/attention/attention.h"

#include <stdio.h>

#define ROWS 64
#define THREADS 256
#define COLUMNS_MOST 64
#define COLUMNS_LEAST 16

/* As PITCH and the sizes in the program. */
static int64_t pitch(int64_t dim)
{
  return hr_round_up(dim, 32) + 4;
}

static size_t shared_bytes(const hr_flash_fp32 *t)
{
  int64_t q = ROWS * pitch(t->qk), k = t->columns * pitch(t->qk), v = (int64_t)t->columns * t->v;
  return (size_t)(4 * (q + k + v + ROWS * pitch(t->columns)));
}

/* The most columns of which two blocks fit a multiprocessor, which hide each other's copies; else of which one does. */
hr_flash_fp32 hr_flash_fp32_choose(const hr_attention *a, size_t shared_most)
{
  hr_flash_fp32 t = {.qk = (int)hr_round_up(a->qk_dim, 16), .v = (int)hr_round_up(a->v_dim, 16)};
  for (size_t blocks = 2; blocks > 0; blocks--) {
    for (t.columns = COLUMNS_MOST; t.columns >= COLUMNS_LEAST; t.columns /= 2) {
      t.shared_bytes = shared_bytes(&t);
      if (t.shared_bytes <= shared_most / blocks)
        return t;
    }
  }
  return t; /* too large; supports() says so */
}

void hr_flash_fp32_defines(const hr_flash_fp32 *t, bool modified, bool aligned, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_QK=%d HR_V=%d HR_COLUMNS=%d%s%s", t->qk, t->v, t->columns,
           modified ? " HR_MODIFIED" : "", aligned ? " HR_ALIGNED" : "");
}

static hr_cuda_attention_cut cut(const hr_attention *a, size_t shared_most, bool aligned)
{
  hr_flash_fp32 t = hr_flash_fp32_choose(a, shared_most);
  hr_cuda_attention_cut c = {.source = "attention_flash_fp32",
                             .dtype = HR_FP32,
                             .rows = ROWS,
                             .threads = THREADS,
                             .shared_bytes = t.shared_bytes,
                             .aligned = aligned};
  hr_flash_fp32_defines(&t, hr_cuda_attention_modified(a), aligned, c.defines);
  snprintf(c.text, sizeof c.text, "tile %dx%d, head sizes in steps of 16: %d and %d", ROWS, t.columns, t.qk, t.v);
  return c;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_attention *a = &problem->attention;
  size_t most = 0;
  if (!hr_cuda_attention_dims_fit(a, why, why_size))
    return false;
  if (hr_cuda_attention_shared_most(device->state, &most, NULL) != HR_OK ||
      hr_flash_fp32_choose(a, most).shared_bytes > most) {
    snprintf(why, why_size, "needs more shared memory for these head sizes than the %zu KiB of a block here",
             most >> 10);
    return false;
  }
  return hr_cuda_attention_fits(a, ROWS, why, why_size);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return hr_cuda_attention_prepare(device, problem, cut, state, workspace_bytes, error);
}

const hr_kernel_functions hr_kernel_attention_flash_fp32 = {.state_bytes = sizeof(hr_cuda_attention_tiled),
                                                            .supports = supports,
                                                            .prepare = prepare,
                                                            .run_attention = hr_cuda_attention_run,
                                                            .describe = hr_cuda_attention_describe_cut};

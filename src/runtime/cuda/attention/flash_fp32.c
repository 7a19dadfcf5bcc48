/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by kernels/attention_flash_fp32.cu: exact fp32, also for tf32, which it exceeds in precision. */
#include "base/checked.h"
#include "runtime/cuda/attention/attention.h"

#include <stdio.h>

#define KV_TILE_MAX 64
#define KV_TILE_MIN 16

/* The largest K/V tile with which two blocks, which hide each other's copies, fit a multiprocessor; otherwise one
 * block. */
hr_flash_fp32 hr_flash_fp32_choose(const hr_attention *a, size_t shared_max)
{
  hr_flash_fp32 t = {.qk = (int)hr_round_up(a->qk_dim, 16), .v = (int)hr_round_up(a->v_dim, 16)};
  for (size_t blocks = 2; blocks > 0; blocks--) {
    for (t.kv_tile = KV_TILE_MAX; t.kv_tile >= KV_TILE_MIN; t.kv_tile /= 2) {
      t.shared_bytes = (size_t)hr_fp32_layout_of(t.qk, t.v, t.kv_tile).bytes;
      if (t.shared_bytes <= shared_max / blocks)
        return t;
    }
  }
  return t; /* too large; supports() says so */
}

void hr_flash_fp32_defines(const hr_flash_fp32 *t, const char *scores, bool aligned, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_QK=%d HR_V=%d HR_KV_TILE=%d%s%s", t->qk, t->v, t->kv_tile, scores,
           aligned ? " HR_ALIGNED" : "");
}

static hr_cuda_attention_config configure(const hr_attention *a, size_t shared_max, bool aligned)
{
  hr_flash_fp32 t = hr_flash_fp32_choose(a, shared_max);
  hr_cuda_attention_config c = {.source = "attention_flash_fp32",
                                .dtype = HR_FP32,
                                .q_rows = HR_FP32_ROWS,
                                .threads = HR_FP32_THREADS,
                                .shared_bytes = t.shared_bytes,
                                .aligned = aligned};
  hr_flash_fp32_defines(&t, hr_cuda_attention_score_defines(a), aligned, c.defines);
  snprintf(c.text, sizeof c.text, "tile %dx%d, head sizes in steps of 16: %d and %d", HR_FP32_ROWS, t.kv_tile, t.qk,
           t.v);
  return c;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_attention *a = &problem->attention;
  size_t most = 0;
  if (!hr_cuda_attention_dims_fit(a, why, why_size))
    return false;
  if (hr_cuda_attention_shared_max(device->state, &most, NULL) != HR_OK ||
      hr_flash_fp32_choose(a, most).shared_bytes > most) {
    snprintf(why, why_size, "needs more shared memory for these head sizes than the %zu KiB of a block here",
             most >> 10);
    return false;
  }
  return hr_cuda_attention_fits(a, HR_FP32_ROWS, why, why_size);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return hr_cuda_attention_prepare(device, problem, configure, state, workspace_bytes, error);
}

const hr_kernel_functions hr_kernel_attention_flash_fp32 = {.state_bytes = sizeof(hr_cuda_attention_plan),
                                                            .supports = supports,
                                                            .prepare = prepare,
                                                            .run = hr_cuda_attention_run,
                                                            .describe = hr_cuda_attention_describe_config};

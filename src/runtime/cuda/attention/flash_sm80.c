/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by kernels/attention_flash_sm80.cu: its tiles and configuration. */
#include "base/checked.h"
#include "runtime/cuda/attention/attention.h"

#include <stdio.h>

#define Q_ROWS_MIN 32 /* of a block, with any tiles */
#define RESERVED 1024 /* bytes of shared memory that the driver takes of each block */

static int64_t q_rows(const hr_flash_sm80 *t)
{
  return 16 * t->warps / t->row_warps * t->m_tiles;
}

static size_t shared_bytes(const hr_flash_sm80 *t, int element_bytes)
{
  return (size_t)hr_sm80_layout_of(t->qk, t->v, t->warps, t->m_tiles, t->row_warps, t->kv_tile, t->stages,
                                   element_bytes)
      .bytes;
}

static bool fits(const hr_flash_sm80 *t, size_t shared_max)
{
  size_t a_block = t->shared_bytes + RESERVED;
  return (size_t)t->min_blocks * a_block <= shared_max + RESERVED;
}

/* Best first. Two M tiles per warp halve the shared memory reads of a GEMM; for v above 128 the accumulators of O then
 * fit the registers only if two warps share them. One stage of K and V where that leaves room for a second block. */
static const struct {
  int element_bytes, v_max;
  hr_flash_sm80 tiles;
} tilings[] = {
    {2, 64, {.row_warps = 1, .warps = 4, .m_tiles = 2, .kv_tile = 64, .min_blocks = 2, .stages = 2}},
    {2, 64, {.row_warps = 1, .warps = 4, .m_tiles = 2, .kv_tile = 64, .min_blocks = 2, .stages = 1}},
    {2, 128, {.row_warps = 1, .warps = 4, .m_tiles = 2, .kv_tile = 64, .min_blocks = 2, .stages = 2}},
    {2, 128, {.row_warps = 1, .warps = 4, .m_tiles = 2, .kv_tile = 32, .min_blocks = 2, .stages = 2}},
    {2, 256, {.row_warps = 2, .warps = 4, .m_tiles = 2, .kv_tile = 64, .min_blocks = 2, .stages = 1}},
    {2, 256, {.row_warps = 2, .warps = 8, .m_tiles = 2, .kv_tile = 64, .min_blocks = 1, .stages = 1}},
    {2, 256, {.row_warps = 1, .warps = 8, .m_tiles = 1, .kv_tile = 32, .min_blocks = 1, .stages = 2}},
    {2, 256, {.row_warps = 1, .warps = 4, .m_tiles = 1, .kv_tile = 32, .min_blocks = 1, .stages = 2}},
    {2, 256, {.row_warps = 1, .warps = 4, .m_tiles = 1, .kv_tile = 16, .min_blocks = 1, .stages = 2}},
    {4, 64, {.row_warps = 1, .warps = 4, .m_tiles = 2, .kv_tile = 64, .min_blocks = 2, .stages = 2}},
    {4, 64, {.row_warps = 1, .warps = 4, .m_tiles = 2, .kv_tile = 32, .min_blocks = 2, .stages = 2}},
    {4, 128, {.row_warps = 1, .warps = 8, .m_tiles = 2, .kv_tile = 32, .min_blocks = 1, .stages = 2}},
    {4, 128, {.row_warps = 1, .warps = 4, .m_tiles = 2, .kv_tile = 32, .min_blocks = 1, .stages = 2}},
    {4, 128, {.row_warps = 1, .warps = 4, .m_tiles = 1, .kv_tile = 32, .min_blocks = 1, .stages = 2}},
    {4, 256, {.row_warps = 1, .warps = 8, .m_tiles = 1, .kv_tile = 16, .min_blocks = 1, .stages = 2}},
    {4, 256, {.row_warps = 1, .warps = 4, .m_tiles = 1, .kv_tile = 16, .min_blocks = 1, .stages = 2}},
    {4, 256, {.row_warps = 1, .warps = 2, .m_tiles = 1, .kv_tile = 16, .min_blocks = 1, .stages = 2}},
};

hr_flash_sm80 hr_flash_sm80_choose(const hr_attention *a, size_t shared_max)
{
  int qk = (int)hr_round_up(a->qk_dim, 16), v = (int)hr_round_up(a->v_dim, 16);
  int element_bytes = (int)hr_dtype_bytes(a->dtype);
  hr_flash_sm80 t = {.qk = qk, .v = v};
  for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++) {
    if (v > tilings[i].v_max || element_bytes != tilings[i].element_bytes)
      continue;
    t = tilings[i].tiles;
    t.qk = qk;
    t.v = (int)hr_round_up(v, 16 * t.row_warps);
    t.shared_bytes = shared_bytes(&t, element_bytes);
    if (fits(&t, shared_max))
      break;
  }
  return t;
}

void hr_flash_sm80_defines(const hr_flash_sm80 *t, const char *scores, bool aligned, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE,
           "HR_QK=%d HR_V=%d HR_WARPS=%d HR_M_TILES=%d HR_ROW_WARPS=%d HR_KV_TILE=%d HR_MIN_BLOCKS=%d HR_STAGES=%d%s%s",
           t->qk, t->v, t->warps, t->m_tiles, t->row_warps, t->kv_tile, t->min_blocks, t->stages, scores,
           aligned ? " HR_ALIGNED" : "");
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *a = &problem->attention;
  return hr_cuda_attention_dims_fit(a, why, why_size) && hr_cuda_attention_fits(a, Q_ROWS_MIN, why, why_size);
}

static hr_cuda_attention_config configure(const hr_attention *a, size_t shared_max, bool aligned)
{
  hr_flash_sm80 t = hr_flash_sm80_choose(a, shared_max);
  hr_cuda_attention_config c = {.source = "attention_flash_sm80",
                                .dtype = a->dtype,
                                .q_rows = q_rows(&t),
                                .threads = 32U * (unsigned)t.warps,
                                .shared_bytes = t.shared_bytes,
                                .min_blocks = t.min_blocks,
                                .aligned = aligned};
  hr_flash_sm80_defines(&t, hr_cuda_attention_score_defines(a), aligned, c.defines);
  snprintf(c.text, sizeof c.text, "tile %dx%d, head sizes in steps of 16: %d and %d, %d warps%s, %d stage%s",
           (int)c.q_rows, t.kv_tile, t.qk, t.v, t.warps, t.row_warps > 1 ? " in pairs" : "", t.stages,
           t.stages == 1 ? "" : "s");
  return c;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return hr_cuda_attention_prepare(device, problem, configure, state, workspace_bytes, error);
}

const hr_kernel_functions hr_kernel_attention_flash_sm80 = {.state_bytes = sizeof(hr_cuda_attention_plan),
                                                            .supports = supports,
                                                            .prepare = prepare,
                                                            .run = hr_cuda_attention_run,
                                                            .describe = hr_cuda_attention_describe_config};

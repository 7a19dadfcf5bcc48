/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention by kernels/attention_backward_sm80.cu: its tiles and configuration. */
#include "base/checked.h"
#include "runtime/cuda/attention/backward.h"

#include <stdio.h>

#define ROWS_MIN 64   /* of a block, with any tiles */
#define RESERVED 1024 /* bytes of shared memory that the driver takes of each block */

static int rows_of(const hr_backward_sm80 *t)
{
  return 16 * t->warps * t->m_tiles;
}

static bool fits(const hr_backward_sm80 *t, size_t shared_max)
{
  return (size_t)t->min_blocks * (t->shared_bytes + RESERVED) <= shared_max + RESERVED;
}

/* Best first, by the larger head size. Two M tiles per warp halve the shared memory reads of a product. */
static const struct {
  int dim_max;
  hr_backward_sm80 tiles;
} tilings[] = {
    {64, {.warps = 4, .m_tiles = 2, .others = 32, .min_blocks = 2, .stages = 2}},
    {64, {.warps = 4, .m_tiles = 2, .others = 32, .min_blocks = 1, .stages = 2}},
    {128, {.warps = 8, .m_tiles = 1, .others = 64, .min_blocks = 1, .stages = 2}},
    {128, {.warps = 8, .m_tiles = 1, .others = 32, .min_blocks = 1, .stages = 1}},
    {256, {.warps = 8, .m_tiles = 1, .others = 32, .min_blocks = 1, .stages = 2}},
    {256, {.warps = 4, .m_tiles = 1, .others = 32, .min_blocks = 1, .stages = 2}},
    {256, {.warps = 4, .m_tiles = 1, .others = 16, .min_blocks = 1, .stages = 1}},
};

hr_backward_sm80 hr_backward_sm80_choose(const hr_attention *a, size_t shared_max)
{
  int qk = (int)hr_round_up(a->qk_dim, 16), v = (int)hr_round_up(a->v_dim, 16);
  hr_backward_sm80 t = {.qk = qk, .v = v};
  for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++) {
    if (hr_max64(qk, v) > tilings[i].dim_max)
      continue;
    t = tilings[i].tiles;
    t.qk = qk, t.v = v;
    t.shared_bytes = (size_t)hr_backward_sm80_layout_of(qk, v, rows_of(&t), t.others, t.stages).bytes;
    if (fits(&t, shared_max))
      break;
  }
  return t;
}

void hr_backward_sm80_defines(const hr_backward_sm80 *t, const char *scores, bool aligned, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE,
           "HR_QK=%d HR_V=%d HR_WARPS=%d HR_M_TILES=%d HR_KV_TILE=%d HR_MIN_BLOCKS=%d HR_STAGES=%d%s%s", t->qk, t->v,
           t->warps, t->m_tiles, t->others, t->min_blocks, t->stages, scores, aligned ? " HR_ALIGNED" : "");
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  return hr_cuda_backward_fits(&problem->backward.forward, ROWS_MIN, why, why_size);
}

static hr_cuda_backward_config configure(const hr_attention *a, size_t shared_max, bool aligned)
{
  hr_backward_sm80 t = hr_backward_sm80_choose(a, shared_max);
  hr_cuda_backward_config c = {.source = "attention_backward_sm80",
                               .rows = rows_of(&t),
                               .threads = 32U * (unsigned)t.warps,
                               .shared_bytes = t.shared_bytes};
  hr_backward_sm80_defines(&t, hr_cuda_attention_score_defines(a), aligned, c.defines);
  snprintf(c.text, sizeof c.text, "tile %dx%d, head sizes in steps of 16: %d and %d, %d warps, %d stage%s%s",
           (int)c.rows, t.others, t.qk, t.v, t.warps, t.stages, t.stages == 1 ? "" : "s",
           aligned ? "" : ", element by element");
  return c;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return hr_cuda_backward_prepare(device, problem, configure, state, workspace_bytes, error);
}

static void describe(const void *state, char *text, size_t size)
{
  snprintf(text, size, "%s", ((const hr_cuda_backward_plan *)state)->config.text);
}

const hr_kernel_functions hr_kernel_attention_backward_sm80 = {.state_bytes = sizeof(hr_cuda_backward_plan),
                                                               .supports = supports,
                                                               .prepare = prepare,
                                                               .run = hr_cuda_backward_run,
                                                               .describe = describe};

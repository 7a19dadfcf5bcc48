/* Attention by kernels/attention_flash_sm80.cu: how it is cut into tiles, and its launch. */
#include "base/checked.h"
#include "runtime/cuda/attention/attention.h"

#include <stdio.h>

#define ROWS_LEAST 32 /* of a block, in any cut */
#define RESERVED 1024 /* bytes of shared memory that the driver takes of each block */

/* As PITCH and the sizes in the program. */
static int64_t pitch(int64_t dim, int64_t chunk)
{
  return (dim / chunk | 1) * chunk;
}

static int64_t rows_of(const hr_flash_sm80 *t)
{
  return 16 * t->warps / t->team * t->row_tiles;
}

/* What warps of a team give each other: weights of half a tile each, and a number a row. */
static int64_t exchanged_bytes(const hr_flash_sm80 *t, int64_t element_bytes)
{
  return t->team == 1 ? 0 : t->warps * 16 * t->row_tiles * (t->columns / t->team * element_bytes + 4);
}

static size_t shared_bytes(const hr_flash_sm80 *t, int64_t element_bytes)
{
  int64_t chunk = 16 / element_bytes, qk = pitch(t->qk, chunk), v = pitch(t->v, chunk);
  int64_t elements = rows_of(t) * hr_max64(qk, v) + t->stages * t->columns * (qk + v);
  return (size_t)(element_bytes * elements + exchanged_bytes(t, element_bytes));
}

static bool fits(const hr_flash_sm80 *t, size_t shared_most)
{
  size_t a_block = t->shared_bytes + RESERVED;
  return (size_t)t->blocks * a_block <= shared_most + RESERVED;
}

/* Best first. Two row tiles halve what is read from shared memory for a product; for v above 128 sums of O fit the
 * registers then where two warps share them. One stage of K and V where it leaves room for a second block. */
static const struct {
  int element_bytes, v_most;
  hr_flash_sm80 tiles;
} cuts[] = {
    {2, 64, {.team = 1, .warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 2}},
    {2, 64, {.team = 1, .warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 1}},
    {2, 128, {.team = 1, .warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 2}},
    {2, 128, {.team = 1, .warps = 4, .row_tiles = 2, .columns = 32, .blocks = 2, .stages = 2}},
    {2, 256, {.team = 2, .warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 1}},
    {2, 256, {.team = 2, .warps = 8, .row_tiles = 2, .columns = 64, .blocks = 1, .stages = 1}},
    {2, 256, {.team = 1, .warps = 8, .row_tiles = 1, .columns = 32, .blocks = 1, .stages = 2}},
    {2, 256, {.team = 1, .warps = 4, .row_tiles = 1, .columns = 32, .blocks = 1, .stages = 2}},
    {2, 256, {.team = 1, .warps = 4, .row_tiles = 1, .columns = 16, .blocks = 1, .stages = 2}},
    {4, 64, {.team = 1, .warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 2}},
    {4, 64, {.team = 1, .warps = 4, .row_tiles = 2, .columns = 32, .blocks = 2, .stages = 2}},
    {4, 128, {.team = 1, .warps = 8, .row_tiles = 2, .columns = 32, .blocks = 1, .stages = 2}},
    {4, 128, {.team = 1, .warps = 4, .row_tiles = 2, .columns = 32, .blocks = 1, .stages = 2}},
    {4, 128, {.team = 1, .warps = 4, .row_tiles = 1, .columns = 32, .blocks = 1, .stages = 2}},
    {4, 256, {.team = 1, .warps = 8, .row_tiles = 1, .columns = 16, .blocks = 1, .stages = 2}},
    {4, 256, {.team = 1, .warps = 4, .row_tiles = 1, .columns = 16, .blocks = 1, .stages = 2}},
    {4, 256, {.team = 1, .warps = 2, .row_tiles = 1, .columns = 16, .blocks = 1, .stages = 2}},
};

hr_flash_sm80 hr_flash_sm80_choose(const hr_attention *a, size_t shared_most)
{
  int qk = (int)hr_round_up(a->qk_dim, 16), v = (int)hr_round_up(a->v_dim, 16);
  int element_bytes = (int)hr_dtype_bytes(a->dtype);
  hr_flash_sm80 t = {.qk = qk, .v = v};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    if (v > cuts[i].v_most || element_bytes != cuts[i].element_bytes)
      continue;
    t = cuts[i].tiles;
    t.qk = qk;
    t.v = (int)hr_round_up(v, 16 * t.team);
    t.shared_bytes = shared_bytes(&t, element_bytes);
    if (fits(&t, shared_most))
      break;
  }
  return t;
}

void hr_flash_sm80_defines(const hr_flash_sm80 *t, bool modified, bool aligned, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE,
           "HR_QK=%d HR_V=%d HR_WARPS=%d HR_ROW_TILES=%d HR_TEAM=%d HR_COLUMNS=%d HR_BLOCKS=%d HR_STAGES=%d%s%s", t->qk,
           t->v, t->warps, t->row_tiles, t->team, t->columns, t->blocks, t->stages, modified ? " HR_MODIFIED" : "",
           aligned ? " HR_ALIGNED" : "");
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *a = &problem->attention;
  return hr_cuda_attention_dims_fit(a, why, why_size) && hr_cuda_attention_fits(a, ROWS_LEAST, why, why_size);
}

hr_cuda_attention_cut hr_flash_sm80_cut(const hr_attention *a, size_t shared_most, bool aligned)
{
  hr_flash_sm80 t = hr_flash_sm80_choose(a, shared_most);
  hr_cuda_attention_cut c = {.source = "attention_flash_sm80",
                             .dtype = a->dtype,
                             .rows = rows_of(&t),
                             .threads = 32U * (unsigned)t.warps,
                             .shared_bytes = t.shared_bytes,
                             .blocks = t.blocks,
                             .aligned = aligned};
  hr_flash_sm80_defines(&t, hr_cuda_attention_modified(a), aligned, c.defines);
  snprintf(c.text, sizeof c.text, "tile %dx%d, head sizes in steps of 16: %d and %d, %d warps%s, %d stage%s",
           (int)c.rows, t.columns, t.qk, t.v, t.warps, t.team > 1 ? " in pairs" : "", t.stages,
           t.stages == 1 ? "" : "s");
  return c;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return hr_cuda_attention_prepare(device, problem, hr_flash_sm80_cut, state, workspace_bytes, error);
}

const hr_kernel_functions hr_kernel_attention_flash_sm80 = {.state_bytes = sizeof(hr_cuda_attention_tiled),
                                                            .supports = supports,
                                                            .prepare = prepare,
                                                            .run_attention = hr_cuda_attention_run,
                                                            .describe = hr_cuda_attention_describe_cut};

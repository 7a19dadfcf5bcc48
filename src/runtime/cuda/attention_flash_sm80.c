/* Attention by kernels/attention_flash_sm80.cu: how it is cut into tiles, and its launch. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DIM_MOST 256
#define ROWS_LEAST 32 /* of a block, in any cut */
#define RESERVED 1024 /* bytes of shared memory that the driver takes of each block */

typedef struct launch {
  const hr_cuda *cuda;
  hr_flash_sm80 tiles;
  bool aligned; /* what `function` counts on */
  cu_function function;
  hr_cuda_attention call;
} launch;

/* As PITCH and the sizes in the program. */
static int64_t pitch(int64_t dim, int64_t chunk)
{
  return (dim / chunk | 1) * chunk;
}

static size_t shared_bytes(const hr_flash_sm80 *t, int64_t element_bytes)
{
  int64_t chunk = 16 / element_bytes, qk = pitch(t->qk, chunk), v = pitch(t->v, chunk);
  int64_t rows = 16 * t->warps * t->row_tiles;
  return (size_t)(element_bytes * (rows * hr_max64(qk, v) + t->stages * t->columns * (qk + v)));
}

static bool fits(const hr_flash_sm80 *t, size_t shared_most)
{
  size_t a_block = t->shared_bytes + RESERVED;
  return (size_t)t->blocks * a_block <= shared_most + RESERVED;
}

/* Best first, for calls of `keys_least` and more. Two row tiles a warp halve what is read from shared memory for a product,
 * but sums of O for v above 128 do not fit the registers then. One stage of K and V leaves room for a second block, and at
 * head size 64 long sequences gain 6% by it where short ones lose. Copies are spread over products where shared memory
 * bounds: 10% at head size 256. */
static const struct {
  int element_bytes, v_most, keys_least;
  hr_flash_sm80 tiles;
} cuts[] = {
    {2, 64, 1024, {.warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 1}},
    {2, 64, 0, {.warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 2}},
    {2, 64, 0, {.warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 1}},
    {2, 128, 0, {.warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 2}},
    {2, 128, 0, {.warps = 4, .row_tiles = 2, .columns = 32, .blocks = 2, .stages = 2}},
    {2, 256, 0, {.warps = 4, .row_tiles = 1, .columns = 64, .blocks = 2, .stages = 1, .spread = true}},
    {2, 256, 0, {.warps = 8, .row_tiles = 1, .columns = 64, .blocks = 1, .stages = 2}},
    {2, 256, 0, {.warps = 8, .row_tiles = 1, .columns = 32, .blocks = 1, .stages = 2}},
    {2, 256, 0, {.warps = 4, .row_tiles = 1, .columns = 32, .blocks = 1, .stages = 2}},
    {2, 256, 0, {.warps = 4, .row_tiles = 1, .columns = 16, .blocks = 1, .stages = 2}},
    {4, 64, 0, {.warps = 4, .row_tiles = 2, .columns = 64, .blocks = 2, .stages = 2}},
    {4, 64, 0, {.warps = 4, .row_tiles = 2, .columns = 32, .blocks = 2, .stages = 2}},
    {4, 128, 0, {.warps = 8, .row_tiles = 2, .columns = 32, .blocks = 1, .stages = 2}},
    {4, 128, 0, {.warps = 4, .row_tiles = 2, .columns = 32, .blocks = 1, .stages = 2}},
    {4, 128, 0, {.warps = 4, .row_tiles = 1, .columns = 32, .blocks = 1, .stages = 2}},
    {4, 256, 0, {.warps = 8, .row_tiles = 1, .columns = 16, .blocks = 1, .stages = 2}},
    {4, 256, 0, {.warps = 4, .row_tiles = 1, .columns = 16, .blocks = 1, .stages = 2}},
    {4, 256, 0, {.warps = 2, .row_tiles = 1, .columns = 16, .blocks = 1, .stages = 2}},
};

hr_flash_sm80 hr_flash_sm80_choose(const hr_attention *a, size_t shared_most)
{
  int qk = (int)hr_round_up(a->qk_dim, 16), v = (int)hr_round_up(a->v_dim, 16);
  int element_bytes = (int)hr_dtype_bytes(a->dtype);
  hr_flash_sm80 t = {.qk = qk, .v = v};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    if (v > cuts[i].v_most || element_bytes != cuts[i].element_bytes || a->kv_len < cuts[i].keys_least)
      continue;
    t = cuts[i].tiles;
    t.qk = qk;
    t.v = v;
    t.shared_bytes = shared_bytes(&t, element_bytes);
    if (fits(&t, shared_most))
      break;
  }
  return t;
}

void hr_flash_sm80_defines(const hr_flash_sm80 *t, bool modified, bool aligned, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE,
           "HR_QK=%d HR_V=%d HR_WARPS=%d HR_ROW_TILES=%d HR_COLUMNS=%d HR_BLOCKS=%d HR_STAGES=%d HR_SPREAD=%d%s%s",
           t->qk, t->v, t->warps, t->row_tiles, t->columns, t->blocks, t->stages, t->spread,
           modified ? " HR_MODIFIED" : "", aligned ? " HR_ALIGNED" : "");
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *a = &problem->attention;
  if (a->qk_dim > DIM_MOST || a->v_dim > DIM_MOST) {
    snprintf(why, why_size, "takes head sizes up to %d", DIM_MOST);
    return false;
  }
  return hr_cuda_attention_fits(a, ROWS_LEAST, why, why_size);
}

static hr_status find_function(launch *l, const hr_attention *a, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_flash_sm80_defines(&l->tiles, hr_cuda_attention_modified(a), l->aligned, defines);
  return hr_cuda_attention_function(l->cuda, "attention_flash_sm80", a->dtype, defines, l->tiles.shared_bytes,
                                    &l->function, error);
}

static hr_status prepare_launch(launch *l, const hr_attention *a, bool aligned, hr_error *error)
{
  int shared_most = 0;
  HR_TRY(HR_CU(&l->cuda->driver, cuDeviceGetAttribute, (&shared_most, CU_MAX_SHARED_OPTIN, l->cuda->device), error));
  l->tiles = hr_flash_sm80_choose(a, (size_t)shared_most);
  l->aligned = aligned;
  l->call = hr_cuda_attention_describe(a, 16 * l->tiles.warps * l->tiles.row_tiles);
  return find_function(l, a, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  launch *l = calloc(1, sizeof *l);
  if (!l)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", device->name);
  l->cuda = device->state;
  hr_status status = prepare_launch(l, &problem->attention, hr_cuda_attention_aligned(&problem->attention), error);
  if (status != HR_OK) {
    free(l);
    return status;
  }
  *workspace_bytes = 0;
  *state = l;
  return HR_OK;
}

static hr_status start(const launch *l, const hr_attention *a, const hr_attention_arguments *arguments, hr_error *error)
{
  hr_cuda_attention call = l->call;
  if (call.items == 0)
    return HR_OK;
  hr_cuda_attention_address(&call, a, arguments);
  hr_cuda_attention_launch started = {.function = l->function,
                                      .blocks = (unsigned)call.items,
                                      .threads = 32U * (unsigned)l->tiles.warps,
                                      .shared_bytes = (unsigned)l->tiles.shared_bytes,
                                      .call = &call};
  return hr_cuda_attention_start(l->cuda, &started, error);
}

hr_status hr_flash_sm80_run_unaligned(const hr_cuda *cuda, const hr_attention *attention,
                                      const hr_attention_arguments *arguments, hr_error *error)
{
  launch l = {.cuda = cuda};
  HR_TRY(prepare_launch(&l, attention, false, error));
  return start(&l, attention, arguments, error);
}

static hr_status run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace, hr_error *error)
{
  (void)workspace;
  const launch *l = plan->state;
  if (l->aligned && !hr_cuda_attention_addresses_aligned(arguments))
    return hr_flash_sm80_run_unaligned(l->cuda, &plan->problem.attention, arguments, error);
  return start(l, &plan->problem.attention, arguments, error);
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  snprintf(text, size, "tile %dx%d, head sizes in steps of 16: %d and %d, %d warps, %d stage%s%s",
           16 * l->tiles.warps * l->tiles.row_tiles, l->tiles.columns, l->tiles.qk, l->tiles.v, l->tiles.warps,
           l->tiles.stages, l->tiles.stages == 1 ? "" : "s", l->aligned ? "" : ", element by element");
}

const hr_kernel_functions hr_kernel_attention_flash_sm80 = {
    .supports = supports, .prepare = prepare, .run_attention = run, .release = free, .describe = describe};

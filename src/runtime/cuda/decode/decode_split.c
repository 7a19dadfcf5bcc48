/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention by kernels/decode_split.cu: the plan and its launch. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/decode/decode.h"
#include "shape/alignment.h"

#include <stdio.h>

#define DIM_MAX 256
#define Q_ALIGNMENT_BYTES 4
#define CLUSTER_PORTABLE 8
#define GRID_MAX 65535 /* blocks in the second and third direction */

typedef struct launch {
  const hr_cuda *cuda;
  hr_decode_split tiles;
  int copy_bytes; /* copy_bytes_of() */
  cu_function function;
  cu_function combine; /* the second launch of decode_apart; NULL: there is one */
  unsigned grid[2];    /* of a sequence */
  hr_decode_call call;
} launch;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_decode *d = &problem->decode;
  const char *reason = NULL;
  if (hr_decode_cannot_select(d, why, why_size))
    return false;
  if (d->latent)
    reason = "does not take latent attention";
  else if (d->cache_format == HR_KV_FP8 && ((const hr_cuda *)device->state)->capability < 89)
    reason = "takes fp8 caches from compute capability 8.9 on";
  else if (d->qk_dim > DIM_MAX || d->v_dim > DIM_MAX)
    reason = "takes head sizes up to 256";
  else if (d->kv_len > INT32_MAX / 2 || d->batch > INT32_MAX / HR_DECODE_SPLITS_MAX / d->q_heads)
    reason = "takes lengths below 2^30 and fewer than 2^24 heads of all sequences";
  else if (d->batch > GRID_MAX || d->q_heads > GRID_MAX)
    reason = "takes up to 65535 sequences and query heads";
  if (reason)
    snprintf(why, why_size, "%s", reason);
  return !reason;
}

/* The most bytes, 16 or 4, of which addresses, head sizes and strides keep every row of K and V at multiples; 0: none,
 * or rows of Q are not at multiples of 4. */
static int copy_bytes_of(const hr_decode *d)
{
  int64_t element = (int64_t)hr_decode_cache_bytes(d), bits = hr_alignment(d->alignment);
  hr_kv_strides k = hr_decode_k_strides(d), v = hr_decode_v_strides(d);
  const int64_t all[] = {k.page, k.token, k.head, v.page, v.token, v.head, d->qk_dim, d->v_dim};
  hr_strides q = hr_decode_q_strides(d);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    bits |= all[i] * element;
  if (q.batch % 2 != 0 || q.row % 2 != 0 || q.head % 2 != 0 || hr_alignment(d->alignment) % Q_ALIGNMENT_BYTES != 0)
    return 0;
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 0;
}

static hr_status read_gpu(const hr_cuda *cuda, hr_decode_gpu *gpu, hr_error *error)
{
  int64_t most = 0, all = 0;
  HR_TRY(hr_cuda_attribute(cuda, CU_MULTIPROCESSORS, &gpu->multiprocessors, error));
  HR_TRY(hr_cuda_attribute(cuda, CU_MAX_SHARED_OPTIN, &most, error));
  HR_TRY(hr_cuda_attribute(cuda, CU_SHARED_BYTES, &all, error));
  gpu->shared_max = (size_t)most;
  gpu->shared_of_multiprocessor = (size_t)all;
  gpu->early = cuda->capability >= 90;
  gpu->cluster_max = cuda->capability >= 90 && cuda->capability < 120 ? HR_DECODE_CLUSTER_MAX : 1;
  return HR_OK;
}

/* fp16 has no room for small weights; O stays far within fp32 until it is multiplied by the scales of V. */
static bool weights_are_fp16(const hr_decode *d)
{
  return d->dtype == HR_FP16 || d->cache_format != HR_KV_UNQUANTIZED;
}

static hr_decode_call make_call(const hr_decode *d, const hr_decode_split *t)
{
  return (hr_decode_call){.q_at = hr_decode_q_strides(d),
                          .o_at = hr_decode_o_strides(d),
                          .k_at = hr_decode_k_strides(d),
                          .v_at = hr_decode_v_strides(d),
                          .k_scale_at = hr_decode_k_scale_strides(d),
                          .v_scale_at = hr_decode_v_scale_strides(d),
                          .kv_len = (int32_t)d->kv_len,
                          .q_heads = (int32_t)d->q_heads,
                          .qk_dim = (int32_t)d->qk_dim,
                          .v_dim = (int32_t)d->v_dim,
                          .splits = t->splits,
                          .table_pitch = (int32_t)d->table_pitch,
                          .window = (int32_t)hr_min64(d->window, d->kv_len),
                          .scale = (float)hr_decode_scale(d),
                          .softcap = d->softcap,
                          .top = weights_are_fp16(d) ? 0 : hr_decode_top(d)};
}

static hr_status find_function(const launch *l, const hr_decode *d, int copy_bytes, cu_function *function,
                               hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_decode_split_defines(&l->tiles, d, copy_bytes, defines);
  HR_TRY(hr_cuda_function_shared(l->cuda, "decode_split", d->dtype, defines, "decode", l->tiles.shared_bytes, function,
                                 error));
  if (l->tiles.cluster <= CLUSTER_PORTABLE)
    return HR_OK;
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = HR_CU(&l->cuda->driver, cuFuncSetAttribute, (*function, CU_FUNCTION_ANY_CLUSTER, 1), error);
  hr_cuda_leave(l->cuda);
  return status;
}

/* Whether at least one cluster of the function can run; also if the driver does not say. */
static bool clusters_run(const launch *l)
{
  const hr_decode_split *t = &l->tiles;
  const hr_driver *driver = &l->cuda->driver;
  cu_launch_config config = {.grid = {(unsigned)t->cluster, 1, 1},
                             .block = {32U * (unsigned)t->warps, 1, 1},
                             .shared_bytes = (unsigned)t->shared_bytes};
  int count = 1;
  if (!driver->cuOccupancyMaxActiveClusters || hr_cuda_enter(l->cuda, NULL) != HR_OK)
    return true;
  cu_result result = driver->cuOccupancyMaxActiveClusters(&count, l->function, &config);
  hr_cuda_leave(l->cuda);
  return result == CU_SUCCESS && count > 0;
}

static int64_t groups_of(const launch *l, const hr_decode *d)
{
  return d->batch * d->q_heads / l->tiles.heads;
}

static bool through_memory(const launch *l)
{
  return l->tiles.splits > 1 && l->tiles.cluster == 1;
}

static int64_t partial_rows(const launch *l, const hr_decode *d)
{
  return groups_of(l, d) * l->tiles.splits * HR_DECODE_ROWS;
}

static hr_status prepare_splits(launch *l, const hr_decode *d, size_t *workspace_bytes, hr_error *error)
{
  if (!through_memory(l))
    return HR_OK;
  if (groups_of(l, d) > HR_WORKSPACE_COUNTERS)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "more than %d groups of query heads with split-KV",
                   HR_WORKSPACE_COUNTERS);
  *workspace_bytes = (size_t)partial_rows(l, d) * ((size_t)l->tiles.v + 2) * sizeof(float);
  return HR_OK;
}

/* The program, with clusters that the device can hold: a part of a GPU has fewer multiprocessors in a GPC. */
static hr_status choose(launch *l, const hr_decode *d, bool apart, hr_error *error)
{
  hr_decode_gpu gpu;
  HR_TRY(read_gpu(l->cuda, &gpu, error));
  if (apart)
    gpu.cluster_max = 1;
  for (;; gpu.cluster_max = l->tiles.cluster / 2) {
    l->tiles = hr_decode_split_choose(d, &gpu);
    l->tiles.apart = apart;
    HR_TRY(find_function(l, d, l->copy_bytes, &l->function, error));
    if (l->tiles.cluster == 1 || clusters_run(l))
      return HR_OK;
  }
}

static void set_grid(launch *l, const hr_decode *d)
{
  unsigned head_blocks = (unsigned)(d->q_heads / l->tiles.heads), splits = (unsigned)l->tiles.splits;
  l->grid[0] = l->tiles.cluster > 1 ? splits : head_blocks;
  l->grid[1] = l->tiles.cluster > 1 ? head_blocks : splits;
}

static hr_status prepare_launch(hr_device *device, const hr_decode *d, launch *l, bool apart, size_t *workspace_bytes,
                                hr_error *error)
{
  l->cuda = device->state;
  l->copy_bytes = copy_bytes_of(d);
  HR_TRY(choose(l, d, apart, error));
  l->call = make_call(d, &l->tiles);
  set_grid(l, d);
  return prepare_splits(l, d, workspace_bytes, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  return prepare_launch(device, &problem->decode, state, false, workspace_bytes, error);
}

static hr_decode_call call_of(const launch *l, const hr_decode *d, const hr_run *run)
{
  const hr_decode_arguments *x = run->arguments;
  hr_decode_call made = l->call, *call = &made;
  call->q = hr_cuda_address(x->q);
  call->k = hr_cuda_address(x->k);
  call->v = hr_cuda_address(x->v);
  call->o = hr_cuda_address(x->o);
  call->lse = hr_cuda_address(x->lse);
  call->lengths = hr_cuda_address(x->lengths);
  call->pages = hr_cuda_address(x->pages);
  call->page_starts = hr_cuda_address(x->page_starts);
  call->sinks = d->sinks ? hr_cuda_address(x->sinks) : 0;
  call->k_scales = hr_cuda_address(x->k_scales);
  call->v_scales = hr_cuda_address(x->v_scales);
  call->counters = hr_cuda_address(run->counters);
  call->partial_stats = hr_cuda_address(run->workspace);
  call->partial_o = call->partial_stats + (uint64_t)partial_rows(l, d) * 2 * sizeof(float);
  return made;
}

/* One launch: of `blocks` blocks in the second direction of the plan's grid. */
static hr_status start(const launch *l, const hr_decode *d, const hr_run *run, cu_function function, unsigned blocks,
                       hr_error *error)
{
  const hr_cuda_queue queue = {l->cuda, run->stream};
  const hr_cuda_kernel kernel = {.function = function,
                                 .blocks = l->grid[0],
                                 .grid_y = blocks,
                                 .grid_z = (unsigned)d->batch,
                                 .threads = 32U * (unsigned)l->tiles.warps,
                                 .shared_bytes = l->tiles.shared_bytes,
                                 .early = l->tiles.early && function == l->function};
  hr_decode_call call = call_of(l, d, run);
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = hr_cuda_launch(&queue, &kernel, parameters, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  return start(l, &run->problem->decode, run, l->function, l->grid[1], error);
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  const hr_decode_split *t = &l->tiles;
  snprintf(text, size, "%d query heads with %d K and %d V heads, %d warps, %d stages, split-KV %d%s", t->heads,
           t->k_heads, t->v_heads, t->warps, t->stages, t->splits, t->cluster > 1 ? ", cluster" : "");
}

const hr_kernel_functions hr_kernel_decode_split_sm80 = {.state_bytes = sizeof(launch),
                                                         .supports = supports,
                                                         .prepare = prepare,
                                                         .run = run,
                                                         .counters = true,
                                                         .describe = describe};

/* ---- split and combine as two launches, which can be timed apart ---- */

static hr_status prepare_apart(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                               hr_error *error)
{
  launch *l = state;
  const hr_decode *d = &problem->decode;
  char defines[HR_DEFINES_SIZE];
  HR_TRY(prepare_launch(device, d, l, true, workspace_bytes, error));
  if (l->tiles.splits == 1)
    return HR_OK;
  hr_decode_split_defines(&l->tiles, d, l->copy_bytes, defines);
  return hr_cuda_function_shared(l->cuda, "decode_split", d->dtype, defines, "combine", l->tiles.shared_bytes,
                                 &l->combine, error);
}

static hr_status run_apart(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  const hr_decode *d = &run->problem->decode;
  if (run->part == 2 && !l->combine)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "one split has nothing to combine");
  if (run->part != 2)
    HR_TRY(start(l, d, run, l->function, l->grid[1], error));
  return run->part != 1 && l->combine ? start(l, d, run, l->combine, 1, error) : HR_OK;
}

const hr_kernel_functions hr_kernel_decode_apart_sm80 = {.state_bytes = sizeof(launch),
                                                         .supports = supports,
                                                         .prepare = prepare_apart,
                                                         .run = run_apart,
                                                         .parts = true,
                                                         .describe = describe};

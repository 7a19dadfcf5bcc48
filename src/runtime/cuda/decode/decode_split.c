/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention by kernels/decode_split.cu: the plan and its launch. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/decode/decode.h"
#include "shape/alignment.h"

#include <headroom/experimental/decode.h>
#include <stdio.h>

#define DIM_MAX 256
#define Q_ALIGNMENT_BYTES 4
#define CLUSTER_PORTABLE 8
#define GRID_MAX 65535 /* blocks in the second and third direction */
#define VARIANTS_MAX 9
#define VARIANT_STEP 4 /* times as many sequences as the variant before */

/* The launch of a call with this many sequences, or some fewer. */
typedef struct variant {
  int64_t batch;
  hr_decode_split tiles;
  cu_function function;
  unsigned grid[2]; /* of a sequence, or of all with equal shares */
  hr_decode_call call;
} variant;

/* A run takes the variant with the fewest sequences that has as many as it. Each is a program of its own where the
 * batch chooses other tiles or clusters: with those of 64 sequences, one took 9 times as long on an H200. */
typedef struct launch {
  const hr_cuda *cuda;
  int copy_bytes;      /* copy_bytes_of() */
  cu_function combine; /* the second launch of decode_apart; NULL: there is one */
  int count;
  variant variants[VARIANTS_MAX]; /* the plan's first, then by ascending batch */
} launch;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_decode *d = &problem->decode;
  const char *reason = NULL;
  if (hr_decode_cannot_select(d, why, why_size))
    return false;
  if (d->latent)
    reason = "does not take latent attention";
  else if (d->alibi)
    reason = "has no ALiBi";
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
  gpu->shares = true;
  gpu->wgmma = cuda->capability / 10 == 9;
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
                          .batch = (int32_t)d->batch,
                          .kv_len = (int32_t)d->kv_len,
                          .q_heads = (int32_t)d->q_heads,
                          .qk_dim = (int32_t)d->qk_dim,
                          .v_dim = (int32_t)d->v_dim,
                          .splits = t->splits,
                          .share_min = (int32_t)hr_ceil_div(hr_decode_split_steps(t, d), HR_DECODE_SPLITS_MAX - 2),
                          .table_pitch = (int32_t)d->table_pitch,
                          .window = (int32_t)hr_min64(d->window, d->kv_len),
                          .scale = (float)hr_decode_scale(d),
                          .softcap = d->softcap,
                          .top = weights_are_fp16(d) ? 0 : hr_decode_top(d)};
}

static hr_status find_function(const launch *l, variant *v, const hr_decode *d, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_decode_split_defines(&v->tiles, d, l->copy_bytes, defines);
  HR_TRY(hr_cuda_function_shared(l->cuda, "decode_split", d->dtype, defines, "decode", v->tiles.shared_bytes,
                                 &v->function, error));
  if (v->tiles.cluster <= CLUSTER_PORTABLE)
    return HR_OK;
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = HR_CU(&l->cuda->driver, cuFuncSetAttribute, (v->function, CU_FUNCTION_ANY_CLUSTER, 1), error);
  hr_cuda_leave(l->cuda);
  return status;
}

/* Whether at least one cluster of the function can run; also if the driver does not say. */
static bool clusters_run(const launch *l, const variant *v)
{
  const hr_decode_split *t = &v->tiles;
  const hr_driver *driver = &l->cuda->driver;
  cu_launch_config config = {.grid = {(unsigned)t->cluster, 1, 1},
                             .block = {32U * (unsigned)t->warps, 1, 1},
                             .shared_bytes = (unsigned)t->shared_bytes};
  int count = 1;
  if (!driver->cuOccupancyMaxActiveClusters || hr_cuda_enter(l->cuda, NULL) != HR_OK)
    return true;
  cu_result result = driver->cuOccupancyMaxActiveClusters(&count, v->function, &config);
  hr_cuda_leave(l->cuda);
  return result == CU_SUCCESS && count > 0;
}

static bool through_memory(const variant *v)
{
  return v->tiles.shares > 0 || (v->tiles.splits > 1 && v->tiles.cluster == 1);
}

static int64_t partial_rows(const variant *v, const hr_decode *d)
{
  const hr_decode_split *t = &v->tiles;
  return hr_decode_split_blocks(t, d) * t->tiles * HR_DECODE_ROWS;
}

/* Raises *workspace_bytes to what the variant's splits need. */
static hr_status prepare_splits(const variant *v, const hr_decode *d, size_t *workspace_bytes, hr_error *error)
{
  if (!through_memory(v))
    return HR_OK;
  if (hr_decode_split_groups(&v->tiles, d) > HR_WORKSPACE_COUNTERS)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "more than %d groups of query heads with split-KV",
                   HR_WORKSPACE_COUNTERS);
  size_t bytes = (size_t)partial_rows(v, d) * ((size_t)v->tiles.v + 2) * sizeof(float);
  *workspace_bytes = bytes > *workspace_bytes ? bytes : *workspace_bytes;
  return HR_OK;
}

/* The program, with clusters that the device can hold: a part of a GPU has fewer multiprocessors in a GPC. */
static hr_status choose(const launch *l, variant *v, const hr_decode *d, bool apart, hr_error *error)
{
  hr_decode_gpu gpu;
  HR_TRY(read_gpu(l->cuda, &gpu, error));
  if (apart)
    gpu.cluster_max = 1, gpu.shares = false;
  for (;; gpu.cluster_max = v->tiles.cluster / 2) {
    v->tiles = hr_decode_split_choose(d, &gpu);
    v->tiles.apart = apart;
    HR_TRY(find_function(l, v, d, error));
    if (v->tiles.cluster == 1 || clusters_run(l, v))
      return HR_OK;
  }
}

static void set_grid(variant *v, const hr_decode *d)
{
  const hr_decode_split *t = &v->tiles;
  unsigned head_blocks = (unsigned)(hr_decode_split_groups(t, d) / d->batch);
  unsigned splits = (unsigned)(t->shares > 0 ? t->shares : t->splits);
  v->grid[0] = t->cluster > 1 ? splits : head_blocks;
  v->grid[1] = t->cluster > 1 ? head_blocks : splits;
}

static hr_status add_variant(launch *l, const hr_decode *d, bool apart, size_t *workspace_bytes, hr_error *error)
{
  variant *v = &l->variants[l->count++];
  v->batch = d->batch;
  HR_TRY(choose(l, v, d, apart, error));
  v->call = make_call(d, &v->tiles);
  set_grid(v, d);
  return prepare_splits(v, d, workspace_bytes, error);
}

static hr_status prepare_launch(hr_device *device, const hr_decode *d, launch *l, bool apart, size_t *workspace_bytes,
                                hr_error *error)
{
  l->cuda = device->state;
  l->copy_bytes = copy_bytes_of(d);
  return add_variant(l, d, apart, workspace_bytes, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  launch *l = state;
  hr_decode fewer = problem->decode;
  HR_TRY(prepare_launch(device, &problem->decode, l, false, workspace_bytes, error));
  if (fewer.batch_invariant) /* as if each sequence were alone */
    return HR_OK;
  for (fewer.batch = 1; fewer.batch < problem->decode.batch && l->count < VARIANTS_MAX; fewer.batch *= VARIANT_STEP)
    HR_TRY(add_variant(l, &fewer, false, workspace_bytes, error));
  return HR_OK;
}

static const variant *variant_for(const launch *l, int64_t batch)
{
  for (int i = 1; i < l->count; i++)
    if (batch <= l->variants[i].batch)
      return &l->variants[i];
  return &l->variants[0];
}

/* The variant for a run. Sequences that are missing are blocks that are, but equal shares are of those that are there.
 * */
static const variant *variant_of(const launch *l, const hr_plan *plan, const hr_run *run)
{
  return run->problem == &plan->problem ? &l->variants[0] : variant_for(l, run->problem->decode.batch);
}

static hr_decode_call call_of(const variant *v, const hr_decode *d, const hr_run *run)
{
  const hr_decode_arguments *x = run->arguments;
  hr_decode_call made = v->call, *call = &made;
  call->batch = (int32_t)d->batch;
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
  call->partial_o = call->partial_stats + (uint64_t)partial_rows(v, d) * 2 * sizeof(float);
  return made;
}

/* One launch: of `blocks` blocks in the second direction of the variant's grid. */
static hr_status start(const launch *l, const variant *v, const hr_run *run, cu_function function, unsigned blocks,
                       hr_error *error)
{
  const hr_decode *d = &run->problem->decode;
  const hr_cuda_queue queue = {l->cuda, run->stream};
  const hr_cuda_kernel kernel = {.function = function,
                                 .blocks = v->grid[0],
                                 .grid_y = blocks,
                                 .grid_z = v->tiles.shares > 0 ? 1 : (unsigned)d->batch,
                                 .threads = 32U * (unsigned)v->tiles.warps,
                                 .shared_bytes = v->tiles.shared_bytes,
                                 .early = v->tiles.early && function == v->function};
  hr_decode_call call = call_of(v, d, run);
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = hr_cuda_launch(&queue, &kernel, parameters, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  const variant *v = variant_of(l, plan, run);
  return start(l, v, run, v->function, v->grid[1], error);
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_decode_split *t = &((const launch *)state)->variants[0].tiles;
  int used = snprintf(text, size, "%d query heads with %d K and %d V heads, %d warps%s, %d stages, ", t->heads,
                      t->k_heads, t->v_heads, t->warps, t->wgmma ? " (WGMMA)" : "", t->stages);
  if (t->shares > 0)
    snprintf(text + used, size - (size_t)used, "%d equal shares of all keys", t->shares);
  else
    snprintf(text + used, size - (size_t)used, "split-KV %d%s", t->splits, t->cluster > 1 ? ", cluster" : "");
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
  const hr_decode_split *t = &l->variants[0].tiles;
  if (t->splits == 1)
    return HR_OK;
  hr_decode_split_defines(t, d, l->copy_bytes, defines);
  return hr_cuda_function_shared(l->cuda, "decode_split", d->dtype, defines, "combine", t->shared_bytes, &l->combine,
                                 error);
}

static hr_status run_apart(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  const variant *v = &l->variants[0];
  if (run->part == 2 && !l->combine)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "one split has nothing to combine");
  if (run->part != 2)
    HR_TRY(start(l, v, run, v->function, v->grid[1], error));
  return run->part != 1 && l->combine ? start(l, v, run, l->combine, 1, error) : HR_OK;
}

const hr_kernel_functions hr_kernel_decode_apart_sm80 = {.state_bytes = sizeof(launch),
                                                         .supports = supports,
                                                         .prepare = prepare_apart,
                                                         .run = run_apart,
                                                         .parts = true,
                                                         .describe = describe};

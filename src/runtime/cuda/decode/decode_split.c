/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention by kernels/decode_split.cu: its tiles, splits and launch. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/decode/decode.h"

#include <stdio.h>

#define DIM_MOST 256
#define WARPS_OF_MULTIPROCESSOR 8
#define STAGES_MOST 4
#define RESERVED_BYTES 1024    /* of shared memory, that each block takes in addition */
#define SPLIT_COST_BYTES 32768 /* a split costs as much time as a block takes to read this */
#define ALIGNMENT_BYTES 16

typedef struct launch {
  const hr_cuda *cuda;
  hr_decode_split tiles;
  bool aligned; /* strides and head sizes are multiples of 16 bytes */
  cu_function function;
  unsigned blocks;
  cu_address counters; /* an int per group, 0 before and after a run; runs of a device are serialized on its stream */
  hr_decode_call call;
} launch;

/* ---- tiles ---- */

static size_t shared_bytes(const hr_decode_split *t)
{
  return (size_t)hr_decode_layout_of(t->qk, t->v, t->k_heads, t->v_heads, t->warps, t->stages, 2).bytes;
}

/* Whether groups of `heads` query heads begin and end at the bounds of K or V heads, or lie within one. */
static bool heads_fit(int64_t heads, int64_t group)
{
  return heads % group == 0 || group % heads == 0;
}

/* Most stages that leave room for `blocks` blocks of a multiprocessor; false if there is none for two stages. */
static bool choose_stages(hr_decode_split *t, const hr_decode_gpu *gpu, int blocks)
{
  size_t room = gpu->shared_of_multiprocessor / (size_t)blocks - RESERVED_BYTES;
  for (t->stages = STAGES_MOST; t->stages >= 2; t->stages--) {
    t->shared_bytes = shared_bytes(t);
    if (t->shared_bytes <= room && t->shared_bytes <= gpu->shared_most)
      return true;
  }
  return false;
}

/* On an H200 one block of 8 warps per multiprocessor was faster than two of 4, which have twice the splits to combine;
 * two were faster where each multiprocessor gets several blocks in turn, since one streams while the other combines. */
static bool choose_buffers(hr_decode_split *t, const hr_decode_gpu *gpu, int64_t groups)
{
  int blocks = groups > 2 * gpu->multiprocessors ? 2 : 1;
  for (t->min_blocks = blocks; t->min_blocks >= 1; t->min_blocks--)
    for (t->warps = WARPS_OF_MULTIPROCESSOR / t->min_blocks; t->warps >= 1; t->warps /= 2)
      if (choose_stages(t, gpu, t->min_blocks))
        return true;
  return false;
}

static bool choose_heads(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t heads)
{
  int64_t k_group = d->q_heads / d->k_heads, v_group = d->q_heads / d->v_heads;
  if (heads * d->q_len > HR_DECODE_ROWS || !heads_fit(heads, k_group) || !heads_fit(heads, v_group))
    return false;
  t->heads = (int)heads;
  t->k_heads = (int)hr_max64(1, heads / k_group);
  t->v_heads = (int)hr_max64(1, heads / v_group);
  return choose_buffers(t, gpu, d->batch * d->q_heads / heads);
}

static int choose_splits(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  int64_t key_bytes = (t->k_heads * d->qk_dim + t->v_heads * d->v_dim) * (int64_t)hr_dtype_bytes(d->dtype);
  hr_key_range range = hr_decode_range(d, d->kv_len);
  return (int)hr_decode_splits(d->batch * d->q_heads / t->heads, range.end - range.first,
                               t->min_blocks * gpu->multiprocessors, (int64_t)t->warps * HR_DECODE_KEYS,
                               SPLIT_COST_BYTES / key_bytes, HR_DECODE_SPLITS_MOST);
}

hr_decode_split hr_decode_split_choose(const hr_decode *d, const hr_decode_gpu *gpu)
{
  hr_decode alone = *d;
  if (d->batch_invariant) /* the order of all sums follows from the tiles and splits */
    alone.batch = 1, d = &alone;
  hr_decode_split t = {.qk = (int)hr_round_up(d->qk_dim, 16), .v = (int)hr_round_up(d->v_dim, 16)};
  int64_t heads = hr_min64(hr_decode_units(d).q_heads, HR_DECODE_ROWS);
  while (hr_decode_units(d).q_heads % heads != 0 || !choose_heads(&t, d, gpu, heads)) /* one head fits */
    heads--;
  t.splits = choose_splits(&t, d, gpu);
  return t;
}

void hr_decode_split_defines(const hr_decode_split *t, const hr_decode *d, bool aligned, char text[HR_DEFINES_SIZE])
{
  bool in_page = d->page_size % HR_DECODE_KEYS == 0 || d->table_pitch == 1;
  snprintf(text, HR_DEFINES_SIZE,
           "HR_Q_LEN=%d HR_HEADS=%d HR_QK=%d HR_V=%d HR_K_HEADS=%d HR_V_HEADS=%d HR_WARPS=%d HR_STAGES=%d "
           "HR_MIN_BLOCKS=%d%s%s%s",
           (int)d->q_len, t->heads, t->qk, t->v, t->k_heads, t->v_heads, t->warps, t->stages, t->min_blocks,
           d->softcap > 0 ? " HR_SOFTCAP" : "", aligned ? " HR_ALIGNED" : "", in_page ? " HR_CHUNK_IN_PAGE" : "");
}

/* ---- the plan ---- */

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_decode *d = &problem->decode;
  const char *reason = NULL;
  if (hr_decode_cannot_select(d, why, why_size))
    return false;
  if (d->latent)
    reason = "does not take latent attention";
  else if (d->cache_format != HR_KV_UNQUANTIZED)
    reason = "does not take quantized caches";
  else if (d->qk_dim > DIM_MOST || d->v_dim > DIM_MOST)
    reason = "takes head sizes up to 256";
  else if (d->kv_len > INT32_MAX / 2 || d->batch > INT32_MAX / HR_DECODE_SPLITS_MOST / d->q_heads)
    reason = "takes lengths below 2^30 and fewer than 2^24 heads of all sequences";
  if (reason)
    snprintf(why, why_size, "%s", reason);
  return !reason;
}

/* Whether head sizes and strides keep every row of K and V at multiples of 16 bytes from its operand's address. */
static bool strides_aligned(const hr_decode *d)
{
  int64_t step = ALIGNMENT_BYTES / (int64_t)hr_dtype_bytes(d->dtype);
  hr_kv_strides k = hr_decode_k_strides(d), v = hr_decode_v_strides(d);
  const int64_t all[] = {k.page, k.token, k.head, v.page, v.token, v.head, d->qk_dim, d->v_dim};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] % step != 0)
      return false;
  return true;
}

static hr_status read_gpu(const hr_cuda *cuda, hr_decode_gpu *gpu, hr_error *error)
{
  int64_t most = 0, all = 0;
  HR_TRY(hr_cuda_attribute(cuda, CU_MULTIPROCESSORS, &gpu->multiprocessors, error));
  HR_TRY(hr_cuda_attribute(cuda, CU_MAX_SHARED_OPTIN, &most, error));
  HR_TRY(hr_cuda_attribute(cuda, CU_SHARED_BYTES, &all, error));
  gpu->shared_most = (size_t)most;
  gpu->shared_of_multiprocessor = (size_t)all;
  return HR_OK;
}

static hr_decode_call make_call(const hr_decode *d, const hr_decode_split *t)
{
  return (hr_decode_call){.q_at = hr_decode_q_strides(d),
                          .o_at = hr_decode_o_strides(d),
                          .k_at = hr_decode_k_strides(d),
                          .v_at = hr_decode_v_strides(d),
                          .kv_len = (int32_t)d->kv_len,
                          .q_heads = (int32_t)d->q_heads,
                          .k_group = (int32_t)(d->q_heads / d->k_heads),
                          .v_group = (int32_t)(d->q_heads / d->v_heads),
                          .qk_dim = (int32_t)d->qk_dim,
                          .v_dim = (int32_t)d->v_dim,
                          .head_blocks = (int32_t)(d->q_heads / t->heads),
                          .splits = t->splits,
                          .page_size = (int32_t)d->page_size,
                          .table_pitch = (int32_t)d->table_pitch,
                          .window = (int32_t)hr_min64(d->window, d->kv_len),
                          .scale = (float)hr_decode_scale(d),
                          .softcap = d->softcap};
}

static hr_status find_function(const launch *l, const hr_decode *d, bool aligned, cu_function *function,
                               hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_decode_split_defines(&l->tiles, d, aligned, defines);
  return hr_cuda_function_shared(l->cuda, "decode_split", d->dtype, defines, "decode", l->tiles.shared_bytes, function,
                                 error);
}

static void release(void *state)
{
  launch *l = state;
  if (l->counters && hr_cuda_enter(l->cuda, NULL) == HR_OK) {
    l->cuda->driver.cuMemFree_v2(l->counters);
    hr_cuda_leave(l->cuda);
  }
}

/* In the device's context. */
static hr_status make_counters(launch *l, int64_t groups, hr_error *error)
{
  const hr_driver *driver = &l->cuda->driver;
  size_t bytes = (size_t)groups * sizeof(int32_t);
  HR_TRY(HR_CU(driver, cuMemAlloc_v2, (&l->counters, bytes), error));
  HR_TRY(HR_CU(driver, cuMemsetD8Async, (l->counters, 0, bytes, l->cuda->stream), error));
  return HR_CU(driver, cuStreamSynchronize, (l->cuda->stream), error);
}

static int64_t partial_rows(const launch *l, const hr_decode *d)
{
  return d->batch * l->call.head_blocks * l->tiles.splits * HR_DECODE_ROWS;
}

static hr_status prepare_splits(launch *l, const hr_decode *d, size_t *workspace_bytes, hr_error *error)
{
  if (l->tiles.splits == 1)
    return HR_OK;
  *workspace_bytes = (size_t)partial_rows(l, d) * ((size_t)l->tiles.v + 2) * sizeof(float);
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = make_counters(l, d->batch * l->call.head_blocks, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  launch *l = state;
  const hr_decode *d = &problem->decode;
  hr_decode_gpu gpu;
  l->cuda = device->state;
  HR_TRY(read_gpu(l->cuda, &gpu, error));
  l->tiles = hr_decode_split_choose(d, &gpu);
  l->aligned = strides_aligned(d);
  l->call = make_call(d, &l->tiles);
  l->blocks = (unsigned)(d->batch * l->call.head_blocks * l->tiles.splits);
  HR_TRY(find_function(l, d, l->aligned, &l->function, error));
  return prepare_splits(l, d, workspace_bytes, error);
}

static cu_address address_of(const void *data)
{
  return (cu_address)(uintptr_t)data;
}

static void set_addresses(hr_decode_call *call, const launch *l, const hr_decode *d, const hr_decode_arguments *x,
                          void *workspace)
{
  call->q = address_of(x->q);
  call->k = address_of(x->k);
  call->v = address_of(x->v);
  call->o = address_of(x->o);
  call->lse = address_of(x->lse);
  call->lengths = address_of(x->lengths);
  call->pages = address_of(x->pages);
  call->sinks = d->sinks ? address_of(x->sinks) : 0;
  call->counters = l->counters;
  call->partial_stats = address_of(workspace);
  call->partial_o = call->partial_stats + (uint64_t)partial_rows(l, d) * 2 * sizeof(float);
}

static hr_status run(const hr_plan *plan, const hr_decode_arguments *arguments, void *workspace, hr_error *error)
{
  const launch *l = plan->state;
  const hr_decode *d = &plan->problem.decode;
  hr_decode_call call = l->call;
  cu_function function = l->function;
  uintptr_t addresses = (uintptr_t)arguments->k | (uintptr_t)arguments->v;
  set_addresses(&call, l, d, arguments, workspace);
  if (l->aligned && addresses % ALIGNMENT_BYTES != 0) /* compiled when it first happens */
    HR_TRY(find_function(l, d, false, &function, error));
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = hr_cuda_launch(l->cuda, function, l->blocks, 32U * (unsigned)l->tiles.warps, l->tiles.shared_bytes,
                                    parameters, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  const hr_decode_split *t = &l->tiles;
  snprintf(text, size, "%d query heads with %d K and %d V heads, %d warps, %d stages, split-KV %d", t->heads,
           t->k_heads, t->v_heads, t->warps, t->stages, t->splits);
}

const hr_kernel_functions hr_kernel_decode_split_sm80 = {.state_bytes = sizeof(launch),
                                                         .supports = supports,
                                                         .prepare = prepare,
                                                         .run_decode = run,
                                                         .release = release,
                                                         .describe = describe};

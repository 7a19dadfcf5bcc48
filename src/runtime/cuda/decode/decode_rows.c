/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention by kernels/decode_rows.cu: its blocks, splits and launch. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/decode/decode.h"
#include "runtime/cuda/kernels/decode_rows_layout.h"
#include "schedule/split_keys.h"

#include <headroom/experimental/decode.h>
#include <stdio.h>

#define SHARED_MAX 49152 /* bytes of a block that need no attribute */
#define BLOCKS_OF_MULTIPROCESSOR 4
#define SPLITS_MAX 128
#define SPLIT_COST_KEYS 256 /* a split costs as much time as these keys of a block */

typedef struct launch {
  const hr_cuda *cuda;
  int heads; /* of a block */
  size_t shared_bytes;
  cu_function decode, combine;
  int64_t slots, partial_rows;
  hr_decode_rows_call call;
} launch;

static int64_t rows_of(const hr_decode *d)
{
  return d->batch * d->q_len * d->q_heads;
}

/* Query heads of a block, that share a K head and a V head; 0 if shared memory does not hold one. */
static int choose_heads(const hr_decode *d)
{
  int64_t k_group = d->q_heads / d->k_heads, v_group = d->q_heads / d->v_heads;
  for (int heads = HR_DECODE_ROWS_HEADS_MAX; heads >= 1; heads--)
    if (k_group % heads == 0 && v_group % heads == 0 && d->qk_dim + d->v_dim < SHARED_MAX &&
        hr_decode_rows_bytes(heads, (int)d->qk_dim, (int)d->v_dim) <= SHARED_MAX)
      return heads;
  return 0;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_decode *d = &problem->decode;
  const char *reason = NULL;
  if (hr_decode_cannot_select(d, why, why_size))
    return false;
  if (choose_heads(d) == 0)
    reason = "takes head sizes up to 11000 of K and V together";
  else if (d->kv_len > INT32_MAX / 2 || d->batch > INT32_MAX / SPLITS_MAX / (d->q_heads * d->q_len))
    reason = "takes lengths below 2^30 and fewer than 2^24 heads and queries of all sequences";
  if (reason)
    snprintf(why, why_size, "%s", reason);
  return !reason;
}

static hr_decode_rows_call make_call(const hr_decode *d)
{
  return (hr_decode_rows_call){.q_at = hr_decode_q_strides(d),
                               .o_at = hr_decode_o_strides(d),
                               .k_at = hr_decode_k_strides(d),
                               .v_at = hr_decode_v_strides(d),
                               .k_scale_at = hr_decode_k_scale_strides(d),
                               .v_scale_at = hr_decode_v_scale_strides(d),
                               .q_len = (int32_t)d->q_len,
                               .kv_len = (int32_t)d->kv_len,
                               .q_heads = (int32_t)d->q_heads,
                               .k_group = (int32_t)(d->q_heads / d->k_heads),
                               .v_group = (int32_t)(d->q_heads / d->v_heads),
                               .qk_dim = (int32_t)d->qk_dim,
                               .v_dim = (int32_t)d->v_dim,
                               .page_size = (int32_t)hr_min64(d->page_size, INT32_MAX),
                               .table_pitch = (int32_t)d->table_pitch,
                               .window = (int32_t)hr_min64(d->window, d->kv_len),
                               .scale = (float)hr_decode_scale(d),
                               .softcap = d->softcap,
                               .top = hr_decode_top(d)};
}

/* Everything but the splits. */
static hr_status prepare_launch(launch *l, const hr_cuda *cuda, const hr_decode *d, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  l->cuda = cuda;
  l->heads = choose_heads(d);
  l->shared_bytes = (size_t)hr_decode_rows_bytes(l->heads, (int)d->qk_dim, (int)d->v_dim);
  l->call = make_call(d);
  l->call.splits = 1;
  snprintf(defines, sizeof defines, "HR_HEADS=%d%s", l->heads, hr_decode_cache_define(d));
  HR_TRY(hr_cuda_function(cuda, "decode_rows", d->dtype, defines, "decode", &l->decode, error));
  return hr_cuda_function(cuda, "decode_rows", d->dtype, defines, "combine", &l->combine, error);
}

/* The order of sums follows from the splits, which a batch-invariant call has as if each sequence were alone. */
static int32_t splits_of(const launch *l, const hr_decode *d)
{
  hr_key_range range = hr_decode_range(d, d->kv_len);
  int64_t rows = d->batch_invariant ? d->q_len * d->q_heads : rows_of(d);
  return (int32_t)hr_decode_splits(rows / l->heads, range.end - range.first, l->slots, HR_DECODE_ROWS_KEYS,
                                   SPLIT_COST_KEYS, SPLITS_MAX);
}

/* Rows of partial results of this call, and of some with fewer sequences. */
static int64_t partial_rows_max(const launch *l, const hr_decode *d)
{
  hr_decode fewer = *d;
  int64_t most = l->call.splits > 1 ? rows_of(d) * l->call.splits : 0;
  for (fewer.batch = 1; fewer.batch < d->batch; fewer.batch *= 2) {
    int64_t splits = splits_of(l, &fewer);
    most = splits > 1 ? hr_max64(most, rows_of(&fewer) * splits) : most;
  }
  return most;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  launch *l = state;
  const hr_decode *d = &problem->decode;
  int64_t multiprocessors = 0;
  HR_TRY(prepare_launch(l, device->state, d, error));
  HR_TRY(hr_cuda_attribute(l->cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  l->slots = BLOCKS_OF_MULTIPROCESSOR * multiprocessors;
  l->call.splits = splits_of(l, d);
  l->partial_rows = partial_rows_max(l, d);
  *workspace_bytes = (size_t)(l->partial_rows * (d->v_dim + 2)) * sizeof(float);
  return HR_OK;
}

/* The splits of a run with fewer sequences, as many as its workspace has room for. */
static int32_t splits_within(const launch *l, const hr_decode *d)
{
  return (int32_t)hr_min64(splits_of(l, d), hr_max64(1, l->partial_rows / rows_of(d)));
}

static hr_decode_rows_call call_of(const launch *l, const hr_decode *d, const hr_run *run)
{
  const hr_decode_arguments *x = run->arguments;
  hr_decode_rows_call call = l->call;
  call.q = hr_cuda_address(x->q);
  call.k = hr_cuda_address(x->k);
  call.v = hr_cuda_address(d->latent ? x->k : x->v);
  call.o = hr_cuda_address(x->o);
  call.lse = hr_cuda_address(x->lse);
  call.lengths = hr_cuda_address(x->lengths);
  call.pages = hr_cuda_address(x->pages);
  call.page_starts = hr_cuda_address(x->page_starts);
  call.sinks = d->sinks ? hr_cuda_address(x->sinks) : 0;
  call.slopes = d->alibi ? hr_cuda_address(x->alibi_slopes) : 0;
  call.k_scales = hr_cuda_address(x->k_scales);
  call.v_scales = hr_cuda_address(d->latent ? x->k_scales : x->v_scales);
  call.partial_stats = hr_cuda_address(run->workspace);
  call.partial_o = call.partial_stats + (uint64_t)(rows_of(d) * call.splits) * 2 * sizeof(float);
  return call;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  const hr_decode *d = &run->problem->decode;
  const hr_cuda_queue queue = {l->cuda, run->stream};
  launch bounded = *l;
  if (run->problem != &plan->problem)
    bounded.call.splits = splits_within(l, d);
  hr_decode_rows_call call = call_of(&bounded, d, run);
  const hr_cuda_kernel decode = {.function = l->decode,
                                 .blocks = rows_of(d) / l->heads * call.splits,
                                 .threads = HR_DECODE_ROWS_THREADS,
                                 .shared_bytes = l->shared_bytes};
  const hr_cuda_kernel combine = {.function = l->combine, .blocks = rows_of(d), .threads = HR_DECODE_ROWS_THREADS};
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = hr_cuda_launch(&queue, &decode, parameters, error);
  if (status == HR_OK && call.splits > 1)
    status = hr_cuda_launch(&queue, &combine, parameters, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const launch *l = state;
  snprintf(text, size, "%d query heads of a block, split-KV %d", l->heads, l->call.splits);
}

const hr_kernel_functions hr_kernel_decode_rows_cuda = {
    .state_bytes = sizeof(launch), .supports = supports, .prepare = prepare, .run = run, .describe = describe};

/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V by kernels/decode_topk.cu: its sizes, workspace and launches. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/decode/decode.h"
#include "shape/alignment.h"

#include <headroom/experimental/decode.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define DIM_MAX 256
#define ALIGNMENT_BYTES 16
#define SPLIT_BYTES ((int64_t)1 << 18) /* of gathered V, above which a row has several blocks */

typedef struct launch {
  const hr_cuda *cuda;
  hr_decode_gpu gpu;
  hr_decode_topk sizes;
  size_t bytes; /* of the workspace */
  cu_function score, gather;
  int64_t score_blocks, rows;
  hr_topk_call call;
} launch;

/* ---- sizes ---- */

/* A row's blocks all find its k-th score, so that more than the GPU runs at a time would cost more. */
static int choose_splits(const hr_decode *d, const hr_decode_gpu *gpu)
{
  int64_t bytes = hr_min64(d->top_k, d->kv_len) * d->v_dim * (int64_t)hr_dtype_bytes(d->dtype);
  int64_t rows = (d->batch_invariant ? 1 : d->batch) * d->q_heads * d->q_len; /* the order of sums follows from it */
  int64_t splits = hr_min64(gpu->multiprocessors / rows, bytes / SPLIT_BYTES);
  bool counted = d->batch * d->q_heads * d->q_len <= HR_WORKSPACE_COUNTERS; /* one for each row */
  return counted ? (int)hr_max64(1, splits) : 1;
}

hr_decode_topk hr_decode_topk_choose(const hr_decode *d, const hr_decode_gpu *gpu)
{
  hr_decode_topk t = {.qk = (int)hr_round_up(d->qk_dim, 32), .v = 8, .splits = choose_splits(d, gpu)};
  while (t.v < d->v_dim)
    t.v *= 2;
  t.tiles = (int)hr_ceil_div(d->q_heads / d->k_heads * d->q_len, HR_TOPK_ROWS);
  t.score_blocks = (int)hr_ceil_div(hr_decode_keys_max(d), HR_TOPK_SCORE_KEYS);
  t.pitch = hr_round_up(hr_decode_keys_max(d), 64);
  size_t fixed = (size_t)hr_topk_fixed_bytes(t.v), keys = (size_t)t.pitch * sizeof(uint32_t);
  t.in_shared = fixed + keys <= gpu->shared_max;
  t.shared_bytes = fixed + (t.in_shared ? keys : 0);
  return t;
}

void hr_decode_topk_defines(const hr_decode_topk *t, const hr_decode *d, bool aligned, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_QK=%d HR_V=%d%s%s%s", t->qk, t->v, d->softcap > 0 ? " HR_SOFTCAP" : "",
           aligned ? " HR_ALIGNED" : "", t->in_shared ? " HR_IN_SHARED" : "");
}

/* ---- the plan ---- */

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_decode *d = &problem->decode;
  const char *reason = NULL;
  if (!hr_decode_selects(d))
    reason = "has nothing to select without a top_k that is smaller than the number of keys";
  else if (d->cache_format != HR_KV_UNQUANTIZED)
    reason = "does not take quantized caches";
  else if (d->qk_dim > DIM_MAX || d->v_dim > DIM_MAX)
    reason = "takes head sizes up to 256";
  else if (d->kv_len > INT32_MAX / 4 || d->batch > INT32_MAX / 256 / d->q_heads)
    reason = "takes lengths below 2^29 and fewer than 2^23 heads of all sequences";
  if (reason)
    snprintf(why, why_size, "%s", reason);
  return !reason;
}

/* Whether addresses, head sizes and strides keep every row of Q, K and V at multiples of 16 bytes. */
static bool operands_aligned(const hr_decode *d)
{
  int64_t step = ALIGNMENT_BYTES / (int64_t)hr_dtype_bytes(d->dtype);
  hr_strides q = hr_decode_q_strides(d);
  hr_kv_strides k = hr_decode_k_strides(d), v = hr_decode_v_strides(d);
  const int64_t all[] = {q.batch, q.row, q.head, k.page, k.token, k.head, v.page, v.token, v.head, d->qk_dim, d->v_dim};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] % step != 0)
      return false;
  return hr_alignment(d->alignment) % ALIGNMENT_BYTES == 0;
}

static hr_status read_gpu(const hr_cuda *cuda, hr_decode_gpu *gpu, hr_error *error)
{
  int64_t most = 0;
  HR_TRY(hr_cuda_attribute(cuda, CU_MULTIPROCESSORS, &gpu->multiprocessors, error));
  HR_TRY(hr_cuda_attribute(cuda, CU_MAX_SHARED_OPTIN, &most, error));
  gpu->shared_max = (size_t)most;
  return HR_OK;
}

static hr_topk_call make_call(const hr_decode *d, const hr_decode_topk *t)
{
  double scale = hr_decode_scale(d);
  return (hr_topk_call){.q_at = hr_decode_q_strides(d),
                        .o_at = hr_decode_o_strides(d),
                        .k_at = hr_decode_k_strides(d),
                        .v_at = hr_decode_v_strides(d),
                        .kv_len = (int32_t)d->kv_len,
                        .q_len = (int32_t)d->q_len,
                        .q_heads = (int32_t)d->q_heads,
                        .k_heads = (int32_t)d->k_heads,
                        .k_group = (int32_t)(d->q_heads / d->k_heads),
                        .v_group = (int32_t)(d->q_heads / d->v_heads),
                        .qk_dim = (int32_t)d->qk_dim,
                        .v_dim = (int32_t)d->v_dim,
                        .page_size = (int32_t)d->page_size,
                        .table_pitch = (int32_t)d->table_pitch,
                        .window = (int32_t)hr_min64(d->window, d->kv_len),
                        .top_k = (int32_t)d->top_k,
                        .score_blocks = t->score_blocks,
                        .tiles = t->tiles,
                        .splits = t->splits,
                        .pitch = (int32_t)t->pitch,
                        .scale = (float)fabs(scale),
                        .softcap = d->softcap,
                        .sign = scale < 0 ? -1.0f : 1.0f,
                        .top = hr_decode_top(d)};
}

static hr_status find_functions(launch *l, const hr_decode *d, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_decode_topk_defines(&l->sizes, d, operands_aligned(d), defines);
  HR_TRY(hr_cuda_function(l->cuda, "decode_topk", d->dtype, defines, "topk_score", &l->score, error));
  return hr_cuda_function_shared(l->cuda, "decode_topk", d->dtype, defines, "topk_gather", l->sizes.shared_bytes,
                                 &l->gather, error);
}

/* Offsets into the workspace. */
typedef struct placement {
  size_t keys, places, partial;
} placement;

static hr_status place(const launch *l, const hr_decode *d, placement *p, size_t *bytes, hr_error *error)
{
  hr_checked64 end = hr_checked(0), rows = hr_checked(l->rows);
  int64_t all;
  p->keys = hr_place(&end, hr_times(hr_times(rows, l->sizes.pitch), sizeof(uint32_t)));
  p->places = hr_place(&end, hr_times(hr_times(rows, d->top_k), sizeof(int32_t)));
  if (l->sizes.splits > 1)
    p->partial = hr_place(&end, hr_times(hr_times(rows, l->sizes.splits), (l->sizes.v + 1) * (int64_t)sizeof(float)));
  if (hr_checked_take(end, &all) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the workspace exceeds 63 bits");
  *bytes = (size_t)all;
  return HR_OK;
}

/* Sizes, and the blocks that follow from them. */
static void set_sizes(launch *l, const hr_decode *d)
{
  l->sizes = hr_decode_topk_choose(d, &l->gpu);
  l->rows = d->batch * d->q_heads * d->q_len;
  l->score_blocks = d->batch * d->k_heads * l->sizes.tiles * l->sizes.score_blocks;
}

/* Bytes of the workspace of this call, and of some with fewer sequences. */
static hr_status bytes_max(const launch *l, const hr_decode *d, size_t *most, hr_error *error)
{
  launch smaller = *l;
  hr_decode fewer = *d;
  placement places;
  HR_TRY(place(l, d, &places, most, error));
  for (fewer.batch = 1; fewer.batch < d->batch; fewer.batch *= 2) {
    size_t bytes = 0;
    set_sizes(&smaller, &fewer);
    HR_TRY(place(&smaller, &fewer, &places, &bytes, error));
    *most = bytes > *most ? bytes : *most;
  }
  return HR_OK;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  launch *l = state;
  const hr_decode *d = &problem->decode;
  l->cuda = device->state;
  HR_TRY(read_gpu(l->cuda, &l->gpu, error));
  set_sizes(l, d);
  l->call = make_call(d, &l->sizes);
  if (l->score_blocks > INT32_MAX || l->rows > INT32_MAX / l->sizes.splits)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "more than 2^31 thread blocks");
  HR_TRY(bytes_max(l, d, &l->bytes, error));
  *workspace_bytes = l->bytes;
  return find_functions(l, d, error);
}

/* The launch of a run with fewer sequences, in as many splits as its workspace has room for. */
static hr_status bounded(const launch *all, const hr_decode *d, launch *smaller, hr_error *error)
{
  placement places;
  size_t bytes = 0;
  *smaller = *all;
  set_sizes(smaller, d);
  HR_TRY(place(smaller, d, &places, &bytes, error));
  while (bytes > all->bytes && smaller->sizes.splits > 1) {
    smaller->sizes.splits--;
    HR_TRY(place(smaller, d, &places, &bytes, error));
  }
  smaller->call = make_call(d, &smaller->sizes);
  return HR_OK;
}

static hr_status set_addresses(hr_topk_call *call, const launch *l, const hr_decode *d, const hr_run *run,
                               hr_error *error)
{
  const hr_decode_arguments *x = run->arguments;
  const cu_address workspace = hr_cuda_address(run->workspace);
  placement places = {0};
  size_t bytes;
  HR_TRY(place(l, d, &places, &bytes, error));
  call->q = hr_cuda_address(x->q);
  call->k = hr_cuda_address(x->k);
  call->v = hr_cuda_address(x->v);
  call->o = hr_cuda_address(x->o);
  call->lse = hr_cuda_address(x->lse);
  call->lengths = hr_cuda_address(x->lengths);
  call->pages = hr_cuda_address(x->pages);
  call->page_starts = hr_cuda_address(x->page_starts);
  call->sinks = d->sinks ? hr_cuda_address(x->sinks) : 0;
  call->counters = hr_cuda_address(run->counters);
  call->keys = workspace + places.keys;
  call->places = workspace + places.places;
  call->partial = workspace + places.partial;
  return HR_OK;
}

/* In the device's context. */
static hr_status launch_both(const launch *l, hr_topk_call *call, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {l->cuda, stream};
  const hr_cuda_kernel score = {.function = l->score, .blocks = l->score_blocks, .threads = 32U * HR_TOPK_SCORE_WARPS};
  const hr_cuda_kernel gather = {.function = l->gather,
                                 .blocks = l->rows * l->sizes.splits,
                                 .threads = HR_TOPK_THREADS,
                                 .shared_bytes = l->sizes.shared_bytes};
  void *parameters[] = {call};
  HR_TRY(hr_cuda_launch(&queue, &score, parameters, error));
  return hr_cuda_launch(&queue, &gather, parameters, error);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const launch *l = plan->state;
  const hr_decode *d = &run->problem->decode;
  launch smaller;
  if (run->problem != &plan->problem) {
    HR_TRY(bounded(l, d, &smaller, error));
    l = &smaller;
  }
  hr_topk_call call = l->call;
  HR_TRY(set_addresses(&call, l, d, run, error));
  HR_TRY(hr_cuda_enter(l->cuda, error));
  hr_status status = launch_both(l, &call, run->stream, error);
  hr_cuda_leave(l->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_decode_topk *t = &((const launch *)state)->sizes;
  snprintf(text, size, "scores by %d keys, gathered V in %d splits, scores of a row in %s", HR_TOPK_SCORE_KEYS,
           t->splits, t->in_shared ? "shared memory" : "memory");
}

const hr_kernel_functions hr_kernel_decode_topk_sm80 = {.state_bytes = sizeof(launch),
                                                        .supports = supports,
                                                        .prepare = prepare,
                                                        .run = run,
                                                        .counters = true,
                                                        .describe = describe};

/* SPDX-License-Identifier: Apache-2.0 */
/* Launches kernels/kv_cache_append.cu, kv_cache_heads.cu, kv_cache_quantize.cu and kv_cache_numbers.cu. */
#include "runtime/device/kv_cache.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/kv_cache_layout.h"
#include <string.h>

#define THREADS 128
#define BLOCKS_MAX 16384        /* which loop */
#define NUMBERS_QUEUED_MAX 8192 /* more take longer by launches than by a copy */

_Static_assert((int)HR_PUT_RANGES_MAX == HR_KV_GATHERED_MAX, "one launch sends all that a cache gathers");

static hr_kv_append_call call_of(const hr_kv_writes *w)
{
  const hr_kv_cache_options *o = w->options;
  const hr_kv_append *a = w->append;
  return (hr_kv_append_call){.k = hr_cuda_address(a->k),
                             .v = w->v ? hr_cuda_address(a->v) : 0,
                             .k_cache = hr_cuda_address(w->k),
                             .v_cache = hr_cuda_address(w->v),
                             .k_scales = hr_cuda_address(w->k_scales),
                             .v_scales = hr_cuda_address(w->v_scales),
                             .cos = hr_cuda_address(a->cos),
                             .sin = hr_cuda_address(a->sin),
                             .list = hr_cuda_address(w->list),
                             .k_row = a->k_row,
                             .v_row = a->v_row,
                             .tokens = (int)w->tokens,
                             .sequences = (int)a->count,
                             .page_size = (int)o->page_size,
                             .k_width = (int)(o->k_heads * o->qk_dim),
                             .v_width = (int)(o->v_heads * o->v_dim),
                             .qk_dim = (int)o->qk_dim,
                             .v_dim = (int)o->v_dim,
                             .rotary_first = (int)a->rotary_first,
                             .rotary_half = (int)(a->rotary_dim / 2),
                             .interleaved = a->pairs == HR_ROTARY_INTERLEAVED,
                             .int8 = o->cache_format == HR_KV_INT8,
                             .token_scales = o->cache_scales == HR_KV_SCALE_TOKEN};
}

hr_status hr_cuda_prepare_cache(hr_device *device, hr_kv_cache *cache, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  bool quantized = cache->options.cache_format != HR_KV_UNQUANTIZED;
  cu_function append = NULL, numbers = NULL;
  HR_TRY(hr_cuda_function(cuda, quantized ? "kv_cache_quantize" : "kv_cache_append", cache->options.dtype, NULL,
                          "append_tokens", &append, error));
  HR_TRY(hr_cuda_function(cuda, "kv_cache_numbers", HR_FP32, NULL, "put_numbers", &numbers, error));
  cache->append_program = append;
  cache->numbers_program = numbers;
  return HR_OK;
}

/* In the device's context. A warp has a head. */
static hr_status launch_heads(const hr_cuda_queue *queue, const hr_kv_writes *w, hr_error *error)
{
  const hr_kv_heads *h = w->heads;
  const hr_kv_cache_options *o = w->options;
  const int64_t warps = w->tokens * (h->q_heads + o->k_heads + o->v_heads);
  hr_cuda_kernel kernel = {
      .blocks = hr_ceil_div(warps, THREADS / 32), .threads = THREADS, .early = queue->cuda->capability >= 90};
  hr_kv_heads_call call = {.append = call_of(w),
                           .q = hr_cuda_address(h->q),
                           .q_to = hr_cuda_address(h->q_to),
                           .k_to = hr_cuda_address(h->k_to),
                           .angles = hr_cuda_address(h->angles),
                           .q_norm = hr_cuda_address(h->q_norm),
                           .k_norm = hr_cuda_address(h->k_norm),
                           .q_row = h->q_row,
                           .q_heads = (int)h->q_heads,
                           .rotated = (int)h->rotated,
                           .interleaved = h->interleaved,
                           .norm_stride = (int)h->norm_stride,
                           .epsilon = (float)h->epsilon};
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_function(queue->cuda, "kv_cache_heads", o->dtype, NULL, "write_heads", &kernel.function, error));
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

/* In the device's context. */
static hr_status launch_append(const hr_cuda_queue *queue, const hr_kv_cache *cache, const hr_kv_writes *writes,
                               hr_error *error)
{
  const hr_cuda_kernel kernel = {.function = cache->append_program,
                                 .blocks = hr_min64(writes->tokens * (writes->v ? 2 : 1), BLOCKS_MAX),
                                 .threads = THREADS,
                                 .early = queue->cuda->capability >= 90};
  hr_kv_append_call call = call_of(writes);
  void *parameters[] = {&call};
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

hr_status hr_cuda_append_tokens(const hr_kv_cache *cache, const hr_kv_writes *writes, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {cache->device->state, stream};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = writes->heads ? launch_heads(&queue, writes, error) : launch_append(&queue, cache, writes, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

/* In the device's context. */
static hr_status launch_put(const hr_cuda_queue *queue, const hr_kv_cache *cache, hr_put_numbers *put, hr_error *error)
{
  const hr_cuda_kernel kernel = {.function = cache->numbers_program, .blocks = 1, .threads = THREADS};
  void *parameters[] = {put};
  const int count = put->count;
  if (count == 0)
    return HR_OK;
  const hr_status status = hr_cuda_launch(queue, &kernel, parameters, error);
  put->count = 0;
  return status;
}

/* Numbers as parameters of launches, which copy them. Full ones are launched. */
static hr_status put_range(const hr_cuda_queue *queue, const hr_kv_cache *cache, const hr_kv_numbers *n,
                           hr_put_numbers *put, hr_error *error)
{
  for (size_t first = 0; first < n->count;) {
    const size_t begin = put->count > 0 ? (size_t)put->ends[put->count - 1] : 0, room = HR_PUT_NUMBERS_MAX - begin;
    const size_t some = n->count - first < room ? n->count - first : room;
    if (some == 0 || put->count == HR_PUT_RANGES_MAX) {
      HR_TRY(launch_put(queue, cache, put, error));
      continue;
    }
    memcpy(put->numbers + begin, n->from + first, some * sizeof *n->from);
    put->to[put->count] = hr_cuda_address(n->to + first);
    put->ends[put->count++] = (int)(begin + some);
    first += some;
  }
  return HR_OK;
}

/* In the device's context. A copy from memory that is not page-locked may wait for the stream, a launch does not. */
static hr_status put_ranges(const hr_cuda_queue *queue, const hr_kv_cache *cache, const hr_kv_numbers *ranges,
                            size_t count, hr_error *error)
{
  hr_put_numbers put = {.count = 0};
  for (size_t i = 0; i < count; i++) {
    const hr_kv_numbers *n = &ranges[i];
    if (n->count <= NUMBERS_QUEUED_MAX)
      HR_TRY(put_range(queue, cache, n, &put, error));
    else
      HR_TRY(HR_CU(&queue->cuda->driver, cuMemcpyHtoDAsync_v2,
                   (hr_cuda_address(n->to), n->from, n->count * sizeof *n->from, queue->stream), error));
  }
  return launch_put(queue, cache, &put, error);
}

hr_status hr_cuda_queue_numbers(const hr_kv_cache *cache, const hr_kv_numbers *ranges, size_t count, void *stream,
                                hr_error *error)
{
  const hr_cuda_queue queue = {cache->device->state, stream};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = put_ranges(&queue, cache, ranges, count, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

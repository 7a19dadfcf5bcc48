/* SPDX-License-Identifier: Apache-2.0 */
/* Launches kernels/kv_cache_append.cu, kv_cache_quantize.cu and kv_cache_numbers.cu. */
#include "runtime/device/kv_cache.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/kv_cache_layout.h"
#include <string.h>

#define THREADS 128
#define BLOCKS_MAX 16384 /* which loop */

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

hr_status hr_cuda_append_tokens(hr_device *device, const hr_kv_writes *writes, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  cu_function function = NULL;
  bool quantized = writes->options->cache_format != HR_KV_UNQUANTIZED;
  HR_TRY(hr_cuda_function(cuda, quantized ? "kv_cache_quantize" : "kv_cache_append", writes->options->dtype, NULL,
                          "append_tokens", &function, error));
  if (writes->tokens == 0) /* a call that prepares: no append has to compile anything */
    return hr_cuda_put_numbers(device, NULL, NULL, 0, error);
  hr_kv_append_call call = call_of(writes);
  void *arguments[] = {&call};
  int64_t blocks = hr_min64(writes->tokens * (writes->v ? 2 : 1), BLOCKS_MAX);
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = hr_cuda_launch(cuda, function, blocks, THREADS, 0, arguments, error);
  hr_cuda_leave(cuda);
  return status;
}

static hr_status put_some(const hr_cuda *cuda, cu_function function, int32_t *to, const int32_t *from, size_t count,
                          hr_error *error)
{
  hr_put_numbers put = {.to = hr_cuda_address(to), .count = (int)count};
  void *arguments[] = {&put};
  memcpy(put.numbers, from, count * sizeof *from);
  return hr_cuda_launch(cuda, function, 1, THREADS, 0, arguments, error);
}

hr_status hr_cuda_put_numbers(hr_device *device, int32_t *to, const int32_t *from, size_t count, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  cu_function function = NULL;
  HR_TRY(hr_cuda_function(cuda, "kv_cache_numbers", HR_FP32, NULL, "put_numbers", &function, error));
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = HR_OK;
  for (size_t first = 0; first < count && status == HR_OK; first += HR_PUT_NUMBERS_MAX) {
    size_t some = count - first < HR_PUT_NUMBERS_MAX ? count - first : HR_PUT_NUMBERS_MAX;
    status = put_some(cuda, function, to + first, from + first, some, error);
  }
  hr_cuda_leave(cuda);
  return status;
}

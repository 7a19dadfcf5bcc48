#include "runtime/cuda/attention/attention.h"

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define ALIGNMENT_BYTES 16

bool hr_cuda_attention_modified(const hr_attention *a)
{
  return a->softcap > 0 || a->alibi || a->scale < 0;
}

hr_cuda_attention hr_cuda_attention_describe(const hr_attention *a, int64_t rows)
{
  int64_t lse_head = a->variable_lengths ? a->q_total : a->q_len;
  return (hr_cuda_attention){.q_at = hr_attention_strides(a, HR_OPERAND_Q),
                             .k_at = hr_attention_strides(a, HR_OPERAND_K),
                             .v_at = hr_attention_strides(a, HR_OPERAND_V),
                             .o_at = hr_attention_strides(a, HR_OPERAND_O),
                             .lse_at = {.batch = a->q_heads * a->q_len, .row = 1, .head = lse_head},
                             .q_len = (int32_t)a->q_len,
                             .kv_len = (int32_t)a->kv_len,
                             .q_heads = (int32_t)a->q_heads,
                             .k_group = (int32_t)(a->q_heads / a->k_heads),
                             .v_group = (int32_t)(a->q_heads / a->v_heads),
                             .qk_dim = (int32_t)a->qk_dim,
                             .v_dim = (int32_t)a->v_dim,
                             .causal = a->mask == HR_MASK_CAUSAL,
                             .window = (int32_t)hr_min64(a->window, a->kv_len), /* a larger one sees no more */
                             .row_tiles = (int32_t)hr_ceil_div(a->q_len, rows),
                             .heads = (int32_t)(a->q_heads * a->batch),
                             .items = (int32_t)(hr_ceil_div(a->q_len, rows) * a->q_heads * a->batch),
                             .band_heads = 1,
                             .scale = (float)hr_attention_scale(a),
                             .softcap = a->softcap};
}

void hr_cuda_attention_address(hr_cuda_attention *call, const hr_attention *a, const hr_attention_arguments *arguments)
{
  const hr_attention_arguments *x = arguments;
  call->q = (cu_address)(uintptr_t)x->q;
  call->k = (cu_address)(uintptr_t)x->k;
  call->v = (cu_address)(uintptr_t)x->v;
  call->o = (cu_address)(uintptr_t)x->o;
  call->lse = (cu_address)(uintptr_t)x->lse;
  call->slopes = a->alibi ? (cu_address)(uintptr_t)x->alibi_slopes : 0;
  call->q_offsets = a->variable_lengths ? (cu_address)(uintptr_t)x->q_offsets : 0;
  call->kv_offsets = a->variable_lengths ? (cu_address)(uintptr_t)x->kv_offsets : 0;
}

bool hr_cuda_attention_dims_fit(const hr_attention *a, char *why, size_t why_size)
{
  if (a->qk_dim <= HR_CUDA_ATTENTION_DIM_MOST && a->v_dim <= HR_CUDA_ATTENTION_DIM_MOST)
    return true;
  snprintf(why, why_size, "takes head sizes up to %d", HR_CUDA_ATTENTION_DIM_MOST);
  return false;
}

bool hr_cuda_attention_fits(const hr_attention *a, int64_t rows, char *why, size_t why_size)
{
  if (a->q_len > INT32_MAX / 2 || a->kv_len > INT32_MAX / 2 || a->q_heads > INT32_MAX) {
    snprintf(why, why_size, "takes lengths below 2^30 and heads below 2^31");
    return false;
  }
  hr_checked64 blocks = hr_times(hr_times(hr_checked(hr_ceil_div(a->q_len, rows)), a->q_heads), a->batch);
  if (blocks.overflow || blocks.value > INT32_MAX) {
    snprintf(why, why_size, "takes fewer than 2^31 tiles of %" PRId64 " rows", rows);
    return false;
  }
  return true;
}

hr_status hr_cuda_attention_function(const hr_cuda *cuda, const char *source, hr_dtype dtype, const char *defines,
                                     size_t shared_bytes, cu_function *function, hr_error *error)
{
  HR_TRY(hr_cuda_function(cuda, source, dtype, defines, "attention", function, error));
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status =
      HR_CU(&cuda->driver, cuFuncSetAttribute, (*function, CU_FUNCTION_SHARED_MOST, (int)shared_bytes), error);
  hr_cuda_leave(cuda);
  return status;
}

hr_status hr_cuda_attention_start(const hr_cuda *cuda, const hr_cuda_attention_launch *l, hr_error *error)
{
  hr_cuda_attention call = *l->call;
  void *parameters[] = {&call, l->maps};
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status =
      HR_CU(&cuda->driver, cuLaunchKernel,
            (l->function, l->blocks, 1, 1, l->threads, 1, 1, l->shared_bytes, cuda->stream, parameters, NULL), error);
  hr_cuda_leave(cuda);
  return status;
}

bool hr_cuda_attention_aligned(const hr_attention *a)
{
  int64_t step = ALIGNMENT_BYTES / (int64_t)hr_dtype_bytes(a->dtype);
  for (int operand = HR_OPERAND_Q; operand <= HR_OPERAND_O; operand++) {
    hr_strides s = hr_attention_strides(a, (hr_attention_operand)operand);
    if (s.batch % step || s.row % step || s.head % step)
      return false;
  }
  return a->qk_dim % step == 0 && a->v_dim % step == 0;
}

bool hr_cuda_attention_addresses_aligned(const hr_attention_arguments *x)
{
  uintptr_t all = (uintptr_t)x->q | (uintptr_t)x->k | (uintptr_t)x->v | (uintptr_t)x->o;
  return all % ALIGNMENT_BYTES == 0;
}

/* ---- a block for each row tile ---- */

hr_status hr_cuda_attention_shared_most(const hr_cuda *cuda, size_t *bytes, hr_error *error)
{
  int most = 0;
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetAttribute, (&most, CU_MAX_SHARED_OPTIN, cuda->device), error));
  *bytes = (size_t)most;
  return HR_OK;
}

/* Bytes of K and V for each query head, where heads share them evenly. */
static double head_bytes(const hr_attention *a)
{
  double elements = (double)a->kv_len * (double)(a->k_heads * a->qk_dim + a->v_heads * a->v_dim);
  return elements * (double)hr_dtype_bytes(a->dtype) / (double)a->q_heads;
}

int32_t hr_cuda_attention_band(const hr_attention *a, int64_t row_tiles, int64_t places, size_t cache_bytes)
{
  if (a->mask != HR_MASK_CAUSAL || row_tiles == 0)
    return 1;
  int64_t heads = a->q_heads * a->batch, held = (int64_t)((double)cache_bytes / 2 / fmax(head_bytes(a), 1));
  int64_t band = hr_max64(1, hr_min64(hr_min64(2 * places / row_tiles, held), heads));
  while (heads % band != 0)
    band--;
  return (int32_t)band;
}

static hr_status set_band(hr_cuda_attention_tiled *t, const hr_attention *a, size_t cache_bytes, hr_error *error)
{
  int multiprocessors = 0;
  HR_TRY(HR_CU(&t->cuda->driver, cuDeviceGetAttribute, (&multiprocessors, CU_MULTIPROCESSORS, t->cuda->device), error));
  int64_t places = (int64_t)t->cut.blocks * multiprocessors;
  t->call.band_heads = hr_cuda_attention_band(a, t->call.row_tiles, places, cache_bytes);
  return HR_OK;
}

/* With `cuda` and `cutter` set. */
static hr_status build(hr_cuda_attention_tiled *t, const hr_attention *a, bool aligned, hr_error *error)
{
  size_t shared_most = 0;
  HR_TRY(hr_cuda_attention_shared_most(t->cuda, &shared_most, error));
  t->cut = t->cutter(a, shared_most, aligned);
  t->call = hr_cuda_attention_describe(a, t->cut.rows);
  return hr_cuda_attention_function(t->cuda, t->cut.source, t->cut.dtype, t->cut.defines, t->cut.shared_bytes,
                                    &t->function, error);
}

static hr_status start(const hr_cuda_attention_tiled *t, const hr_attention *a, const hr_attention_arguments *arguments,
                       hr_error *error)
{
  hr_cuda_attention call = t->call;
  if (call.items == 0)
    return HR_OK;
  hr_cuda_attention_address(&call, a, arguments);
  hr_cuda_attention_launch started = {.function = t->function,
                                      .blocks = (unsigned)call.items,
                                      .threads = t->cut.threads,
                                      .shared_bytes = (unsigned)t->cut.shared_bytes,
                                      .call = &call};
  return hr_cuda_attention_start(t->cuda, &started, error);
}

hr_status hr_cuda_attention_prepare(hr_device *device, const hr_problem *problem, hr_cuda_attention_cutter *cutter,
                                    void *state, size_t *workspace_bytes, hr_error *error)
{
  *workspace_bytes = 0;
  hr_cuda_attention_tiled *t = state;
  t->cuda = device->state;
  t->cutter = cutter;
  HR_TRY(build(t, &problem->attention, hr_cuda_attention_aligned(&problem->attention), error));
  return t->cut.blocks > 0 ? set_band(t, &problem->attention, device->cache_bytes, error) : HR_OK;
}

hr_status hr_cuda_attention_run_unaligned(const hr_cuda *cuda, const hr_attention *attention,
                                          hr_cuda_attention_cutter *cutter, const hr_attention_arguments *arguments,
                                          hr_error *error)
{
  hr_cuda_attention_tiled t = {.cuda = cuda, .cutter = cutter};
  HR_TRY(build(&t, attention, false, error));
  return start(&t, attention, arguments, error);
}

hr_status hr_cuda_attention_run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace,
                                hr_error *error)
{
  (void)workspace;
  const hr_cuda_attention_tiled *t = plan->state;
  const hr_attention *a = &plan->problem.attention;
  if (t->cut.aligned && !hr_cuda_attention_addresses_aligned(arguments))
    return hr_cuda_attention_run_unaligned(t->cuda, a, t->cutter, arguments, error);
  return start(t, a, arguments, error);
}

void hr_cuda_attention_describe_cut(const void *state, char *text, size_t size)
{
  const hr_cuda_attention_tiled *t = state;
  snprintf(text, size, "%s%s", t->cut.text, t->cut.aligned ? "" : ", element by element");
}

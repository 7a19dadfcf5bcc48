/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/attention/attention.h"

#include "base/checked.h"
#include "base/error.h"
#include "shape/alignment.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define ALIGNMENT_BYTES 16

const char *hr_cuda_attention_output_define(const hr_attention *a)
{
  return a->output == HR_OUTPUT_BF16 ? " HR_OUT_bf16" : a->output == HR_OUTPUT_FP16 ? " HR_OUT_fp16" : "";
}

bool hr_cuda_attention_score_mod(const hr_attention *a)
{
  return a->softcap > 0 || a->alibi || a->scale < 0;
}

const char *hr_cuda_attention_score_defines(const hr_attention *a)
{
  static const char *const defines[2][2] = {{"", " HR_FIRST_KEYS"}, {" HR_SCORE_MOD", " HR_SCORE_MOD HR_FIRST_KEYS"}};
  return defines[hr_cuda_attention_score_mod(a)][a->first_keys];
}

hr_attention_call hr_cuda_attention_call(const hr_attention *a, int64_t q_rows)
{
  int64_t lse_head = a->variable_lengths ? a->q_total : a->q_len;
  return (hr_attention_call){.q_at = hr_attention_strides(a, HR_OPERAND_Q),
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
                             .window = (int32_t)hr_min64(a->window, a->kv_len), /* a larger window sees no more keys */
                             .q_tiles = (int32_t)hr_ceil_div(a->q_len, q_rows),
                             .heads = (int32_t)(a->q_heads * a->batch),
                             .work_items = (int32_t)(hr_ceil_div(a->q_len, q_rows) * a->q_heads * a->batch),
                             .band_heads = 1,
                             .scale = (float)hr_attention_scale(a),
                             .softcap = a->softcap,
                             .top = (float)hr_log2_of_share(a->kv_len)};
}

void hr_cuda_attention_set_addresses(hr_attention_call *call, const hr_attention *a,
                                     const hr_attention_arguments *arguments)
{
  const hr_attention_arguments *x = arguments;
  call->q = (cu_address)(uintptr_t)x->q;
  call->k = (cu_address)(uintptr_t)x->k;
  call->v = (cu_address)(uintptr_t)x->v;
  call->o = (cu_address)(uintptr_t)x->o;
  call->lse = (cu_address)(uintptr_t)x->lse;
  call->q_scales = a->head_scales ? (cu_address)(uintptr_t)x->q_scales : 0;
  call->k_scales = a->head_scales ? (cu_address)(uintptr_t)x->k_scales : 0;
  call->v_scales = a->head_scales ? (cu_address)(uintptr_t)x->v_scales : 0;
  call->slopes = a->alibi ? (cu_address)(uintptr_t)x->alibi_slopes : 0;
  call->first_keys = a->first_keys ? (cu_address)(uintptr_t)x->first_keys : 0;
  call->q_offsets = a->variable_lengths ? (cu_address)(uintptr_t)x->q_offsets : 0;
  call->kv_offsets = a->variable_lengths ? (cu_address)(uintptr_t)x->kv_offsets : 0;
}

bool hr_cuda_attention_dims_fit(const hr_attention *a, char *why, size_t why_size)
{
  if (a->qk_dim <= HR_CUDA_ATTENTION_DIM_MAX && a->v_dim <= HR_CUDA_ATTENTION_DIM_MAX)
    return true;
  snprintf(why, why_size, "takes head sizes up to %d", HR_CUDA_ATTENTION_DIM_MAX);
  return false;
}

bool hr_cuda_attention_fits(const hr_attention *a, int64_t q_rows, char *why, size_t why_size)
{
  if (a->q_len > INT32_MAX / 2 || a->kv_len > INT32_MAX / 2 || a->q_heads > INT32_MAX) {
    snprintf(why, why_size, "takes lengths below 2^30 and heads below 2^31");
    return false;
  }
  hr_checked64 blocks = hr_times(hr_times(hr_checked(hr_ceil_div(a->q_len, q_rows)), a->q_heads), a->batch);
  if (blocks.overflow || blocks.value > INT32_MAX) {
    snprintf(why, why_size, "takes fewer than 2^31 Q tiles of %" PRId64 " rows", q_rows);
    return false;
  }
  return true;
}

bool hr_cuda_attention_aligned(const hr_attention *a)
{
  if (hr_alignment(a->alignment) % ALIGNMENT_BYTES != 0)
    return false;
  int64_t step = ALIGNMENT_BYTES / (int64_t)hr_dtype_bytes(a->dtype);
  int64_t o_step = ALIGNMENT_BYTES / (int64_t)hr_dtype_bytes(hr_attention_output_dtype(a));
  for (int operand = HR_OPERAND_Q; operand <= HR_OPERAND_O; operand++) {
    hr_strides s = hr_attention_strides(a, (hr_attention_operand)operand);
    int64_t unit = operand == HR_OPERAND_O ? o_step : step;
    if (s.batch % unit || s.row % unit || s.head % unit)
      return false;
  }
  return a->qk_dim % step == 0 && a->v_dim % step == 0;
}

/* ---- plans with a thread block per Q tile ---- */

hr_status hr_cuda_attention_shared_max(const hr_cuda *cuda, size_t *bytes, hr_error *error)
{
  int64_t most = 0;
  HR_TRY(hr_cuda_attribute(cuda, CU_MAX_SHARED_OPTIN, &most, error));
  *bytes = (size_t)most;
  return HR_OK;
}

/* Bytes of K and V per query head. */
static double head_bytes(const hr_attention *a)
{
  double elements = (double)a->kv_len * (double)(a->k_heads * a->qk_dim + a->v_heads * a->v_dim);
  return elements * (double)hr_dtype_bytes(a->dtype) / (double)a->q_heads;
}

int32_t hr_cuda_attention_band(const hr_attention *a, int64_t q_tiles, int64_t slots, size_t cache_bytes)
{
  if (a->mask != HR_MASK_CAUSAL || q_tiles == 0)
    return 1;
  int64_t heads = a->q_heads * a->batch, held = (int64_t)((double)cache_bytes / 2 / fmax(head_bytes(a), 1));
  int64_t band = hr_max64(1, hr_min64(hr_min64(2 * slots / q_tiles, held), heads));
  while (heads % band != 0)
    band--;
  return (int32_t)band;
}

/* The call of the plan's problem, or of a smaller one. */
static hr_attention_call call_of(const hr_cuda_attention_plan *t, const hr_attention *a)
{
  hr_attention_call call = hr_cuda_attention_call(a, t->config.q_rows);
  if (t->slots > 0)
    call.band_heads = hr_cuda_attention_band(a, call.q_tiles, t->slots, t->cache_bytes);
  return call;
}

hr_status hr_cuda_attention_prepare(hr_device *device, const hr_problem *problem,
                                    hr_cuda_attention_configure *configure, void *state, size_t *workspace_bytes,
                                    hr_error *error)
{
  *workspace_bytes = 0;
  hr_cuda_attention_plan *t = state;
  const hr_attention *a = &problem->attention;
  size_t shared_max = 0;
  int64_t multiprocessors = 0;
  t->cuda = device->state;
  HR_TRY(hr_cuda_attention_shared_max(t->cuda, &shared_max, error));
  t->config = configure(a, shared_max, hr_cuda_attention_aligned(a));
  HR_TRY(hr_cuda_attribute(t->cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  t->slots = t->config.min_blocks * multiprocessors;
  t->cache_bytes = device->cache_bytes;
  t->call = call_of(t, a);
  return hr_cuda_function_shared(t->cuda, t->config.source, t->config.dtype, t->config.defines, "attention",
                                 t->config.shared_bytes, &t->function, error);
}

hr_status hr_cuda_attention_run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const hr_cuda_attention_plan *t = plan->state;
  const hr_attention *a = &run->problem->attention;
  hr_attention_call call = run->problem == &plan->problem ? t->call : call_of(t, a);
  if (call.work_items == 0)
    return HR_OK;
  hr_cuda_attention_set_addresses(&call, a, run->arguments);
  const hr_cuda_queue queue = {t->cuda, run->stream};
  const hr_cuda_kernel kernel = {.function = t->function,
                                 .blocks = call.work_items,
                                 .threads = t->config.threads,
                                 .shared_bytes = t->config.shared_bytes};
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_enter(t->cuda, error));
  hr_status status = hr_cuda_launch(&queue, &kernel, parameters, error);
  hr_cuda_leave(t->cuda);
  return status;
}

void hr_cuda_attention_describe_config(const void *state, char *text, size_t size)
{
  const hr_cuda_attention_plan *t = state;
  snprintf(text, size, "%s%s", t->config.text, t->config.aligned ? "" : ", element by element");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/attention/backward.h"

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>

static bool grid_fits(int64_t length, int64_t rows, int64_t heads, int64_t batch)
{
  hr_checked64 blocks = hr_times(hr_times(hr_checked(hr_ceil_div(length, rows)), heads), batch);
  return !blocks.overflow && blocks.value <= INT32_MAX;
}

bool hr_cuda_backward_fits(const hr_attention *a, int64_t rows, char *why, size_t why_size)
{
  if (!hr_cuda_attention_dims_fit(a, why, why_size) || !hr_cuda_attention_fits(a, rows, why, why_size))
    return false;
  if (grid_fits(a->kv_len, rows, hr_max64(a->k_heads, a->v_heads), a->batch))
    return true;
  snprintf(why, why_size, "takes fewer than 2^31 K/V tiles of %" PRId64 " rows", rows);
  return false;
}

static bool is_aligned(const hr_backward *b)
{
  const hr_attention gradients = hr_backward_gradients(b);
  return hr_cuda_attention_aligned(&b->forward) && hr_cuda_attention_aligned(&gradients);
}

/* tf32 operands are those of fp32. */
static hr_dtype dtype_of(const hr_problem *problem)
{
  return problem->dtype == HR_TF32 ? HR_FP32 : problem->dtype;
}

static hr_status find_functions(hr_cuda_backward_plan *t, const hr_problem *problem, hr_error *error)
{
  static const char *const names[HR_CUDA_GRADIENTS] = {"dq", "dk", "dv"};
  const char *scores = hr_cuda_attention_score_defines(&problem->backward.forward), *terms = "attention_backward_terms";
  const hr_dtype dtype = dtype_of(problem);
  HR_TRY(hr_cuda_function(t->cuda, terms, dtype, scores, "prepare", &t->prepare, error));
  HR_TRY(hr_cuda_function(t->cuda, terms, dtype, scores, "add_sinks", &t->add_sinks, error));
  for (int i = 0; i < HR_CUDA_GRADIENTS; i++)
    HR_TRY(hr_cuda_function_shared(t->cuda, t->config.source, dtype, t->config.defines, names[i],
                                   t->config.shared_bytes, &t->gradients[i], error));
  return HR_OK;
}

hr_status hr_cuda_backward_prepare(hr_device *device, const hr_problem *problem, hr_cuda_backward_configure *configure,
                                   void *state, size_t *workspace_bytes, hr_error *error)
{
  hr_cuda_backward_plan *t = state;
  const hr_backward *b = &problem->backward;
  size_t shared_max = 0;
  int64_t rows = 0;
  t->cuda = device->state;
  HR_TRY(hr_cuda_attention_shared_max(t->cuda, &shared_max, error));
  HR_TRY(hr_attention_lse_elements(&b->forward, &rows));
  *workspace_bytes = (size_t)rows * 2 * sizeof(float);
  t->config = configure(&b->forward, shared_max, is_aligned(b));
  return find_functions(t, problem, error);
}

/* ---- a run ---- */

static hr_backward_call call_of(const hr_backward *b, const hr_attention_backward_arguments *x, void *workspace)
{
  const hr_attention gradients = hr_backward_gradients(b);
  return (hr_backward_call){.d_o = hr_cuda_address(x->d_o),
                            .dq = hr_cuda_address(x->dq),
                            .dk = hr_cuda_address(x->dk),
                            .dv = hr_cuda_address(x->dv),
                            .row_terms = hr_cuda_address(workspace),
                            .sinks = hr_cuda_address(x->sinks),
                            .d_sinks = hr_cuda_address(x->d_sinks),
                            .do_at = hr_attention_strides(&gradients, HR_OPERAND_O),
                            .dq_at = hr_attention_strides(&gradients, HR_OPERAND_Q),
                            .dk_at = hr_attention_strides(&gradients, HR_OPERAND_K),
                            .dv_at = hr_attention_strides(&gradients, HR_OPERAND_V)};
}

typedef struct launch {
  cu_function function;
  int64_t blocks;
  unsigned threads;
  size_t shared_bytes;
} launch;

/* In order; launches without blocks are left out. */
static hr_status start(const hr_cuda_queue *queue, const launch *launches, size_t count, hr_attention_call *call,
                       hr_backward_call *backward, hr_error *error)
{
  void *parameters[] = {call, backward};
  for (size_t i = 0; i < count; i++) {
    const launch *l = &launches[i];
    const hr_cuda_kernel kernel = {
        .function = l->function, .blocks = l->blocks, .threads = l->threads, .shared_bytes = l->shared_bytes};
    if (l->blocks > 0)
      HR_TRY(hr_cuda_launch(queue, &kernel, parameters, error));
  }
  return HR_OK;
}

hr_status hr_cuda_backward_run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const hr_cuda_backward_plan *t = plan->state;
  const hr_backward *b = &run->problem->backward;
  const hr_attention *a = &b->forward;
  const hr_cuda_backward_config *c = &t->config;
  const hr_attention_arguments operands = hr_backward_operands(run->arguments);
  hr_attention_call call = hr_cuda_attention_call(a, c->rows);
  hr_backward_call backward = call_of(b, run->arguments, run->workspace);
  int64_t q_heads = a->q_heads * a->batch, kv_tiles = hr_ceil_div(a->kv_len, c->rows) * a->batch;
  const launch launches[] = {
      {t->prepare, hr_ceil_div(a->q_len, HR_BACKWARD_TERMS_ROWS) * q_heads, HR_BACKWARD_TERMS_THREADS, 0},
      {t->gradients[0], call.work_items, c->threads, c->shared_bytes},
      {t->gradients[1], kv_tiles * a->k_heads, c->threads, c->shared_bytes},
      {t->gradients[2], kv_tiles * a->v_heads, c->threads, c->shared_bytes},
      {t->add_sinks, b->options.sinks ? a->q_heads : 0, HR_BACKWARD_TERMS_THREADS, 0}};
  const hr_cuda_queue queue = {t->cuda, run->stream};
  hr_cuda_attention_set_addresses(&call, a, &operands);
  HR_TRY(hr_cuda_enter(t->cuda, error));
  hr_status status = start(&queue, launches, sizeof launches / sizeof *launches, &call, &backward, error);
  hr_cuda_leave(t->cuda);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with all scores in memory: S = Q Kᵀ and O = P V are batched GEMMs of cuBLASLt, with a softmax between them
 * (kernels/attention_materialized.cu). It holds q × kv fp32 scores for every head at once, and so shows where memory
 * runs out. */
#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "runtime/cuda/attention/scores.h"

#include <inttypes.h>
#include <stdio.h>

#define THREADS 256

typedef struct materialized {
  hr_cuda_scores s;
  int64_t v;                      /* row length of packed V and O */
  size_t at_v, o, gemm_workspace; /* offsets in the workspace, after those of `s` */
  hr_batched pv;
  cu_function unpack, softmax;
} materialized;

/* Query heads that share a V head are adjacent, so that their rows are rows of one GEMM. */
static void describe_pv(materialized *m)
{
  const hr_attention *a = &m->s.a;
  int64_t group = a->q_heads / a->v_heads;
  int64_t p_row = m->s.pitch * (int64_t)(sizeof(float) / hr_dtype_bytes(a->dtype)); /* elements between rows of P */
  m->pv = (hr_batched){.m = a->q_len * group,
                       .n = m->v,
                       .k = a->kv_len,
                       .batch = a->v_heads * a->batch,
                       .dtype = a->dtype,
                       .result = a->dtype,
                       .lda = p_row,
                       .ldb = m->v,
                       .ldc = m->v,
                       .a_stride = a->q_len * group * p_row,
                       .b_stride = a->kv_len * m->v,
                       .c_stride = a->q_len * group * m->v};
}

static void release(void *state)
{
  materialized *m = state;
  if (hr_cuda_enter(m->s.cuda, NULL) == HR_OK) {
    hr_batched_free(m->s.cuda, &m->pv);
    hr_cuda_leave(m->s.cuda);
  }
  hr_cuda_scores_free(&m->s);
}

static hr_status find_functions(materialized *m, hr_error *error)
{
  const hr_cuda_scores *s = &m->s;
  const char *source = "attention_materialized", *defines = hr_cuda_attention_score_defines(&s->a);
  hr_dtype dtype = s->a.dtype == HR_TF32 ? HR_FP32 : s->a.dtype;
  HR_TRY(hr_cuda_function(s->cuda, source, dtype, defines, "unpack", &m->unpack, error));
  return hr_cuda_function(s->cuda, source, dtype, defines, "softmax", &m->softmax, error);
}

static hr_status prepare_parts(materialized *m, size_t *workspace_bytes, hr_error *error)
{
  const hr_attention *a = &m->s.a;
  size_t element = hr_dtype_bytes(a->dtype);
  HR_TRY(hr_cuda_scores_prepare(&m->s, error));
  HR_TRY(find_functions(m, error));
  describe_pv(m);
  HR_TRY(hr_cuda_enter(m->s.cuda, error));
  hr_status status = hr_batched_prepare(m->s.cuda, &m->pv, error);
  hr_cuda_leave(m->s.cuda);
  HR_TRY(status);
  m->at_v = m->s.end;
  m->o = m->at_v + hr_cuda_scores_round(a->v_heads * a->batch * a->kv_len * m->v, element);
  m->gemm_workspace = m->o + hr_cuda_scores_round(m->s.heads * a->q_len * m->v, element);
  size_t first = m->s.gemm.chosen.workspace_bytes, second = m->pv.chosen.workspace_bytes;
  *workspace_bytes = m->gemm_workspace + (first > second ? first : second) + HR_CUDA_SCORES_ALIGNMENT;
  return HR_OK;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  materialized *m = state;
  m->s = hr_cuda_scores_describe(device->state, &problem->attention);
  m->v = hr_round_up(problem->attention.v_dim, HR_CUDA_SCORES_PADDING);
  return prepare_parts(m, workspace_bytes, error);
}

static hr_status store_out(const materialized *m, const hr_cuda_queue *queue, const hr_attention_call *call,
                           cu_address base, hr_error *error)
{
  const hr_attention *a = &m->s.a;
  hr_attention_call stored = *call;
  cu_address from = base + m->o;
  int64_t heads = m->s.heads;
  int width = (int)m->v;
  void *parameters[] = {&stored, &from, &heads, &width};
  const hr_cuda_kernel kernel = {
      .function = m->unpack, .blocks = hr_cuda_scores_copy_blocks(heads * a->q_len * a->v_dim), .threads = THREADS};
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

static hr_status run_steps(const materialized *m, const hr_run *run, hr_error *error)
{
  const hr_attention_arguments *arguments = run->arguments;
  const hr_cuda_queue queue = {m->s.cuda, run->stream};
  const cu_address base = hr_cuda_scores_base(run->workspace);
  const hr_cuda_scores *s = &m->s;
  const hr_attention *a = &s->a;
  hr_attention_call call = s->call;
  cu_address scores = base + s->scores, gemm_workspace = base + m->gemm_workspace;
  hr_score_matrix matrix = {s->rows, s->pitch};
  void *parameters[] = {&call, &scores, &matrix};
  hr_cuda_attention_set_addresses(&call, a, arguments);
  HR_TRY(hr_cuda_scores_pack_qk(s, &queue, arguments, base, error));
  HR_TRY(hr_cuda_scores_pack(s, &queue, arguments->v, call.v_at, a->v_heads, a->kv_len, a->v_dim, m->v, base + m->at_v,
                             error));
  HR_TRY(hr_cuda_scores_gemm(s, &queue, base, 0, 0, gemm_workspace, error));
  const hr_cuda_kernel softmax = {.function = m->softmax, .blocks = s->heads * s->rows, .threads = THREADS};
  HR_TRY(hr_cuda_launch(&queue, &softmax, parameters, error));
  HR_TRY(hr_batched_run(&queue, &m->pv, scores, base + m->at_v, base + m->o, gemm_workspace, error));
  return store_out(m, &queue, &call, base, error);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const materialized *m = plan->state;
  HR_TRY(hr_cuda_enter(m->s.cuda, error));
  hr_status status = run_steps(m, run, error);
  hr_cuda_leave(m->s.cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_cuda_scores *s = &((const materialized *)state)->s;
  hr_write_text(text, size, "scores of %" PRId64 " heads × %" PRId64 " rows at once, %.0f MB", s->heads, s->rows,
                (double)s->heads * (double)s->rows * (double)s->pitch * 4e-6);
}

const hr_kernel_functions hr_kernel_attention_materialized_cublaslt = {.state_bytes = sizeof(materialized),
                                                                       .supports = hr_cuda_scores_supports,
                                                                       .prepare = prepare,
                                                                       .run = run,
                                                                       .whole = true,
                                                                       .release = release,
                                                                       .describe = describe};

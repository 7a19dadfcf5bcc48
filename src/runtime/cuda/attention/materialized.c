/* Attention with its scores in memory: S = Q Kᵀ and O = P V are batched products of cuBLASLt, between them a softmax
 * (kernels/attention_materialized.cu). The scores of all heads are there at once, q × kv in fp32 for each, and it stops
 * where memory does: that is what it is for. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention/scores.h"

#include <inttypes.h>
#include <stdio.h>

#define THREADS 256

typedef struct materialized {
  hr_cuda_scores s;
  int64_t v;                /* width of packed V and O */
  size_t at_v, o, products; /* further parts of the workspace */
  hr_batched value;
  cu_function unpack, weigh;
} materialized;

/* As score_block of the program. */
typedef struct score_block {
  int64_t rows, pitch;
} score_block;

/* Query heads that share a V head lie one after the other, so that their rows are rows of one product. */
static void describe_product(materialized *m)
{
  const hr_attention *a = &m->s.a;
  int64_t group = a->q_heads / a->v_heads;
  int64_t weights = m->s.pitch * (int64_t)(sizeof(float) / hr_dtype_bytes(a->dtype)); /* between rows of them */
  m->value = (hr_batched){.m = a->q_len * group,
                          .n = m->v,
                          .k = a->kv_len,
                          .batch = a->v_heads * a->batch,
                          .dtype = a->dtype,
                          .result = a->dtype,
                          .lda = weights,
                          .ldb = m->v,
                          .ldc = m->v,
                          .a_stride = a->q_len * group * weights,
                          .b_stride = a->kv_len * m->v,
                          .c_stride = a->q_len * group * m->v};
}

static void release(void *state)
{
  materialized *m = state;
  if (hr_cuda_enter(m->s.cuda, NULL) == HR_OK) {
    hr_batched_free(m->s.cuda, &m->value);
    hr_cuda_leave(m->s.cuda);
  }
  hr_cuda_scores_free(&m->s);
}

static hr_status find_functions(materialized *m, hr_error *error)
{
  const hr_cuda_scores *s = &m->s;
  const char *source = "attention_materialized", *defines = hr_cuda_attention_modified(&s->a) ? "HR_MODIFIED" : NULL;
  hr_dtype dtype = s->a.dtype == HR_TF32 ? HR_FP32 : s->a.dtype;
  HR_TRY(hr_cuda_function(s->cuda, source, dtype, defines, "unpack", &m->unpack, error));
  return hr_cuda_function(s->cuda, source, dtype, defines, "weigh", &m->weigh, error);
}

static hr_status prepare_parts(materialized *m, size_t *workspace_bytes, hr_error *error)
{
  const hr_attention *a = &m->s.a;
  size_t element = hr_dtype_bytes(a->dtype);
  HR_TRY(hr_cuda_scores_prepare(&m->s, error));
  HR_TRY(find_functions(m, error));
  describe_product(m);
  HR_TRY(hr_cuda_enter(m->s.cuda, error));
  hr_status status = hr_batched_prepare(m->s.cuda, &m->value, error);
  hr_cuda_leave(m->s.cuda);
  HR_TRY(status);
  m->at_v = m->s.end;
  m->o = m->at_v + hr_cuda_scores_round(a->v_heads * a->batch * a->kv_len * m->v, element);
  m->products = m->o + hr_cuda_scores_round(m->s.heads * a->q_len * m->v, element);
  size_t first = m->s.product.chosen.workspace_bytes, second = m->value.chosen.workspace_bytes;
  *workspace_bytes = m->products + (first > second ? first : second) + HR_CUDA_SCORES_ALIGNMENT;
  return HR_OK;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  materialized *m = state;
  m->s = hr_cuda_scores_describe(device->state, &problem->attention);
  m->v = hr_round_up(problem->attention.v_dim, HR_CUDA_SCORES_STEP);
  return prepare_parts(m, workspace_bytes, error);
}

static hr_status store_out(const materialized *m, const hr_cuda_attention *call, cu_address base, hr_error *error)
{
  const hr_attention *a = &m->s.a;
  hr_cuda_attention stored = *call;
  cu_address from = base + m->o;
  int64_t heads = m->s.heads;
  int width = (int)m->v;
  void *parameters[] = {&stored, &from, &heads, &width};
  return hr_cuda_scores_launch(m->s.cuda, m->unpack, hr_cuda_scores_copy_blocks(heads * a->q_len * a->v_dim), THREADS,
                               parameters, error);
}

static hr_status run_steps(const materialized *m, const hr_attention_arguments *arguments, cu_address base,
                           hr_error *error)
{
  const hr_cuda_scores *s = &m->s;
  const hr_attention *a = &s->a;
  hr_cuda_attention call = s->call;
  cu_address scores = base + s->scores, products = base + m->products;
  score_block block = {s->rows, s->pitch};
  void *weighing[] = {&call, &scores, &block};
  hr_cuda_attention_address(&call, a, arguments);
  HR_TRY(hr_cuda_scores_begin(s, arguments, base, error));
  HR_TRY(hr_cuda_scores_pack(s, arguments->v, call.v_at, a->v_heads, a->kv_len, a->v_dim, m->v, base + m->at_v, error));
  HR_TRY(hr_cuda_scores_multiply(s, base, 0, 0, products, error));
  HR_TRY(hr_cuda_scores_launch(s->cuda, m->weigh, s->heads * s->rows, THREADS, weighing, error));
  HR_TRY(hr_batched_run(s->cuda, &m->value, scores, base + m->at_v, base + m->o, products, error));
  return store_out(m, &call, base, error);
}

static hr_status run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace, hr_error *error)
{
  const materialized *m = plan->state;
  HR_TRY(hr_cuda_enter(m->s.cuda, error));
  hr_status status = run_steps(m, arguments, hr_cuda_scores_base(workspace), error);
  hr_cuda_leave(m->s.cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_cuda_scores *s = &((const materialized *)state)->s;
  snprintf(text, size, "scores of %" PRId64 " heads × %" PRId64 " rows at once, %.0f MB", s->heads, s->rows,
           (double)s->heads * (double)s->rows * (double)s->pitch * 4e-6);
}

const hr_kernel_functions hr_kernel_attention_materialized_cublaslt = {.state_bytes = sizeof(materialized),
                                                                       .supports = hr_cuda_scores_supports,
                                                                       .prepare = prepare,
                                                                       .run_attention = run,
                                                                       .release = release,
                                                                       .describe = describe};

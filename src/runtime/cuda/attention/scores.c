/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/attention/scores.h"

#include "base/checked.h"
#include "base/error.h"

#include <stdio.h>

#define COPY_THREADS 256
#define COPY_BLOCKS 16384
#define BATCH_MAX 65535

bool hr_cuda_scores_supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *a = &problem->attention;
  const char *reason = NULL;
  if (a->variable_lengths)
    reason = "takes one length for all sequences: its GEMMs are prepared for their sizes";
  else if (a->q_len == 0 || a->kv_len == 0)
    reason = "takes lengths above 0";
  else if (a->q_heads * a->batch > BATCH_MAX)
    reason = "takes up to 65535 heads of all sequences";
  if (!reason)
    return hr_cuda_attention_fits(a, 1, why, why_size);
  snprintf(why, why_size, "%s", reason);
  return false;
}

hr_cuda_scores hr_cuda_scores_describe(const hr_cuda *cuda, const hr_attention *a)
{
  return (hr_cuda_scores){.cuda = cuda,
                          .a = *a,
                          .call = hr_cuda_attention_call(a, 1),
                          .heads = a->q_heads * a->batch,
                          .rows = a->q_len,
                          .qk = hr_round_up(a->qk_dim, HR_CUDA_SCORES_PADDING),
                          .pitch = hr_round_up(a->kv_len, HR_CUDA_SCORES_PADDING)};
}

int64_t hr_cuda_scores_heads(const hr_attention *a, int64_t heads)
{
  int64_t group = a->q_heads / a->k_heads;
  if (heads >= group)
    return heads / group * group;
  while (group % heads != 0)
    heads--;
  return heads;
}

size_t hr_cuda_scores_round(int64_t elements, size_t element_bytes)
{
  return ((size_t)elements * element_bytes + HR_CUDA_SCORES_ALIGNMENT - 1) / HR_CUDA_SCORES_ALIGNMENT *
         HR_CUDA_SCORES_ALIGNMENT;
}

cu_address hr_cuda_scores_base(const void *workspace)
{
  return ((cu_address)(uintptr_t)workspace + HR_CUDA_SCORES_ALIGNMENT - 1) / HR_CUDA_SCORES_ALIGNMENT *
         HR_CUDA_SCORES_ALIGNMENT;
}

/* Query heads that share a K head are adjacent, so that their rows are rows of one GEMM. */
static void describe_gemm(hr_cuda_scores *s)
{
  const hr_attention *a = &s->a;
  int64_t together = s->rows < a->q_len ? 1 : hr_min64(s->heads, a->q_heads / a->k_heads);
  s->gemm = (hr_batched){.m = s->rows * together,
                         .n = a->kv_len,
                         .k = s->qk,
                         .batch = s->heads / together,
                         .b_transposed = true,
                         .dtype = a->dtype,
                         .result = HR_FP32,
                         .lda = s->qk,
                         .ldb = s->qk,
                         .ldc = s->pitch,
                         .a_stride = s->rows * together * s->qk,
                         .b_stride = a->kv_len * s->qk,
                         .c_stride = s->rows * together * s->pitch};
}

hr_status hr_cuda_scores_prepare(hr_cuda_scores *s, hr_error *error)
{
  const hr_attention *a = &s->a;
  size_t element = hr_dtype_bytes(a->dtype);
  const char *defines = hr_cuda_attention_score_defines(a);
  s->q = 0;
  s->k = s->q + hr_cuda_scores_round(a->q_heads * a->batch * a->q_len * s->qk, element);
  s->scores = s->k + hr_cuda_scores_round(a->k_heads * a->batch * a->kv_len * s->qk, element);
  s->end = s->scores + hr_cuda_scores_round(s->heads * s->rows * s->pitch, sizeof(float));
  describe_gemm(s);
  HR_TRY(hr_cuda_function(s->cuda, "attention_materialized", a->dtype == HR_TF32 ? HR_FP32 : a->dtype, defines, "pack",
                          &s->pack, error));
  HR_TRY(hr_cuda_enter(s->cuda, error));
  hr_status status = hr_batched_prepare(s->cuda, &s->gemm, error);
  hr_cuda_leave(s->cuda);
  return status;
}

void hr_cuda_scores_free(hr_cuda_scores *s)
{
  if (hr_cuda_enter(s->cuda, NULL) != HR_OK)
    return;
  hr_batched_free(s->cuda, &s->gemm);
  hr_cuda_leave(s->cuda);
}

int64_t hr_cuda_scores_copy_blocks(int64_t elements)
{
  return hr_min64(hr_ceil_div(elements, COPY_THREADS * HR_CUDA_SCORES_PADDING / 4), COPY_BLOCKS);
}

hr_status hr_cuda_scores_pack(const hr_cuda_scores *s, const hr_cuda_queue *queue, const void *from, hr_strides at,
                              int64_t heads, int64_t length, int64_t dim, int64_t width, cu_address to, hr_error *error)
{
  cu_address source = (cu_address)(uintptr_t)from;
  int64_t all = heads * s->a.batch;
  int each = (int)heads, columns = (int)dim, padded = (int)width;
  void *parameters[] = {&source, &at, &to, &all, &each, &length, &columns, &padded};
  const hr_cuda_kernel kernel = {
      .function = s->pack, .blocks = hr_cuda_scores_copy_blocks(all * length * width), .threads = COPY_THREADS};
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

hr_status hr_cuda_scores_pack_qk(const hr_cuda_scores *s, const hr_cuda_queue *queue, const hr_attention_arguments *x,
                                 cu_address base, hr_error *error)
{
  const hr_attention *a = &s->a;
  HR_TRY(hr_cuda_scores_pack(s, queue, x->q, s->call.q_at, a->q_heads, a->q_len, a->qk_dim, s->qk, base + s->q, error));
  return hr_cuda_scores_pack(s, queue, x->k, s->call.k_at, a->k_heads, a->kv_len, a->qk_dim, s->qk, base + s->k, error);
}

hr_status hr_cuda_scores_gemm(const hr_cuda_scores *s, const hr_cuda_queue *queue, cu_address base, int64_t head,
                              int64_t row, cu_address gemm_workspace, hr_error *error)
{
  const hr_attention *a = &s->a;
  size_t element = hr_dtype_bytes(a->dtype);
  int64_t k_head = head / (a->q_heads / a->k_heads);
  cu_address q = base + s->q + (size_t)((head * a->q_len + row) * s->qk) * element;
  cu_address k = base + s->k + (size_t)(k_head * a->kv_len * s->qk) * element;
  return hr_batched_run(queue, &s->gemm, q, k, base + s->scores, gemm_workspace, error);
}

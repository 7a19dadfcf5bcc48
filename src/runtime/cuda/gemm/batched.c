/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/gemm/batched.h"

#include "base/error.h"

#include <inttypes.h>

#define WORKSPACE_BYTES ((size_t)32 << 20)

static int type_of(hr_dtype dtype)
{
  return dtype == HR_FP16 ? LT_R_16F : dtype == HR_BF16 ? LT_R_16BF : LT_R_32F;
}

static hr_status make_layout(const hr_cublaslt *lt, hr_dtype dtype, int64_t rows, int64_t columns, int64_t ld,
                             int64_t batch, int64_t stride, lt_layout *layout, hr_error *error)
{
  int32_t count = (int32_t)batch;
  HR_TRY(HR_LT(lt, cublasLtMatrixLayoutCreate, (layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, ld), error));
  HR_TRY(HR_LT(lt, cublasLtMatrixLayoutSetAttribute, (*layout, LT_LAYOUT_BATCH_COUNT, &count, sizeof count), error));
  return HR_LT(lt, cublasLtMatrixLayoutSetAttribute, (*layout, LT_LAYOUT_BATCH_STRIDE, &stride, sizeof stride), error);
}

/* Row-major C = A B is computed as column-major Cᵀ = Bᵀ Aᵀ, as in gemm.c. */
static hr_status describe(const hr_cublaslt *lt, hr_batched *p, hr_error *error)
{
  int compute = p->dtype == HR_TF32 ? LT_COMPUTE_32F_FAST_TF32 : LT_COMPUTE_32F;
  int32_t operation = p->b_transposed ? LT_OP_T : LT_OP_N;
  HR_TRY(HR_LT(lt, cublasLtMatmulDescCreate, (&p->description, compute, LT_R_32F), error));
  HR_TRY(HR_LT(lt, cublasLtMatmulDescSetAttribute,
               (p->description, LT_DESCRIPTION_TRANSA, &operation, sizeof operation), error));
  HR_TRY(make_layout(lt, p->dtype, p->b_transposed ? p->n : p->k, p->b_transposed ? p->k : p->n, p->ldb, p->batch,
                     p->b_stride, &p->first, error));
  HR_TRY(make_layout(lt, p->dtype, p->m, p->k, p->lda, p->batch, p->a_stride, &p->second, error));
  return make_layout(lt, p->result, p->m, p->n, p->ldc, p->batch, p->c_stride, &p->third, error);
}

/* Split-K partial sums must not be rounded to 16 bits. */
static hr_status choose(const hr_cuda *cuda, hr_batched *p, hr_error *error)
{
  const hr_cublaslt *lt = &cuda->cublaslt;
  lt_preference preference = NULL;
  size_t workspace = WORKSPACE_BYTES;
  uint32_t alignment = HR_BATCHED_ALIGNMENT;
  uint32_t reductions = LT_REDUCTION_IN_PLACE | LT_REDUCTION_COMPUTE_TYPE;
  int found = 0;
  hr_error reason = {.message = "none found"};
  HR_TRY(HR_LT(lt, cublasLtMatmulPreferenceCreate, (&preference), error));
  hr_status status = HR_LT(lt, cublasLtMatmulPreferenceSetAttribute,
                           (preference, LT_PREFERENCE_WORKSPACE_BYTES, &workspace, sizeof workspace), &reason);
  if (status == HR_OK)
    status = HR_LT(lt, cublasLtMatmulPreferenceSetAttribute,
                   (preference, LT_PREFERENCE_REDUCTIONS, &reductions, sizeof reductions), &reason);
  for (int i = 0; i < 4 && status == HR_OK; i++)
    status = HR_LT(lt, cublasLtMatmulPreferenceSetAttribute,
                   (preference, LT_PREFERENCE_ALIGNMENT_A + i, &alignment, sizeof alignment), &reason);
  if (status == HR_OK)
    status =
        HR_LT(lt, cublasLtMatmulAlgoGetHeuristic,
              (cuda->lt, p->description, p->first, p->second, p->third, p->third, preference, 1, &p->chosen, &found),
              &reason);
  lt->cublasLtMatmulPreferenceDestroy(preference);
  if (status == HR_OK && found == 1)
    return HR_OK;
  return hr_fail(error, HR_ERROR_UNSUPPORTED,
                 "cuBLASLt has no algorithm for a batched GEMM of %" PRId64 " %s %" PRId64 " × %" PRId64 " × %" PRId64
                 " (%s)",
                 p->batch, hr_dtype_name(p->dtype), p->m, p->n, p->k, reason.message);
}

hr_status hr_batched_prepare(const hr_cuda *cuda, hr_batched *batched, hr_error *error)
{
  HR_TRY(describe(&cuda->cublaslt, batched, error));
  return choose(cuda, batched, error);
}

void hr_batched_free(const hr_cuda *cuda, hr_batched *batched)
{
  const hr_cublaslt *lt = &cuda->cublaslt;
  lt_layout layouts[] = {batched->first, batched->second, batched->third};
  for (int i = 0; i < 3; i++) {
    if (layouts[i])
      lt->cublasLtMatrixLayoutDestroy(layouts[i]);
  }
  if (batched->description)
    lt->cublasLtMatmulDescDestroy(batched->description);
}

hr_status hr_batched_run(const hr_cuda_queue *queue, const hr_batched *batched, cu_address a, cu_address b,
                         cu_address c, cu_address workspace, hr_error *error)
{
  const float one = 1, zero = 0;
  void *first = (void *)(uintptr_t)b, *second = (void *)(uintptr_t)a, *result = (void *)(uintptr_t)c;
  return HR_LT(&queue->cuda->cublaslt, cublasLtMatmul,
               (queue->cuda->lt, batched->description, &one, first, batched->first, second, batched->second, &zero,
                result, batched->third, result, batched->third, &batched->chosen.algorithm,
                (void *)(uintptr_t)workspace, batched->chosen.workspace_bytes, queue->stream),
               error);
}

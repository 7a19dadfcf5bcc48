/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/gemm/fp8.h"

#include "base/error.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/module.h"

#include <stdlib.h>

#define THREADS 256
#define PACK 16
#define BLOCKS_MAX 65535
#define FIRST_CAPABILITY 89
#define SCALING_CAPABILITY 90 /* of cuBLASLt's scales of rows and blocks */
#define WORKSPACE_BYTES ((size_t)32 << 20)
#define DESCRIPTION_BYTES 512 /* cublasLtMatmulDescOpaque_t has 256 in CUDA 12 and 13 */

bool hr_cuda_keeps_fp8(const hr_device *device)
{
  return ((const hr_cuda *)device->state)->capability >= FIRST_CAPABILITY;
}

static int log2_of(int64_t power)
{
  int log2 = 0;
  while (power >> log2 > 1)
    log2++;
  return log2;
}

/* Queues a program of kernels/fp8.cu. */
static hr_status launch(const hr_cuda_queue *queue, hr_dtype dtype, const char *entry, hr_cuda_kernel *kernel,
                        void **parameters, hr_error *error)
{
  kernel->early = queue->cuda->capability >= 90;
  HR_TRY(hr_cuda_function(queue->cuda, "fp8", dtype, NULL, entry, &kernel->function, error));
  HR_TRY(hr_cuda_enter(queue->cuda, error));
  hr_status status = hr_cuda_launch(queue, kernel, parameters, error);
  hr_cuda_leave(queue->cuda);
  return status;
}

hr_status hr_cuda_widen_fp8(hr_device *device, const hr_fp8_arguments *x, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  cu_address w = hr_cuda_address(x->w), scales = hr_cuda_address(x->w_scales), y = hr_cuda_address(x->y);
  int64_t count = x->rows * x->columns, columns = x->columns, scale_row = x->scales.stride;
  int rows_log2 = log2_of(x->scales.rows), blocks = x->scales.blocks;
  void *parameters[] = {&w, &scales, &y, &count, &columns, &scale_row, &rows_log2, &blocks};
  hr_cuda_kernel kernel = {.blocks = hr_min64(hr_ceil_div(count, THREADS * PACK), BLOCKS_MAX), .threads = THREADS};
  return launch(&queue, x->dtype, "widen_fp8", &kernel, parameters, error);
}

hr_status hr_cuda_quantize_fp8(hr_device *device, const hr_fp8_arguments *a, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  cu_address x = hr_cuda_address(a->x), narrow = hr_cuda_address(a->narrow), scales = hr_cuda_address(a->x_scales);
  int64_t x_row = a->x_row, columns = a->columns;
  int tokens = (int)a->tokens, padded = (int)a->padded, blocks = a->scales.blocks;
  void *parameters[] = {&x, &x_row, &narrow, &scales, &columns, &tokens, &padded, &blocks};
  hr_cuda_kernel kernel = {.blocks = a->padded, .threads = THREADS};
  return launch(&queue, a->dtype, "narrow_fp8", &kernel, parameters, error);
}

/* ---- products ---- */

/* cuBLASLt is column-major and computes yᵀ = W xᵀ: its A is our W. */
typedef struct fp8_plan {
  hr_fp8_gemm gemm;
  lt_layout weights, rows, result;
  lt_heuristic chosen;
} fp8_plan;

static int type_of(hr_dtype dtype)
{
  return dtype == HR_FP16 ? LT_R_16F : LT_R_16BF;
}

static hr_status set(const hr_cublaslt *lt, lt_description to, int attribute, const void *value, size_t bytes,
                     hr_error *error)
{
  return HR_LT(lt, cublasLtMatmulDescSetAttribute, (to, attribute, value, bytes), error);
}

/* The addresses of scales are a part of it. */
static hr_status describe(const hr_cublaslt *lt, const hr_fp8_gemm *g, const void *w_scales, const void *x_scales,
                          lt_description to, hr_error *error)
{
  const int32_t transposed = LT_OP_T, plain = LT_OP_N,
                of_w = g->scales.blocks ? LT_SCALE_BLOCK_128 : LT_SCALE_OUTER_VECTOR,
                of_x = g->scales.blocks ? LT_SCALE_VECTOR_128 : LT_SCALE_OUTER_VECTOR;
  HR_TRY(HR_LT(lt, cublasLtMatmulDescInit_internal, (to, DESCRIPTION_BYTES, LT_COMPUTE_32F, LT_R_32F), error));
  HR_TRY(set(lt, to, LT_DESCRIPTION_TRANSA, &transposed, sizeof transposed, error));
  HR_TRY(set(lt, to, LT_DESCRIPTION_TRANSB, &plain, sizeof plain, error));
  HR_TRY(set(lt, to, LT_DESCRIPTION_SCALE_MODE_A, &of_w, sizeof of_w, error));
  HR_TRY(set(lt, to, LT_DESCRIPTION_SCALE_MODE_B, &of_x, sizeof of_x, error));
  HR_TRY(set(lt, to, LT_DESCRIPTION_SCALE_A, &w_scales, sizeof w_scales, error));
  return set(lt, to, LT_DESCRIPTION_SCALE_B, &x_scales, sizeof x_scales, error);
}

static hr_status find(const hr_cuda *cuda, fp8_plan *p, lt_preference preference, hr_error *error)
{
  const hr_cublaslt *lt = &cuda->cublaslt;
  const hr_fp8_gemm *g = &p->gemm;
  const size_t workspace = WORKSPACE_BYTES;
  _Alignas(16) char held[DESCRIPTION_BYTES];
  lt_description description = (lt_description)(void *)held;
  int found = 0;
  HR_TRY(HR_LT(lt, cublasLtMatmulPreferenceSetAttribute,
               (preference, LT_PREFERENCE_WORKSPACE_BYTES, &workspace, sizeof workspace), error));
  HR_TRY(describe(lt, g, g->w_scales, g->w_scales, description, error));
  HR_TRY(
      HR_LT(lt, cublasLtMatrixLayoutCreate, (&p->weights, LT_R_8F_E4M3, (uint64_t)g->k, (uint64_t)g->n, g->k), error));
  HR_TRY(HR_LT(lt, cublasLtMatrixLayoutCreate, (&p->rows, LT_R_8F_E4M3, (uint64_t)g->k, (uint64_t)g->m, g->k), error));
  HR_TRY(HR_LT(lt, cublasLtMatrixLayoutCreate, (&p->result, type_of(g->dtype), (uint64_t)g->n, (uint64_t)g->m, g->n),
               error));
  HR_TRY(HR_LT(lt, cublasLtMatmulAlgoGetHeuristic,
               (cuda->lt, description, p->weights, p->rows, p->result, p->result, preference, 1, &p->chosen, &found),
               error));
  return found > 0 ? HR_OK : hr_fail(error, HR_ERROR_UNSUPPORTED, "cuBLASLt has no algorithm for these sizes in fp8");
}

/* Blocks of W are cuBLASLt's own where they have 128 rows. */
static bool may_multiply(const hr_cuda *cuda, const hr_fp8_gemm *g)
{
  return cuda->capability == SCALING_CAPABILITY && g->n % 16 == 0 && (!g->scales.blocks || g->scales.rows == 128);
}

hr_status hr_cuda_plan_fp8(hr_device *device, const hr_fp8_gemm *gemm, void **plan, size_t *workspace_bytes,
                           hr_error *error)
{
  const hr_cuda *cuda = device->state;
  lt_preference preference = NULL;
  if (!may_multiply(cuda, gemm))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "cuBLASLt has no such scales of fp8");
  fp8_plan *p = calloc(1, sizeof *p);
  if (!p)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a plan");
  p->gemm = *gemm;
  hr_status status = hr_cuda_enter(cuda, error);
  if (status == HR_OK) {
    status = HR_LT(&cuda->cublaslt, cublasLtMatmulPreferenceCreate, (&preference), error);
    if (status == HR_OK)
      status = find(cuda, p, preference, error);
    if (preference)
      cuda->cublaslt.cublasLtMatmulPreferenceDestroy(preference);
    hr_cuda_leave(cuda);
  }
  if (status != HR_OK) {
    hr_cuda_free_fp8(device, p);
    return status == HR_ERROR_OUT_OF_MEMORY ? status : HR_ERROR_UNSUPPORTED;
  }
  *plan = p;
  *workspace_bytes = p->chosen.workspace_bytes;
  return HR_OK;
}

void hr_cuda_free_fp8(hr_device *device, void *plan)
{
  const hr_cuda *cuda = device->state;
  const fp8_plan *p = plan;
  const lt_layout layouts[] = {p->weights, p->rows, p->result};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (layouts[i])
      cuda->cublaslt.cublasLtMatrixLayoutDestroy(layouts[i]);
  free(plan);
}

hr_status hr_cuda_multiply_fp8(hr_device *device, const hr_fp8_arguments *x, void *workspace, void *stream,
                               hr_error *error)
{
  const hr_cuda *cuda = device->state;
  const hr_cublaslt *lt = &cuda->cublaslt;
  const fp8_plan *p = x->plan;
  const float one = 1, zero = 0;
  _Alignas(16) char held[DESCRIPTION_BYTES];
  lt_description description = (lt_description)(void *)held;
  HR_TRY(describe(lt, &p->gemm, x->w_scales, x->x_scales, description, error));
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = HR_LT(lt, cublasLtMatmul,
                           (cuda->lt, description, &one, x->w, p->weights, x->narrow, p->rows, &zero, x->y, p->result,
                            x->y, p->result, &p->chosen.algorithm, workspace, p->chosen.workspace_bytes, stream),
                           error);
  hr_cuda_leave(cuda);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM and batched GEMM through cuBLASLt: by the first algorithm of its heuristic, which is what frameworks run, or by
 * one of the next.
 *
 * cuBLASLt is column-major. A row-major C [m, n] is the column-major Cᵀ [n, m], so that it computes Cᵀ = Bᵀ Aᵀ: its
 * first operand is our B, its second our A, and neither is copied. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/gemm/algorithm.h"
#include "runtime/device/plan.h"
#include "shape/alignment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WORKSPACE_BYTES ((size_t)32 << 20) /* cuBLAS's documentation recommends it for Hopper; PyTorch's default */
#define HOPPER_NARROW 128                  /* fp8 terms that are added up before their sum is added in fp32 */
#define ADDRESS_ALIGNMENT 16               /* bytes; algorithms assume no more by default */
#define DESCRIPTION_BYTES 512              /* cublasLtMatmulDescOpaque_t has 256 in CUDA 12 and 13 */
#define CHOICES_MAX 1000                   /* algorithms to ask for; cuBLASLt has some tens for a GEMM */
#define ALIGNMENT_MAX 256                  /* bytes; cuBLASLt does not use more */

typedef struct gemm_plan {
  const hr_cuda *cuda;
  hr_gemm gemm;
  lt_description description;
  lt_layout first, second, added, result;
  lt_heuristic chosen;
  hr_summation summation;
} gemm_plan;

/* cuBLASLt's data type and compute type of a dtype, and the first compute capability with such a GEMM. */
typedef struct lt_types {
  int type, compute, capability;
} lt_types;

static const lt_types types_of[HR_DTYPE_COUNT] = {
    [HR_FP32] = {LT_R_32F, LT_COMPUTE_32F, 70},         [HR_TF32] = {LT_R_32F, LT_COMPUTE_32F_FAST_TF32, 80},
    [HR_FP16] = {LT_R_16F, LT_COMPUTE_32F, 70},         [HR_BF16] = {LT_R_16BF, LT_COMPUTE_32F, 80},
    [HR_FP8_E4M3] = {LT_R_8F_E4M3, LT_COMPUTE_32F, 89},
};

static bool multiples_of_16(const hr_gemm *g)
{
  const int64_t strides[] = {g->lda, g->ldb, g->ldc, g->stride_a, g->stride_b, g->stride_c};
  int64_t all = 0;
  for (size_t i = 0; i < sizeof strides / sizeof *strides; i++)
    all |= strides[i];
  return all % 16 == 0;
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_cuda *cuda = device->state;
  const hr_gemm *g = &problem->gemm;
  int capability = types_of[problem->dtype].capability;
  const char *reason = NULL;
  if (cuda->capability < capability)
    snprintf(why, why_size, "multiplies %s from compute capability %d.%d on, this GPU has %d.%d",
             hr_dtype_name(problem->dtype), capability / 10, capability % 10, cuda->capability / 10,
             cuda->capability % 10);
  else if (g->batch > INT32_MAX)
    reason = "takes batches of fewer than 2^31";
  else if (problem->dtype == HR_FP8_E4M3 && g->bias)
    reason = "adds no bias in fp8";
  else if (problem->dtype == HR_FP8_E4M3 && cuda->capability < 100 && (g->transpose_a || !g->transpose_b))
    reason = "multiplies fp8 with A plain and B transposed only";
  else if (problem->dtype == HR_FP8_E4M3 && (g->m % 16 || g->n % 16 || g->k % 16))
    reason = "multiplies fp8 in sizes that are multiples of 16 only";
  else if (problem->dtype == HR_FP8_E4M3 && hr_alignment(g->alignment) % 16 != 0)
    reason = "multiplies fp8 at addresses that are multiples of 16 only";
  else if (problem->dtype == HR_FP8_E4M3 && !multiples_of_16(g))
    reason = "multiplies fp8 with strides that are multiples of 16 only";
  else
    return true;
  if (reason)
    snprintf(why, why_size, "%s", reason);
  return false;
}

/* Our row-major matrix, rows × columns, as a column-major one, columns × rows. */
static hr_status make_layout(const hr_cublaslt *lt, int type, const hr_matrix *matrix, int64_t batch, lt_layout *layout,
                             hr_error *error)
{
  HR_TRY(HR_LT(lt, cublasLtMatrixLayoutCreate,
               (layout, type, (uint64_t)matrix->columns, (uint64_t)matrix->rows, matrix->leading_dimension), error));
  if (batch == 1)
    return HR_OK;
  int32_t count = (int32_t)batch;
  int64_t stride = matrix->batch_stride;
  HR_TRY(HR_LT(lt, cublasLtMatrixLayoutSetAttribute, (*layout, LT_LAYOUT_BATCH_COUNT, &count, sizeof count), error));
  return HR_LT(lt, cublasLtMatrixLayoutSetAttribute, (*layout, LT_LAYOUT_BATCH_STRIDE, &stride, sizeof stride), error);
}

static hr_status set_description(const hr_cublaslt *lt, const hr_gemm *g, const void *bias, lt_description to,
                                 hr_error *error)
{
  const int32_t first = g->transpose_b ? LT_OP_T : LT_OP_N, second = g->transpose_a ? LT_OP_T : LT_OP_N,
                epilogue = LT_EPILOGUE_BIAS;
  HR_TRY(HR_LT(lt, cublasLtMatmulDescSetAttribute, (to, LT_DESCRIPTION_TRANSA, &first, sizeof first), error));
  HR_TRY(HR_LT(lt, cublasLtMatmulDescSetAttribute, (to, LT_DESCRIPTION_TRANSB, &second, sizeof second), error));
  if (!g->bias)
    return HR_OK;
  HR_TRY(HR_LT(lt, cublasLtMatmulDescSetAttribute, (to, LT_DESCRIPTION_EPILOGUE, &epilogue, sizeof epilogue), error));
  return HR_LT(lt, cublasLtMatmulDescSetAttribute, (to, LT_DESCRIPTION_BIAS_POINTER, &bias, sizeof bias), error);
}

static hr_status describe_matmul(gemm_plan *p, const hr_gemm *g, hr_error *error)
{
  const hr_cublaslt *lt = &p->cuda->cublaslt;
  const lt_types *f = &types_of[g->dtype];
  const hr_matrix a = hr_gemm_a(g), b = hr_gemm_b(g), c = hr_gemm_c(g);
  HR_TRY(HR_LT(lt, cublasLtMatmulDescCreate, (&p->description, f->compute, LT_R_32F), error));
  HR_TRY(set_description(lt, g, NULL, p->description, error));
  HR_TRY(make_layout(lt, f->type, &b, g->batch, &p->first, error));
  HR_TRY(make_layout(lt, f->type, &a, g->batch, &p->second, error));
  /* cuBLASLt wants a 16-bit C beside an fp8 D; beta is 0. */
  HR_TRY(make_layout(lt, g->dtype == HR_FP8_E4M3 ? LT_R_16BF : f->type, &c, g->batch, &p->added, error));
  return make_layout(lt, f->type, &c, g->batch, &p->result, error);
}

/* The alignment of an operand that cuBLASLt has to be told; ALIGNMENT_MAX: none. */
static uint32_t alignment_of(const hr_gemm *g, hr_matrix operand)
{
  const int64_t element = (int64_t)hr_dtype_bytes(g->dtype), address = hr_alignment(g->alignment);
  int64_t stride = hr_power_of_two_in(operand.batch_stride * element, ALIGNMENT_MAX);
  int64_t row = hr_power_of_two_in(operand.leading_dimension * element, ALIGNMENT_MAX), least = ALIGNMENT_MAX;
  if (g->batch > 1 && operand.batch_stride > 0 && stride < row)
    least = stride;
  return (uint32_t)(address < ADDRESS_ALIGNMENT ? hr_min64(address, least) : least);
}

/* cuBLASLt assumes operands aligned to 256 bytes and reads the alignment of rows from a layout's leading dimension, but
 * not the alignment of a batch stride. It has to be set where the batch stride is less aligned than the rows
 * (interleaved heads), and for addresses that are less aligned than any algorithm assumes. */
static hr_status set_alignment(const hr_cublaslt *lt, lt_preference preference, const hr_gemm *g, hr_error *error)
{
  const hr_matrix operands[] = {hr_gemm_b(g), hr_gemm_a(g), hr_gemm_c(g), hr_gemm_c(g)};
  for (int i = 0; i < 4; i++) {
    uint32_t bytes = alignment_of(g, operands[i]);
    if (bytes == ALIGNMENT_MAX)
      continue;
    HR_TRY(HR_LT(lt, cublasLtMatmulPreferenceSetAttribute,
                 (preference, LT_PREFERENCE_ALIGNMENT_A + i, &bytes, sizeof bytes), error));
  }
  return HR_OK;
}

/* Tensor Cores truncate their accumulator each time they add the products of so many elements to it; a tf32 has 4
 * bytes. Volta and Turing: 8 bytes, Ampere and Ada: 16, Hopper: 32 (Fasi et al. 2021, PeerJ Computer Science 7:e330,
 * for the first three; docs/notes/measuring-derivations.md measures Hopper's). */
static hr_summation summation_of(const gemm_plan *p, hr_dtype dtype)
{
  const hr_cublaslt *lt = &p->cuda->cublaslt;
  int bytes = p->cuda->capability >= 90 ? 32 : p->cuda->capability >= 80 ? 16 : 8;
  hr_summation summation = {.parts = hr_algorithm_split_k(lt, &p->chosen)};
  if (types_of[dtype].type != LT_R_32F)
    summation.rounded_parts = hr_max64(hr_algorithm_rounded_split_k(lt, &p->chosen), p->gemm.bias ? 1 : 0);
  if (dtype == HR_FP8_E4M3)
    summation.narrow = p->cuda->capability == 90 ? HOPPER_NARROW : 0;
  else if (dtype != HR_FP32)
    summation.cut_every = bytes / (int64_t)hr_dtype_bytes(dtype);
  return summation;
}

/* The first `most` algorithms of the heuristic; *found is at least 1. */
static hr_status find(const gemm_plan *p, int most, lt_heuristic *algorithms, int *found, hr_error *error)
{
  const hr_cublaslt *lt = &p->cuda->cublaslt;
  const hr_gemm *g = &p->gemm;
  lt_preference preference = NULL;
  size_t workspace = WORKSPACE_BYTES;
  hr_error reason = {.message = "none found"};
  *found = 0;
  HR_TRY(HR_LT(lt, cublasLtMatmulPreferenceCreate, (&preference), error));
  hr_status status = HR_LT(lt, cublasLtMatmulPreferenceSetAttribute,
                           (preference, LT_PREFERENCE_WORKSPACE_BYTES, &workspace, sizeof workspace), &reason);
  if (status == HR_OK)
    status = set_alignment(lt, preference, g, &reason);
  if (status == HR_OK)
    status = HR_LT(
        lt, cublasLtMatmulAlgoGetHeuristic,
        (p->cuda->lt, p->description, p->first, p->second, p->added, p->result, preference, most, algorithms, found),
        &reason);
  lt->cublasLtMatmulPreferenceDestroy(preference);
  if (status == HR_OK && *found < 1)
    status = HR_ERROR_UNSUPPORTED;
  if (status != HR_OK)
    return hr_fail(error, status,
                   "cuBLASLt has no algorithm for this %s GEMM of %" PRId64 " × %" PRId64 " × %" PRId64 " (%s)",
                   hr_dtype_name(g->dtype), g->m, g->n, g->k, reason.message);
  return HR_OK;
}

static void take(gemm_plan *p, const lt_heuristic *algorithm, size_t *workspace_bytes)
{
  p->chosen = *algorithm;
  p->summation = summation_of(p, p->gemm.dtype);
  *workspace_bytes = algorithm->workspace_bytes;
}

static hr_status choose(void *state, int64_t choice, int64_t most, int64_t *found, size_t *workspace_bytes,
                        hr_error *error)
{
  gemm_plan *p = state;
  int count = 0;
  if (most > CHOICES_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "choices: expected at most %d, found %" PRId64, CHOICES_MAX, most);
  lt_heuristic *algorithms = calloc((size_t)most, sizeof *algorithms);
  if (!algorithms)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " algorithms", most);
  hr_status status = hr_cuda_enter(p->cuda, error);
  if (status == HR_OK) {
    status = find(p, (int)most, algorithms, &count, error);
    hr_cuda_leave(p->cuda);
  }
  if (status == HR_OK && choice >= count)
    status = hr_fail(error, HR_ERROR_NOT_FOUND, "cuBLASLt's heuristic has %d algorithms for this GEMM", count);
  if (status == HR_OK) {
    take(p, &algorithms[choice], workspace_bytes);
    *found = count;
  }
  free(algorithms);
  return status;
}

static void release(void *state)
{
  gemm_plan *p = state;
  const hr_cublaslt *lt = &p->cuda->cublaslt;
  lt_layout layouts[] = {p->first, p->second, p->added, p->result};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (layouts[i])
      lt->cublasLtMatrixLayoutDestroy(layouts[i]);
  }
  if (p->description)
    lt->cublasLtMatmulDescDestroy(p->description);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  gemm_plan *p = state;
  p->cuda = device->state;
  p->gemm = problem->gemm;
  lt_heuristic algorithm;
  int found;
  HR_TRY(hr_cuda_enter(p->cuda, error));
  hr_status status = describe_matmul(p, &problem->gemm, error);
  if (status == HR_OK)
    status = find(p, 1, &algorithm, &found, error);
  hr_cuda_leave(p->cuda);
  HR_TRY(status);
  take(p, &algorithm, workspace_bytes);
  return HR_OK;
}

/* The bias's address is part of the description, which a plan's runs share: a run with one has its own. */
static hr_status describe_run(const gemm_plan *p, const void *bias, lt_description to, hr_error *error)
{
  const hr_cublaslt *lt = &p->cuda->cublaslt;
  HR_TRY(HR_LT(lt, cublasLtMatmulDescInit_internal, (to, DESCRIPTION_BYTES, types_of[p->gemm.dtype].compute, LT_R_32F),
               error));
  return set_description(lt, &p->gemm, bias, to, error);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const gemm_plan *p = plan->state;
  const hr_gemm_arguments *x = run->arguments;
  const float one = 1, zero = 0;
  const void *added = plan->problem.dtype == HR_FP8_E4M3 ? NULL : x->c;
  _Alignas(16) char held[DESCRIPTION_BYTES];
  lt_description own = (lt_description)(void *)held;
  if (p->gemm.bias)
    HR_TRY(describe_run(p, x->bias, own, error));
  HR_TRY(hr_cuda_enter(p->cuda, error));
  hr_status status =
      HR_LT(&p->cuda->cublaslt, cublasLtMatmul,
            (p->cuda->lt, p->gemm.bias ? own : p->description, &one, x->b, p->first, x->a, p->second, &zero, added,
             p->added, x->c, p->result, &p->chosen.algorithm, run->workspace, p->chosen.workspace_bytes, run->stream),
            error);
  hr_cuda_leave(p->cuda);
  return status;
}

static hr_summation summation(const void *state)
{
  const gemm_plan *p = state;
  return p->summation;
}

static void describe(const void *state, char *text, size_t size)
{
  const gemm_plan *p = state;
  hr_algorithm_describe(&p->cuda->cublaslt, &p->chosen, p->summation.rounded_parts > 1, text, size);
}

const hr_kernel_functions hr_kernel_gemm_cublaslt = {.state_bytes = sizeof(gemm_plan),
                                                     .supports = supports,
                                                     .prepare = prepare,
                                                     .run = run,
                                                     .release = release,
                                                     .choose = choose,
                                                     .summation = summation,
                                                     .describe = describe};

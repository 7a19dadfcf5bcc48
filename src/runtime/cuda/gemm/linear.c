/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/gemm/linear.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/quantity.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/gemv_layout.h"
#include "runtime/device/device.h"

#include <inttypes.h>
#include <stdio.h>

#define WARP 32
#define GRID_Y_MAX 65535

_Static_assert(HR_LINEAR_ROWS_MAX == HR_GEMV_TOKENS_MAX, "a program takes each number of rows");

/* The GEMM that decides on the tiling. Both matrices of a gate are read at once; rows in fp8 have the bytes of rows of
 * half as many elements. */
static hr_gemm gemm_of(const hr_linear_arguments *x)
{
  hr_gemm g = hr_gemm_default();
  g.m = x->experts > 0 ? hr_min64(HR_GEMV_TOKENS_MAX, x->most) : x->rows;
  g.n = x->gate ? 2 * x->n : x->n;
  g.k = x->scales ? x->k / 2 : x->k;
  g.lda = x->experts > 0 ? x->k : x->x_stride;
  g.batch = x->experts > 0 ? hr_min64(x->experts, x->rows) : 1;
  g.dtype = x->dtype;
  g.alignment = x->alignment;
  g.transpose_b = true;
  return g;
}

int hr_linear_load_bytes(const hr_linear_arguments *x)
{
  const hr_gemm g = gemm_of(x);
  return hr_gemv_load_bytes(&g);
}

static const char *name_of_activation(hr_rowwise_operation activation)
{
  static const char *const names[HR_ROWWISE_COUNT] = {
      [HR_ROWWISE_GELU] = "gelu_of",     [HR_ROWWISE_GELU_TANH] = "gelu_tanh_of",
      [HR_ROWWISE_RELU] = "relu_of",     [HR_ROWWISE_RELU2] = "relu2_of",
      [HR_ROWWISE_SWIGLU] = "swiglu_of", [HR_ROWWISE_SWIGLU_CLAMPED] = "swiglu_clamped_by",
      [HR_ROWWISE_GEGLU] = "geglu_of",   [HR_ROWWISE_GEGLU_TANH] = "geglu_tanh_of"};
  return names[activation];
}

static void write_how(const hr_linear_arguments *x, bool early, char *text, size_t size)
{
  char norm[HR_NUMBER_SIZE] = "";
  const bool acts = x->activation != HR_ROWWISE_COUNT;
  if (x->norm != HR_ROWWISE_COUNT)
    snprintf(norm, sizeof norm, " HR_NORM=%d HR_NORM_TOKENS=%d", x->norm == HR_ROWWISE_RMS_NORM ? 1 : 2,
             hr_linear_rows(x->rows));
  snprintf(text, size, "%s%s%s%s%s%s",
           x->active > 0    ? "HR_GROUPED HR_COMBINED"
           : x->experts > 0 ? "HR_GROUPED"
           : early          ? "HR_EARLY"
                            : "",
           norm, x->gate ? " HR_GATED" : "", acts ? " HR_ACTIVATION=" : "",
           acts ? name_of_activation(x->activation) : "",
           !x->scales         ? ""
           : x->shares.blocks ? " HR_FP8=HR_GEMV_SCALED_BLOCKS"
                              : " HR_FP8=HR_GEMV_SCALED_ROWS");
}

#define COMBINING_WARPS 16

/* A block has all experts, as many at once as there may be: the other warps share their k. Where multiprocessors have
 * one block each, its loads in flight are twice as long. */
static void tile_combined(const hr_linear_arguments *x, int64_t multiprocessors, hr_gemv_tiling *t)
{
  const int64_t blocks = hr_ceil_div(x->n, t->mma ? HR_GEMV_MMA_ROWS : t->rows);
  const int64_t experts = hr_min64(x->experts, x->rows);
  t->row_warps = 1;
  while (t->row_warps < experts && t->row_warps < COMBINING_WARPS / 2)
    t->row_warps *= 2;
  t->k_warps = COMBINING_WARPS / t->row_warps;
  t->rows = t->mma ? HR_GEMV_MMA_ROWS : t->rows;
  t->unroll_load = t->mma && blocks <= multiprocessors ? 64 : 32;
  t->resident = t->mma && blocks > multiprocessors ? 1024 : 512;
}

void hr_linear_program(const hr_linear_arguments *x, int64_t multiprocessors, bool early, hr_gemv_tiling *tiling,
                       char text[HR_DEFINES_SIZE])
{
  const hr_gemm g = gemm_of(x);
  const int load = hr_gemv_load_bytes(&g);
  char how[HR_DEFINES_SIZE / 2];
  hr_gemv_tiling_choose(&g, load, multiprocessors, 0, tiling);
  if (x->gate && tiling->row_warps % 2 != 0) /* as many warps, of which half read the other matrix */
    tiling->row_warps *= 2, tiling->k_warps /= 2;
  if (x->active > 0)
    tile_combined(x, multiprocessors, tiling);
  write_how(x, early, how, sizeof how);
  hr_gemv_defines(&g, tiling, load, how, text);
}

static int log2_of(int64_t power)
{
  int log2 = 0;
  while (power >> log2 > 1)
    log2++;
  return log2;
}

hr_gemv_call hr_linear_call(const hr_linear_arguments *x)
{
  return (hr_gemv_call){.x = hr_cuda_address(x->x),
                        .w = hr_cuda_address(x->weight),
                        .y = hr_cuda_address(x->y),
                        .bias = hr_cuda_address(x->bias),
                        .x_row = x->x_stride,
                        .w_row = x->k,
                        .y_row = x->n,
                        .w_batch = x->n * x->k,
                        .n = x->n,
                        .k = x->k,
                        .offsets = hr_cuda_address(x->offsets),
                        .numbers = hr_cuda_address(x->numbers),
                        .gate = hr_cuda_address(x->gate),
                        .gate_bias = hr_cuda_address(x->gate_bias),
                        .norm_weight = hr_cuda_address(x->norm_weight),
                        .norm_bias = hr_cuda_address(x->norm_bias),
                        .residual = hr_cuda_address(x->residual),
                        .residual_row = x->residual_stride,
                        .experts_of = hr_cuda_address(x->experts_of),
                        .places = hr_cuda_address(x->places),
                        .weights = hr_cuda_address(x->weights),
                        .scales = hr_cuda_address(x->scales),
                        .gate_scales = hr_cuda_address(x->gate_scales),
                        .scale_row = x->shares.stride,
                        .scale_rows_log2 = log2_of(x->shares.rows),
                        .active = (int)x->active,
                        .copies = (int)x->rows,
                        .tokens = (int)x->rows,
                        .experts = (int)x->experts,
                        .epsilon = (float)x->epsilon,
                        .limit = (float)x->limit,
                        .factor = x->factor == 0 ? 1 : (float)x->factor};
}

/* The most tiles of up to 8 copies of one expert; each expert with copies has at least one. */
static int64_t tiles_of(const hr_linear_arguments *x)
{
  const int64_t experts = hr_min64(x->experts, x->rows);
  return x->experts > 0 ? hr_min64(x->rows, hr_ceil_div(x->rows, HR_GEMV_TOKENS_MAX) + experts) : 1;
}

/* The grid and the shared memory. */
static void shape_kernel(const hr_linear_arguments *x, const hr_gemv_tiling *t, hr_cuda_kernel *kernel)
{
  const bool combined = x->active > 0;
  kernel->threads = (unsigned)(WARP * t->row_warps * t->k_warps);
  kernel->blocks = hr_ceil_div(x->gate ? 2 * x->n : x->n, combined ? t->rows : t->rows * t->row_warps);
  kernel->shared_bytes = combined ? (size_t)(x->rows * t->k_warps * t->rows) * sizeof(float)
                                  : (size_t)hr_linear_norm_bytes(x->norm, x->rows, x->k, x->dtype);
  kernel->grid_y = combined ? 1 : (unsigned)tiles_of(x);
}

hr_status hr_cuda_launch_linear(const hr_cuda_queue *queue, const hr_linear_arguments *x, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_gemv_tiling t;
  int64_t multiprocessors;
  hr_cuda_kernel kernel = {.early = queue->cuda->capability >= 90};
  const char *entry = x->active > 0 ? "gemv_combined" : "gemv";
  if (tiles_of(x) > GRID_Y_MAX)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "experts of %s: %" PRId64 " copies of tokens at once are too many",
                   hr_dtype_name(x->dtype), x->rows);
  HR_TRY(hr_cuda_attribute(queue->cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  hr_linear_program(x, multiprocessors, kernel.early, &t, defines);
  shape_kernel(x, &t, &kernel);
  HR_TRY(hr_cuda_function_shared(queue->cuda, "gemv", x->dtype, defines, entry, kernel.shared_bytes, &kernel.function,
                                 error));
  hr_gemv_call call = hr_linear_call(x);
  void *parameters[] = {&call};
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

hr_status hr_cuda_multiply_linear(hr_device *device, const hr_linear_arguments *linear, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = hr_cuda_launch_linear(&queue, linear, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

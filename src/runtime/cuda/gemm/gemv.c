/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs with few rows of A by kernels/gemv.cu: tilings and launch. Of an hr_gemm, A are its tokens x, B its weights W.
 */
#include "runtime/cuda/gemm/gemv.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/gemv_layout.h"
#include "runtime/device/plan.h"
#include "runtime/operation/few_rows.h"
#include "shape/alignment.h"

#include <inttypes.h>
#include <stdio.h>

#define WARP 32
#define GRID_Y_MAX 65535
#define UNROLL_MAX 4
#define TOKENS_FEW 4
#define WEIGHTS_BEHIND 16777216.0 /* in 16 bits: docs/notes/gpu.md has the measurements, of an H200 */
#define SHORT_ROW 1024            /* elements */

/* The tilings of `mma` by the name under which best_mma() chooses one. */
enum {
  MMA_FEW_ROWS,
  MMA_SOME_ROWS,
  MMA_MOST_ROWS = 3,
  MMA_MANY_ROWS,
  MMA_TWO_EACH,
  MMA_SHORT_ROWS,
  MMA_MANY_SHORT = 9
};
enum { SIMT_FEW_TOKENS, SIMT_OTHERS }; /* of `simt` */

static const hr_gemv_tiling mma[] = {
    {true, 16, 1, 16, 64, 512}, {true, 16, 1, 8, 64, 768},  {true, 32, 1, 8, 32, 768}, {true, 16, 1, 4, 64, 768},
    {true, 16, 1, 8, 32, 1024}, {true, 32, 1, 16, 32, 512}, {true, 32, 1, 8, 64, 512}, {true, 16, 1, 16, 32, 1024},
    {true, 16, 2, 4, 64, 768},  {true, 32, 2, 4, 32, 768}};
static const hr_gemv_tiling simt[] = {{false, 4, 4, 2, 32, 512}, {false, 4, 4, 2, 16, 512}, {false, 4, 2, 4, 32, 512},
                                      {false, 4, 8, 1, 32, 512}, {false, 4, 1, 8, 32, 512}, {false, 2, 4, 2, 64, 512},
                                      {false, 2, 4, 2, 32, 512}, {false, 4, 8, 1, 16, 512}, {false, 4, 2, 4, 16, 512}};

#define COUNT(list) ((int64_t)(sizeof(list) / sizeof *(list)))

static bool uses_mma(const hr_gemm *g, int load)
{
  return load == HR_GEMV_LOAD_MAX && hr_dtype_bytes(g->dtype) == 2;
}

/* The quickest of all tilings on an H200, by how many blocks of 16 rows of B a multiprocessor has: where they are few,
 * more warps share the k of each. docs/notes/gpu.md has the measurements. */
static int64_t best_mma(int64_t tiles, int64_t k, int64_t multiprocessors)
{
  const int64_t each = hr_ceil_div(tiles, multiprocessors);
  if (each <= 1)
    return MMA_FEW_ROWS;
  if (k <= SHORT_ROW)
    return each <= 2 ? MMA_SHORT_ROWS : MMA_MANY_SHORT;
  return each <= 2 ? MMA_TWO_EACH : each <= 3 ? MMA_SOME_ROWS : each <= 16 ? MMA_MANY_ROWS : MMA_MOST_ROWS;
}

static int64_t best_of(const hr_gemm *g, int load, int64_t multiprocessors)
{
  const int64_t tiles = hr_ceil_div(g->n, HR_GEMV_MMA_ROWS) * g->batch;
  if (uses_mma(g, load))
    return best_mma(tiles, g->k, multiprocessors);
  return g->m <= TOKENS_FEW ? SIMT_FEW_TOKENS : SIMT_OTHERS;
}

bool hr_gemv_tiling_choose(const hr_gemm *g, int load, int64_t multiprocessors, int64_t choice, hr_gemv_tiling *tiling)
{
  const bool by_mma = uses_mma(g, load);
  const int64_t best = best_of(g, load, multiprocessors);
  if (choice >= (by_mma ? COUNT(mma) : COUNT(simt)))
    return false;
  const int64_t at = choice == 0 ? best : choice <= best ? choice - 1 : choice;
  *tiling = by_mma ? mma[at] : simt[at];
  return true;
}

/* Rows of one matrix, and matrices of one batch, have no stride. */
static int64_t strides_of(const hr_gemm *g, const hr_matrix *matrix)
{
  return (matrix->rows > 1 ? matrix->leading_dimension : 0) | (g->batch > 1 ? matrix->batch_stride : 0);
}

int hr_gemv_load_bytes(const hr_gemm *g)
{
  const hr_matrix a = hr_gemm_a(g), b = hr_gemm_b(g);
  const int64_t elements = g->k | strides_of(g, &a) | strides_of(g, &b);
  const int64_t bytes = elements * (int64_t)hr_dtype_bytes(g->dtype) | hr_alignment(g->alignment);
  return (int)hr_power_of_two_in(bytes, HR_GEMV_LOAD_MAX);
}

static int unroll_of(const hr_gemv_tiling *t, int load)
{
  return (int)hr_min64(t->unroll_load / load, t->mma ? t->unroll_load / HR_GEMV_LOAD_MAX : UNROLL_MAX);
}

static int64_t power_of_two(int64_t least)
{
  int64_t power = 1;
  while (power < least)
    power *= 2;
  return power;
}

void hr_gemv_defines(const hr_gemm *g, const hr_gemv_tiling *t, int load, const char *how, char text[HR_DEFINES_SIZE])
{
  int tokens = t->mma ? HR_GEMV_TOKENS_MAX : (int)power_of_two(g->m);
  snprintf(text, HR_DEFINES_SIZE,
           "HR_ROWS=%d HR_ROW_WARPS=%d HR_K_WARPS=%d HR_UNROLL=%d HR_RESIDENT=%d HR_LOAD=%d HR_TOKENS=%d%s %s", t->rows,
           t->row_warps, t->k_warps, unroll_of(t, load), t->resident, load, tokens, t->mma ? " HR_MMA" : "", how);
}

/* ---- plans ---- */

_Static_assert(HR_GEMM_FEW_ROWS == HR_GEMV_TOKENS_MAX, "the program takes each number of rows");

typedef struct gemv_plan {
  const hr_cuda *cuda;
  hr_gemm gemm;
  int load;
  int64_t multiprocessors;
  hr_gemv_tiling tiling;
  cu_function function;
} gemv_plan;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_gemm *g = &problem->gemm;
  const char *reason = NULL;
  if (!hr_gemm_has_few_rows(g, why, why_size))
    return false;
  if (g->batch > GRID_Y_MAX)
    reason = "takes batches of up to 65535";
  else if (g->n > INT32_MAX)
    reason = "takes fewer than 2^31 rows of B";
  if (reason)
    snprintf(why, why_size, "%s", reason);
  return !reason;
}

static bool behind(const hr_problem *problem, char *why, size_t why_size)
{
  const hr_gemm *g = &problem->gemm;
  if (hr_dtype_bytes(g->dtype) != 2 || (double)g->n * (double)g->k <= WEIGHTS_BEHIND)
    return false;
  snprintf(why, why_size, "is behind cuBLASLt in 16 bits with more than 2^24 weights");
  return true;
}

/* Programs of fp32 serve tf32, which is a format of Tensor Cores alone. */
static hr_status load_program(gemv_plan *p, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  hr_gemv_defines(&p->gemm, &p->tiling, p->load, p->cuda->capability >= 90 ? "HR_EARLY" : "", defines);
  hr_dtype dtype = p->gemm.dtype == HR_TF32 ? HR_FP32 : p->gemm.dtype;
  return hr_cuda_function(p->cuda, "gemv", dtype, defines, "gemv", &p->function, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  gemv_plan *p = state;
  (void)workspace_bytes;
  p->cuda = device->state;
  p->gemm = problem->gemm;
  p->load = hr_gemv_load_bytes(&p->gemm);
  HR_TRY(hr_cuda_attribute(p->cuda, CU_MULTIPROCESSORS, &p->multiprocessors, error));
  hr_gemv_tiling_choose(&p->gemm, p->load, p->multiprocessors, 0, &p->tiling);
  return load_program(p, error);
}

static hr_status choose(void *state, int64_t choice, int64_t most, int64_t *found, size_t *workspace_bytes,
                        hr_error *error)
{
  gemv_plan *p = state;
  hr_gemv_tiling tiling;
  (void)workspace_bytes;
  int64_t count = 0;
  while (count < most && hr_gemv_tiling_choose(&p->gemm, p->load, p->multiprocessors, count, &tiling))
    count++;
  if (choice >= count)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "gemv_cuda has %" PRId64 " tilings for this GEMM", count);
  hr_gemv_tiling_choose(&p->gemm, p->load, p->multiprocessors, choice, &p->tiling);
  HR_TRY(load_program(p, error));
  *found = count;
  return HR_OK;
}

static hr_gemv_call call_of(const hr_gemm *g, const hr_gemm_arguments *x)
{
  const hr_matrix a = hr_gemm_a(g), b = hr_gemm_b(g), c = hr_gemm_c(g);
  return (hr_gemv_call){.x = hr_cuda_address(x->a),
                        .w = hr_cuda_address(x->b),
                        .y = hr_cuda_address(x->c),
                        .bias = g->bias ? hr_cuda_address(x->bias) : 0,
                        .x_row = a.leading_dimension,
                        .w_row = b.leading_dimension,
                        .y_row = c.leading_dimension,
                        .x_batch = a.batch_stride,
                        .w_batch = b.batch_stride,
                        .y_batch = c.batch_stride,
                        .n = g->n,
                        .k = g->k,
                        .tokens = (int)g->m};
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const gemv_plan *p = plan->state;
  const hr_gemv_tiling *t = &p->tiling;
  const hr_cuda_queue queue = {p->cuda, run->stream};
  hr_gemv_call call = call_of(&p->gemm, run->arguments);
  const hr_cuda_kernel kernel = {.function = p->function,
                                 .blocks = hr_ceil_div(p->gemm.n, t->rows * t->row_warps),
                                 .grid_y = (unsigned)p->gemm.batch,
                                 .threads = (unsigned)(WARP * t->row_warps * t->k_warps),
                                 .early = p->cuda->capability >= 90};
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_enter(p->cuda, error));
  hr_status status = hr_cuda_launch(&queue, &kernel, parameters, error);
  hr_cuda_leave(p->cuda);
  return status;
}

/* Tensor Cores truncate their accumulator, as gemm.c says: an mma.sync adds 16 products of 16 bits at a time from
 * Hopper on, 8 before. */
static hr_summation summation(const void *state)
{
  const gemv_plan *p = state;
  int cut = p->cuda->capability >= 90 ? 16 : 8;
  return (hr_summation){.parts = p->tiling.k_warps, .cut_every = p->tiling.mma ? cut : 0};
}

static void describe(const void *state, char *text, size_t size)
{
  const gemv_plan *p = state;
  const hr_gemv_tiling *t = &p->tiling;
  snprintf(text, size, "%s, blocks of %d rows, %d × %d warps, %d loads of %d bytes", t->mma ? "mma.sync" : "fp32",
           t->rows * t->row_warps, t->row_warps, t->k_warps, unroll_of(t, p->load), p->load);
}

const hr_kernel_functions hr_kernel_gemv_cuda = {.state_bytes = sizeof(gemv_plan),
                                                 .supports = supports,
                                                 .behind = behind,
                                                 .prepare = prepare,
                                                 .run = run,
                                                 .choose = choose,
                                                 .summation = summation,
                                                 .describe = describe};

/* SPDX-License-Identifier: Apache-2.0 */
/* A residual and the norm of its sum by kernels/residual_norm.cu: threads and launch. */
#include "runtime/cuda/rowwise/rowwise.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/residual_norm_layout.h"
#include "runtime/device/plan.h"
#include "shape/rowwise.h"
#include "shape/rowwise_operands.h"

#include <inttypes.h>
#include <stdio.h>

#define WARP 32
#define THREADS_MAX 1024
#define COLUMNS_MAX ((int64_t)THREADS_MAX * HR_RESIDUAL_NORM_FLOATS)

typedef struct fused_plan {
  const hr_cuda *cuda;
  hr_cuda_kernel kernel;
} fused_plan;

hr_residual_norm_tiling hr_residual_norm_tiling_choose(const hr_rowwise *rows)
{
  const int64_t elements = HR_ROWWISE_PACK_BYTES / (int64_t)hr_dtype_bytes(rows->dtype);
  const int64_t packs = hr_ceil_div(rows->columns, elements);
  hr_residual_norm_tiling t = {.packs = 1};
  while (t.packs * elements < HR_RESIDUAL_NORM_FLOATS && packs > t.packs * THREADS_MAX / 2)
    t.packs *= 2;
  t.threads = hr_ceil_div(hr_ceil_div(packs, t.packs), WARP) * WARP;
  return t;
}

void hr_residual_norm_defines(const hr_rowwise *rows, const hr_residual_norm_tiling *tiling, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_THREADS=%" PRId64 " HR_PACKS=%" PRId64 " HR_CENTRED=%d", tiling->threads,
           tiling->packs, rows->operation == HR_ROWWISE_RESIDUAL_LAYER_NORM);
}

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_rowwise *r = &problem->rows;
  if (!hr_rowwise_adds_before_norm(r->operation))
    snprintf(why, why_size, "computes a residual and the norm of its sum");
  else if (r->columns > COLUMNS_MAX || r->rows > INT32_MAX)
    snprintf(why, why_size, "takes rows of up to %" PRId64 " columns, and fewer than 2^31", COLUMNS_MAX);
  else
    return true;
  return false;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_rowwise *r = &problem->rows;
  const hr_residual_norm_tiling t = hr_residual_norm_tiling_choose(r);
  const hr_dtype dtype = r->dtype == HR_TF32 ? HR_FP32 : r->dtype; /* a dtype of GEMMs only */
  char defines[HR_DEFINES_SIZE];
  fused_plan *p = state;
  (void)workspace_bytes;
  p->cuda = device->state;
  p->kernel = (hr_cuda_kernel){.blocks = r->rows, .threads = (unsigned)t.threads, .early = p->cuda->capability >= 90};
  hr_residual_norm_defines(r, &t, defines);
  return hr_cuda_function(p->cuda, "residual_norm", dtype, defines, "residual_norm", &p->kernel.function, error);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const fused_plan *p = plan->state;
  const hr_rowwise *r = &plan->problem.rows;
  const hr_rowwise_arguments *x = run->arguments;
  const hr_cuda_queue queue = {p->cuda, run->stream};
  hr_residual_norm_call call = {.x = hr_cuda_address(x->inputs[0]),
                                .z = hr_cuda_address(x->inputs[1]),
                                .weight = hr_cuda_address(x->inputs[2]),
                                .y = hr_cuda_address(x->output),
                                .sum = hr_cuda_address(x->more_outputs[0]),
                                .columns = r->columns,
                                .epsilon = (float)hr_rowwise_epsilon(r)};
  if (r->operation == HR_ROWWISE_RESIDUAL_LAYER_NORM)
    call.bias = hr_cuda_address(x->more_inputs[0]);
  void *arguments[] = {&call};
  HR_TRY(hr_cuda_enter(p->cuda, error));
  hr_status status = hr_cuda_launch(&queue, &p->kernel, arguments, error);
  hr_cuda_leave(p->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_cuda_kernel *k = &((const fused_plan *)state)->kernel;
  snprintf(text, size, "%" PRId64 " blocks of %u threads", k->blocks, k->threads);
}

const hr_kernel_functions hr_kernel_rowwise_fused_cuda = {
    .state_bytes = sizeof(fused_plan), .supports = supports, .prepare = prepare, .run = run, .describe = describe};

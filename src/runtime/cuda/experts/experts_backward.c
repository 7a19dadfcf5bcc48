/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of routed experts by kernels/experts_route_backward.cu, grouped_backward_sm80.cu and grouped_backward.cu.
 */
#include "runtime/cuda/experts/experts.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/experts_layout.h"

#define WARP 32
#define MMA_THREADS 256
#define ROW_BYTES 16

/* ---- the choice ---- */

/* In the device's context. */
static hr_status launch_route(const hr_cuda_queue *queue, const hr_route_backward_arguments *r, hr_error *error)
{
  cu_function function;
  hr_route_backward_call call = {.logits = hr_cuda_address(r->logits),
                                 .weights = hr_cuda_address(r->weights),
                                 .chosen = hr_cuda_address(r->chosen),
                                 .places = hr_cuda_address(r->places),
                                 .d_weights = hr_cuda_address(r->d_weights),
                                 .d_logits = hr_cuda_address(r->d_logits),
                                 .tokens = r->tokens,
                                 .experts = (int)r->experts,
                                 .active = (int)r->active,
                                 .sigmoid = r->sigmoid,
                                 .normalized = r->normalized,
                                 .scale = r->scale == 0 ? 1 : (float)r->scale};
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_function(queue->cuda, "experts_route_backward", r->dtype, NULL, "route_backward", &function, error));
  const hr_cuda_kernel kernel = {.function = function,
                                 .blocks = hr_ceil_div(r->tokens, HR_ROUTE_WARPS),
                                 .threads = WARP * HR_ROUTE_WARPS,
                                 .early = queue->cuda->capability >= 90};
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

hr_status hr_cuda_route_backward(hr_device *device, const hr_route_backward_arguments *route, void *stream,
                                 hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = launch_route(&queue, route, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

/* ---- GEMMs ---- */

/* Whether rows are whole pieces of 16 bytes, which the Tensor Cores' program loads. */
static bool takes_mma(const hr_cuda *cuda, const hr_grouped_backward_call *call, hr_dtype dtype)
{
  return cuda->capability >= 80 && hr_dtype_bytes(dtype) == 2 && call->n * 2 % ROW_BYTES == 0 &&
         call->k * 2 % ROW_BYTES == 0 && (call->left | call->right | call->out) % ROW_BYTES == 0;
}

/* `grouped`: NULL for the gradients of weights. */
static hr_status launch(const hr_cuda_queue *queue, hr_grouped_backward_call *call, hr_dtype dtype,
                        const hr_grouped_arguments *grouped, hr_error *error)
{
  const bool mma = takes_mma(queue->cuda, call, dtype);
  const int64_t tile = mma ? HR_GROUPED_TILE : HR_GROUPED_SMALL_TILE, band = mma ? HR_GROUPED_BAND : 1;
  const size_t shared = mma ? 2 * HR_GROUPED_STAGES * HR_GROUPED_TILE * HR_GROUPED_DEPTH * sizeof(uint16_t) : 0;
  cu_function function;
  call->row_tiles = (int)hr_ceil_div(call->n, tile);
  call->column_tiles = (int)hr_ceil_div(call->k, tile);
  HR_TRY(hr_cuda_function_shared(queue->cuda, mma ? "grouped_backward_sm80" : "grouped_backward", dtype, NULL,
                                 grouped ? "grouped_inputs" : "grouped_weights", shared, &function, error));
  const int64_t rows =
      grouped ? hr_ceil_div(hr_grouped_tiles(grouped, tile), band) * band : (int64_t)call->experts * call->row_tiles;
  const hr_cuda_kernel kernel = {.function = function,
                                 .blocks = rows * call->column_tiles,
                                 .threads = mma ? MMA_THREADS : HR_GROUPED_SMALL_THREADS,
                                 .shared_bytes = shared,
                                 .early = queue->cuda->capability >= 90};
  void *parameters[] = {call};
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

/* C = A B of copies has the sizes of W the other way round. */
hr_status hr_cuda_launch_grouped_inputs(const hr_cuda_queue *queue, const hr_grouped_arguments *x, hr_error *error)
{
  hr_grouped_backward_call call = {.left = hr_cuda_address(x->a),
                                   .right = hr_cuda_address(x->b),
                                   .out = hr_cuda_address(x->c),
                                   .offsets = hr_cuda_address(x->offsets),
                                   .n = x->k,
                                   .k = x->n,
                                   .experts = (int)x->experts};
  return launch(queue, &call, x->dtype, x, error);
}

hr_status hr_cuda_group_gradients(hr_device *device, const hr_grouped_gradient_arguments *x, void *stream,
                                  hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  hr_grouped_backward_call call = {.left = hr_cuda_address(x->dy),
                                   .right = hr_cuda_address(x->x),
                                   .out = hr_cuda_address(x->dw),
                                   .offsets = hr_cuda_address(x->offsets),
                                   .n = x->n,
                                   .k = x->k,
                                   .experts = (int)x->experts};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = launch(&queue, &call, x->dtype, NULL, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

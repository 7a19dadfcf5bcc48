/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of routed experts by kernels/experts_route_backward.cu and grouped_backward.cu, _sm80.cu and _sm90.cu. */
#include "runtime/cuda/experts/experts.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/driver/tensor_boxes.h"
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

/* A program and its tiles. */
typedef struct backward_program {
  const char *source;
  int64_t rows, columns; /* of a tile */
  int64_t band;
  unsigned threads;
  size_t shared;
  bool maps; /* loads by TMA */
} backward_program;

#define STAGE_ALIGNMENT 1024
#define DEPTH 64 /* of a stage of the program for WGMMA */

static const backward_program by_wgmma = {
    .source = "grouped_backward_sm90",
    .rows = HR_GROUPED_TILE,
    .columns = HR_GROUPED_WIDE_TILE,
    .band = HR_GROUPED_BAND,
    .threads = HR_GROUPED_WIDE_THREADS,
    .shared = HR_GROUPED_WIDE_STAGES * (HR_GROUPED_TILE + HR_GROUPED_WIDE_TILE) * DEPTH * 2 + STAGE_ALIGNMENT,
    .maps = true};
static const backward_program by_mma = {.source = "grouped_backward_sm80",
                                        .rows = HR_GROUPED_TILE,
                                        .columns = HR_GROUPED_TILE,
                                        .band = HR_GROUPED_BAND,
                                        .threads = MMA_THREADS,
                                        .shared = 2 * HR_GROUPED_STAGES * HR_GROUPED_TILE * HR_GROUPED_DEPTH * 2};
static const backward_program by_fma = {.source = "grouped_backward",
                                        .rows = HR_GROUPED_SMALL_TILE,
                                        .columns = HR_GROUPED_SMALL_TILE,
                                        .band = 1,
                                        .threads = HR_GROUPED_SMALL_THREADS};

/* Tensor Cores' programs load rows as whole pieces of 16 bytes. Only one generation has WGMMA. */
static const backward_program *program_for(const hr_cuda *cuda, const hr_grouped_backward_call *call, hr_dtype dtype)
{
  const bool pieces = hr_dtype_bytes(dtype) == 2 && call->n * 2 % ROW_BYTES == 0 && call->k * 2 % ROW_BYTES == 0 &&
                      (call->left | call->right | call->out) % ROW_BYTES == 0;
  return !pieces || cuda->capability < 80 ? &by_fma : cuda->capability / 10 == 9 ? &by_wgmma : &by_mma;
}

/* Operands of a launch. */
typedef struct backward_operands {
  const void *left, *right;
  int64_t copies;
  hr_dtype dtype;
  const hr_grouped_arguments *inputs; /* NULL: gradients of weights */
} backward_operands;

/* For dX a box of dY has a tile's copies, one of W a stage's rows of an expert; for dW both have a stage's copies. */
static hr_status describe_tensors(const hr_cuda *cuda, const hr_grouped_backward_call *call, const backward_operands *o,
                                  cu_tensor_map maps[2], hr_error *error)
{
  const int64_t n = call->n, k = call->k, experts = call->experts;
  const int64_t left_strides[] = {n, 0, 0}, left_sizes[] = {n, o->copies, 1, 1};
  const int64_t w_strides[] = {k, n * k, 0}, w_sizes[] = {k, n, experts, 1};
  const int64_t x_strides[] = {k, 0, 0}, x_sizes[] = {k, o->copies, 1, 1};
  HR_TRY(hr_tensor_map_of_boxes(&cuda->driver, o->dtype, o->left, left_strides, left_sizes,
                                o->inputs ? HR_GROUPED_TILE : DEPTH, 1, &maps[0], error));
  return hr_tensor_map_of_boxes(&cuda->driver, o->dtype, o->right, o->inputs ? w_strides : x_strides,
                                o->inputs ? w_sizes : x_sizes, DEPTH, 1, &maps[1], error);
}

/* In the device's context. */
static hr_status launch(const hr_cuda_queue *queue, hr_grouped_backward_call *call, const backward_operands *o,
                        hr_error *error)
{
  const backward_program *p = program_for(queue->cuda, call, o->dtype);
  cu_function function;
  cu_tensor_map maps[2];
  call->row_tiles = (int)hr_ceil_div(call->n, p->rows);
  call->column_tiles = (int)hr_ceil_div(call->k, p->columns);
  HR_TRY(hr_cuda_function_shared(queue->cuda, p->source, o->dtype, NULL,
                                 o->inputs ? "grouped_inputs" : "grouped_weights", p->shared, &function, error));
  if (p->maps)
    HR_TRY(describe_tensors(queue->cuda, call, o, maps, error));
  const int64_t rows = o->inputs ? hr_ceil_div(hr_grouped_tiles(o->inputs, p->rows), p->band) * p->band
                                 : (int64_t)call->experts * call->row_tiles;
  const hr_cuda_kernel kernel = {.function = function,
                                 .blocks = rows * call->column_tiles,
                                 .threads = p->threads,
                                 .shared_bytes = p->shared,
                                 .early = queue->cuda->capability >= 90};
  void *parameters[] = {call, &maps[0], &maps[1]};
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
  const backward_operands operands = {x->a, x->b, x->copies, x->dtype, x};
  return launch(queue, &call, &operands, error);
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
  const backward_operands operands = {x->dy, x->x, x->copies, x->dtype, NULL};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = launch(&queue, &call, &operands, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

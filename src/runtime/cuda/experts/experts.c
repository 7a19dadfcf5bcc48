/* SPDX-License-Identifier: Apache-2.0 */
/* Routed experts by kernels/experts_route.cu, grouped_gemm_sm90.cu and gemv.cu. */
#include "runtime/cuda/experts/experts.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/quantity.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/driver/tensor_boxes.h"
#include "runtime/cuda/gemm/linear.h"
#include "runtime/cuda/kernels/experts_layout.h"

#include <stdio.h>

#define WARP 32

/* ---- the experts of each token ---- */

static hr_route_call call_of(const hr_route_arguments *r)
{
  return (hr_route_call){.logits = hr_cuda_address(r->logits),
                         .bias = hr_cuda_address(r->bias),
                         .weights = hr_cuda_address(r->weights),
                         .chosen = hr_cuda_address(r->chosen),
                         .places = hr_cuda_address(r->places),
                         .copied = hr_cuda_address(r->copied),
                         .experts_of = hr_cuda_address(r->experts_of),
                         .offsets = hr_cuda_address(r->offsets),
                         .weights_of = hr_cuda_address(r->weights_of),
                         .tokens = r->tokens,
                         .experts = (int)r->experts,
                         .active = (int)r->active,
                         .groups = (int)r->groups,
                         .active_groups = (int)r->active_groups,
                         .first = (int)r->first,
                         .held = (int)(r->held > 0 ? r->held : r->experts),
                         .sigmoid = r->sigmoid,
                         .normalized = r->normalized,
                         .group_pairs = r->group_pairs,
                         .scale = r->scale == 0 ? 1 : (float)r->scale};
}

/* In the device's context. */
static hr_status launch_route(const hr_cuda_queue *queue, const hr_route_arguments *r, hr_error *error)
{
  cu_function choose, place;
  hr_route_call call = call_of(r);
  void *parameters[] = {&call};
  const bool early = queue->cuda->capability >= 90;
  HR_TRY(hr_cuda_function(queue->cuda, "experts_route", r->dtype, NULL, "choose_experts", &choose, error));
  HR_TRY(hr_cuda_function(queue->cuda, "experts_route", r->dtype, NULL, "place_copies", &place, error));
  const hr_cuda_kernel first = {.function = choose,
                                .blocks = hr_ceil_div(r->tokens, HR_ROUTE_WARPS),
                                .threads = WARP * HR_ROUTE_WARPS,
                                .early = early};
  const hr_cuda_kernel second = {.function = place, .blocks = r->experts, .threads = HR_PLACE_THREADS, .early = early};
  HR_TRY(hr_cuda_launch(queue, &first, parameters, error));
  return hr_cuda_launch(queue, &second, parameters, error);
}

hr_status hr_cuda_route(hr_device *device, const hr_route_arguments *route, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = launch_route(&queue, route, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

/* ---- few tokens, with the router before ---- */

#define ROUTER_SCORES_MAX 2048 /* of the first block */
#define ROUTER_COPIES_MAX 512

/* Only GPUs with clusters. */
bool hr_cuda_routes_few(const hr_device *device, const hr_router_arguments *x)
{
  const hr_cuda *cuda = device->state;
  const hr_linear_arguments *l = &x->linear;
  return cuda->capability >= 90 && l->rows <= HR_LINEAR_ROWS_MAX && l->n * l->k <= HR_ROUTER_WEIGHTS_MAX &&
         hr_linear_rows(l->rows) * l->n <= ROUTER_SCORES_MAX && l->rows * x->route.active <= ROUTER_COPIES_MAX &&
         hr_linear_norm_bytes(l->norm, l->rows, l->k, l->dtype) <= HR_LINEAR_NORM_BYTES_MAX;
}

void hr_router_defines(const hr_router_arguments *x, char text[HR_DEFINES_SIZE])
{
  const hr_linear_arguments *l = &x->linear;
  char norm[HR_NUMBER_SIZE] = "";
  if (l->norm != HR_ROWWISE_COUNT)
    snprintf(norm, sizeof norm, " HR_NORM=%d", l->norm == HR_ROWWISE_RMS_NORM ? 1 : 2);
  snprintf(text, HR_DEFINES_SIZE, "HR_NORM_TOKENS=%d HR_LOAD=%d HR_EXPERTS=%d HR_ACTIVE=%d%s", hr_linear_rows(l->rows),
           hr_linear_load_bytes(l), (int)l->n, (int)x->route.active, norm);
}

/* In the device's context. */
static hr_status launch_router(const hr_cuda_queue *queue, const hr_router_arguments *x, hr_error *error)
{
  const hr_linear_arguments *l = &x->linear;
  const size_t shared = (size_t)hr_linear_norm_bytes(l->norm, l->rows, l->k, l->dtype);
  hr_router_call call = {call_of(&x->route), hr_linear_call(l), hr_cuda_address(x->normed)};
  void *parameters[] = {&call};
  char defines[HR_DEFINES_SIZE];
  hr_cuda_kernel kernel = {
      .blocks = HR_ROUTER_CLUSTER, .threads = HR_ROUTER_THREADS, .shared_bytes = shared, .early = true};
  hr_router_defines(x, defines);
  HR_TRY(hr_cuda_function_shared(queue->cuda, "experts_router", l->dtype, defines, "route_tokens", shared,
                                 &kernel.function, error));
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

hr_status hr_cuda_route_few(hr_device *device, const hr_router_arguments *router, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = launch_router(&queue, router, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

/* ---- their GEMMs ---- */

/* Few copies, or any: up to 8 of an expert at a time. In the device's context. */
static hr_status launch_few(const hr_cuda_queue *queue, const hr_grouped_arguments *x, hr_error *error)
{
  const hr_linear_arguments linear = {.rows = x->copies,
                                      .n = x->n,
                                      .k = x->k,
                                      .x_stride = x->k,
                                      .dtype = x->dtype,
                                      .norm = HR_ROWWISE_COUNT,
                                      .activation = HR_ROWWISE_COUNT,
                                      .x = x->a,
                                      .weight = x->b,
                                      .y = x->c,
                                      .experts = x->experts,
                                      .most = x->most,
                                      .offsets = x->offsets};
  return hr_cuda_launch_linear(queue, &linear, error);
}

/* ---- many, by WGMMA ---- */

/* Tiles of copies by how many an expert has in the mean; the stages fill a multiprocessor's shared memory, shared by
 * `resident` blocks. */
static const struct many_tiling {
  int64_t copies; /* in the mean, at least */
  int tile, stages, resident;
} tilings[] = {{384, 256, 4, 1}, {96, 128, 6, 1}, {48, 64, 4, 2}, {24, 32, 5, 2}, {0, 16, 5, 2}};

#define STAGE_ALIGNMENT 1024

static struct many_tiling tiling_for(int64_t mean)
{
  int i = 0;
  while (mean < tilings[i].copies)
    i++;
  return tilings[i];
}

void hr_grouped_defines(int64_t mean, char text[HR_DEFINES_SIZE])
{
  const struct many_tiling t = tiling_for(mean);
  snprintf(text, HR_DEFINES_SIZE, "HR_TILE=%d HR_STAGES=%d HR_RESIDENT=%d", t.tile, t.stages, t.resident);
}

/* Only this generation has WGMMA. */
static bool takes_many(const hr_cuda *cuda, const hr_grouped_arguments *x)
{
  const uint64_t addresses = hr_cuda_address(x->a) | hr_cuda_address(x->b) | hr_cuda_address(x->c);
  return cuda->capability / 10 == 9 && hr_dtype_bytes(x->dtype) == 2 && x->k % 8 == 0 && addresses % 16 == 0 &&
         x->most > HR_LINEAR_ROWS_MAX;
}

static hr_status describe_tensors(const hr_cuda *cuda, const hr_grouped_arguments *x, int tile, cu_tensor_map maps[2],
                                  hr_error *error)
{
  const int64_t w_strides[] = {x->k, x->n * x->k, 0}, w_sizes[] = {x->k, x->n, x->experts, 1};
  const int64_t x_strides[] = {x->k, 0, 0}, x_sizes[] = {x->k, x->copies, 1, 1};
  HR_TRY(
      hr_tensor_map_of_boxes(&cuda->driver, x->dtype, x->b, w_strides, w_sizes, HR_GROUPED_ROWS, 1, &maps[0], error));
  return hr_tensor_map_of_boxes(&cuda->driver, x->dtype, x->a, x_strides, x_sizes, tile, 1, &maps[1], error);
}

/* In the device's context. */
static hr_status launch_many(const hr_cuda_queue *queue, const hr_grouped_arguments *x, hr_error *error)
{
  const struct many_tiling t = tiling_for(x->mean);
  const size_t shared = (size_t)(t.stages * (HR_GROUPED_ROWS + t.tile) * HR_GROUPED_STAGE_ROW) + STAGE_ALIGNMENT;
  char defines[HR_DEFINES_SIZE];
  cu_function function;
  cu_tensor_map maps[2];
  hr_grouped_defines(x->mean, defines);
  HR_TRY(hr_cuda_function_shared(queue->cuda, "grouped_gemm_sm90", x->dtype, defines, "grouped_gemm", shared, &function,
                                 error));
  HR_TRY(describe_tensors(queue->cuda, x, t.tile, maps, error));
  hr_grouped_call call = {.y = hr_cuda_address(x->c),
                          .offsets = hr_cuda_address(x->offsets),
                          .n = x->n,
                          .k = x->k,
                          .experts = (int)x->experts,
                          .row_tiles = (int)hr_ceil_div(x->n, HR_GROUPED_ROWS)};
  void *parameters[] = {&call, &maps[0], &maps[1]};
  const hr_cuda_kernel kernel = {.function = function,
                                 .blocks = hr_ceil_div(hr_grouped_tiles(x, t.tile), HR_GROUPED_BAND) * HR_GROUPED_BAND *
                                           call.row_tiles,
                                 .threads = HR_GROUPED_THREADS,
                                 .shared_bytes = shared,
                                 .early = true};
  return hr_cuda_launch(queue, &kernel, parameters, error);
}

hr_status hr_cuda_multiply_groups(hr_device *device, const hr_grouped_arguments *grouped, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = grouped->back                     ? hr_cuda_launch_grouped_inputs(&queue, grouped, error)
                     : takes_many(queue.cuda, grouped) ? launch_many(&queue, grouped, error)
                                                       : launch_few(&queue, grouped, error);
  hr_cuda_leave(queue.cuda);
  return status;
}

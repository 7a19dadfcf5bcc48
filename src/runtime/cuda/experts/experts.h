/* SPDX-License-Identifier: Apache-2.0 */
/* Routed experts on a GPU. */
#ifndef HR_RUNTIME_CUDA_EXPERTS_EXPERTS_H
#define HR_RUNTIME_CUDA_EXPERTS_EXPERTS_H

#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/driver/program.h"
#include "runtime/device/device.h"
#include "runtime/device/experts.h"

/** hr_backend.route, multiply_groups and their gradients. */
hr_status hr_cuda_route(hr_device *device, const hr_route_arguments *route, void *stream, hr_error *error);
hr_status hr_cuda_multiply_groups(hr_device *device, const hr_grouped_arguments *grouped, void *stream,
                                  hr_error *error);
hr_status hr_cuda_route_backward(hr_device *device, const hr_route_backward_arguments *route, void *stream,
                                 hr_error *error);
hr_status hr_cuda_group_gradients(hr_device *device, const hr_grouped_gradient_arguments *grouped, void *stream,
                                  hr_error *error);

/** The most tiles of up to `tile` copies of one expert; each expert with copies has at least one. */
static inline int64_t hr_grouped_tiles(const hr_grouped_arguments *grouped, int64_t tile)
{
  const int64_t copies = grouped->copies, experts = grouped->experts < copies ? grouped->experts : copies;
  const int64_t most = (copies + tile - 1) / tile + experts;
  return most < copies ? most : copies;
}

/** hr_grouped_arguments.back. In the device's context. */
hr_status hr_cuda_launch_grouped_inputs(const hr_cuda_queue *queue, const hr_grouped_arguments *grouped,
                                        hr_error *error);

/** hr_backend.routes_few and route_few. */
bool hr_cuda_routes_few(const hr_device *device, const hr_router_arguments *router);
hr_status hr_cuda_route_few(hr_device *device, const hr_router_arguments *router, void *stream, hr_error *error);

/** The definitions of kernels/experts_router.cu. */
void hr_router_defines(const hr_router_arguments *router, char text[HR_DEFINES_SIZE]);

/** The definitions of kernels/grouped_gemm_sm90.cu where experts have so many copies in the mean. */
void hr_grouped_defines(int64_t mean, char text[HR_DEFINES_SIZE]);

#endif

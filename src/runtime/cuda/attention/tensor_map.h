/* SPDX-License-Identifier: Apache-2.0 */
/* TMA tensor maps of attention's operands, for boxes of a panel's columns (attention_layout.h). */
#ifndef HR_RUNTIME_CUDA_ATTENTION_TENSOR_MAP_H
#define HR_RUNTIME_CUDA_ATTENTION_TENSOR_MAP_H

#include "runtime/cuda/driver/tensor_boxes.h"

#include <headroom/attention.h>

/** Whether tensor maps can have the lengths and strides of Q, K, V and O. */
bool hr_tensor_strides_fit(const hr_attention *attention);

/** A tensor map of [dim, heads, length, batch], innermost first, for boxes of `rows` rows of one head. */
hr_status hr_tensor_map_of_rows(const hr_driver *driver, hr_dtype dtype, const void *address, hr_strides at,
                                const int64_t sizes[4], int rows, cu_tensor_map *map, hr_error *error);

#endif

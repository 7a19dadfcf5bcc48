/* SPDX-License-Identifier: Apache-2.0 */
/* TMA tensor maps of boxes. */
#ifndef HR_RUNTIME_CUDA_DRIVER_TENSOR_BOXES_H
#define HR_RUNTIME_CUDA_DRIVER_TENSOR_BOXES_H

#include "runtime/cuda/driver/driver.h"

#include <headroom/dtype.h>

/** A tensor map of sizes[0], innermost, to sizes[3], for boxes of a panel's columns, which are 128 bytes, box_1 and
 *  box_2. `elements` are the strides of the outer three; that of a dimension of size 1 is not used, but has to be
 *  valid. */
hr_status hr_tensor_map_of_boxes(const hr_driver *driver, hr_dtype dtype, const void *address,
                                 const int64_t elements[3], const int64_t sizes[4], int box_1, int box_2,
                                 cu_tensor_map *map, hr_error *error);

/** The same for boxes of other columns, of whole 16 bytes. Rows of 128 and of 64 bytes are swizzled. */
hr_status hr_tensor_map_of_columns(const hr_driver *driver, hr_dtype dtype, const void *address,
                                   const int64_t elements[3], const int64_t sizes[4], const int boxes[3],
                                   cu_tensor_map *map, hr_error *error);

#endif

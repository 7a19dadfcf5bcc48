/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/tensor_boxes.h"

#include "base/error.h"

#define PANEL_BYTES 128 /* of a swizzled row */

static int tensor_type(hr_dtype dtype)
{
  return dtype == HR_FP8_E4M3 ? CU_TENSOR_UINT8 : dtype == HR_FP16 ? CU_TENSOR_FP16 : CU_TENSOR_BF16;
}

static int swizzle_of(size_t row_bytes)
{
  return row_bytes == PANEL_BYTES ? CU_SWIZZLE_128 : row_bytes == PANEL_BYTES / 2 ? CU_SWIZZLE_64 : CU_SWIZZLE_NONE;
}

hr_status hr_tensor_map_of_columns(const hr_driver *driver, hr_dtype dtype, const void *address,
                                   const int64_t elements[3], const int64_t sizes[4], const int boxes[3],
                                   cu_tensor_map *map, hr_error *error)
{
  uint64_t dims[4], strides[3];
  uint32_t box[4] = {(uint32_t)boxes[0], (uint32_t)boxes[1], (uint32_t)boxes[2], 1};
  uint32_t steps[4] = {1, 1, 1, 1};
  for (int i = 0; i < 4; i++)
    dims[i] = (uint64_t)sizes[i];
  for (int i = 0; i < 3; i++)
    strides[i] = sizes[i + 1] > 1 ? (uint64_t)elements[i] * hr_dtype_bytes(dtype) : 16;
  return HR_CU(driver, cuTensorMapEncodeTiled,
               (map, tensor_type(dtype), 4, (void *)(uintptr_t)address, dims, strides, box, steps, 0,
                swizzle_of(box[0] * hr_dtype_bytes(dtype)), CU_PROMOTE_256, 0),
               error);
}

hr_status hr_tensor_map_of_boxes(const hr_driver *driver, hr_dtype dtype, const void *address,
                                 const int64_t elements[3], const int64_t sizes[4], int box_1, int box_2,
                                 cu_tensor_map *map, hr_error *error)
{
  const int boxes[3] = {PANEL_BYTES / (int)hr_dtype_bytes(dtype), box_1, box_2};
  return hr_tensor_map_of_columns(driver, dtype, address, elements, sizes, boxes, map, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/attention/tensor_map.h"

#include "base/error.h"
#include "runtime/cuda/kernels/attention_layout.h"
#include "runtime/operation/attention_sequences.h"

#define TENSOR_BYTES_MAX ((int64_t)1 << 40) /* strides of a tensor map are smaller */

/* Whether a tensor map can have a dimension of `size` with this stride in elements. */
static bool stride_fits(const hr_attention *a, int64_t stride, int64_t size)
{
  return size == 1 || (stride > 0 && stride < TENSOR_BYTES_MAX / (int64_t)hr_dtype_bytes(a->dtype));
}

bool hr_tensor_strides_fit(const hr_attention *a)
{
  bool variable = a->variable_lengths;
  int64_t rows = variable ? a->q_total : a->q_len, keys = variable ? a->kv_total : a->kv_len;
  const int64_t lengths[] = {rows, keys, keys, rows}, heads[] = {a->q_heads, a->k_heads, a->v_heads, a->q_heads};
  if (rows == 0 || keys == 0)
    return false;
  for (int i = HR_OPERAND_Q; i <= HR_OPERAND_O; i++) {
    hr_strides s = hr_attention_strides(a, (hr_attention_operand)i);
    if (!stride_fits(a, s.batch, variable ? 1 : a->batch) || !stride_fits(a, s.row, lengths[i]) ||
        !stride_fits(a, s.head, heads[i]))
      return false;
  }
  return true;
}

static int tensor_type(hr_dtype dtype)
{
  return dtype == HR_FP8_E4M3 ? CU_TENSOR_UINT8 : dtype == HR_FP16 ? CU_TENSOR_FP16 : CU_TENSOR_BF16;
}

hr_status hr_tensor_map_of_boxes(const hr_driver *driver, hr_dtype dtype, const void *address,
                                 const int64_t elements[3], const int64_t sizes[4], int box_1, int box_2,
                                 cu_tensor_map *map, hr_error *error)
{
  uint64_t dims[4], strides[3];
  uint32_t box[4] = {(uint32_t)hr_sm90_panel((int)hr_dtype_bytes(dtype)), (uint32_t)box_1, (uint32_t)box_2, 1};
  uint32_t steps[4] = {1, 1, 1, 1};
  for (int i = 0; i < 4; i++)
    dims[i] = (uint64_t)sizes[i];
  for (int i = 0; i < 3; i++)
    strides[i] = sizes[i + 1] > 1 ? (uint64_t)elements[i] * hr_dtype_bytes(dtype) : 16;
  return HR_CU(driver, cuTensorMapEncodeTiled,
               (map, tensor_type(dtype), 4, (void *)(uintptr_t)address, dims, strides, box, steps, 0, CU_SWIZZLE_128,
                CU_PROMOTE_256, 0),
               error);
}

hr_status hr_tensor_map_of_rows(const hr_driver *driver, hr_dtype dtype, const void *address, hr_strides at,
                                const int64_t sizes[4], int rows, cu_tensor_map *map, hr_error *error)
{
  const int64_t elements[3] = {at.head, at.row, at.batch};
  return hr_tensor_map_of_boxes(driver, dtype, address, elements, sizes, 1, rows, map, error);
}

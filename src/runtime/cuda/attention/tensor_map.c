/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/attention/tensor_map.h"

#include "base/error.h"
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

hr_status hr_tensor_map_of_rows(const hr_driver *driver, hr_dtype dtype, const void *address, hr_strides at,
                                const int64_t sizes[4], int rows, cu_tensor_map *map, hr_error *error)
{
  const int64_t elements[3] = {at.head, at.row, at.batch};
  return hr_tensor_map_of_boxes(driver, dtype, address, elements, sizes, 1, rows, map, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/alignment.h"

#include "base/error.h"

#include <inttypes.h>

hr_status hr_check_alignment(int64_t alignment, hr_dtype dtype, hr_error *error)
{
  int64_t bytes = hr_alignment(alignment), element = (int64_t)hr_dtype_bytes(dtype);
  if (alignment < 0 || bytes < element || bytes > HR_ALIGNMENT_MAX || (bytes & (bytes - 1)) != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "alignment: expected 0 or a power of two from %" PRId64 " to %d, found %" PRId64, element,
                   HR_ALIGNMENT_MAX, alignment);
  return HR_OK;
}

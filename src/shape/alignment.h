/* SPDX-License-Identifier: Apache-2.0 */
/* The alignment of a problem's operands. */
#ifndef HR_SHAPE_ALIGNMENT_H
#define HR_SHAPE_ALIGNMENT_H

#include <headroom/dtype.h>
#include <stdint.h>

#define HR_ALIGNMENT_DEFAULT 16
#define HR_ALIGNMENT_MAX 4096

/** The bytes of which addresses are multiples; `alignment` is that of a problem, 0 the default. */
static inline int64_t hr_alignment(int64_t alignment)
{
  return alignment > 0 ? alignment : HR_ALIGNMENT_DEFAULT;
}

/** HR_ERROR_INVALID unless `alignment` is 0 or a power of two, from the bytes of an element to HR_ALIGNMENT_MAX. */
hr_status hr_check_alignment(int64_t alignment, hr_dtype dtype, hr_error *error);

#endif

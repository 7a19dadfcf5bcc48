/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/dtype.h>

#include "base/error.h"
#include "base/names.h"

static const char *const names[] = {
#define ROW(enumerator, name, bytes) name,
    HR_DTYPE_LIST(ROW)
#undef ROW
};

static const size_t sizes[] = {
#define ROW(enumerator, name, bytes) bytes,
    HR_DTYPE_LIST(ROW)
#undef ROW
};

HR_DEFINE_NAME(hr_dtype_name, hr_dtype, names, HR_DTYPE_COUNT)

size_t hr_dtype_bytes(hr_dtype dtype)
{
  return (unsigned)dtype < HR_DTYPE_COUNT ? sizes[dtype] : 0;
}

HR_DEFINE_PARSE(hr_dtype_parse, hr_dtype, names, HR_DTYPE_COUNT)

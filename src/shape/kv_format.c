/* SPDX-License-Identifier: Apache-2.0 */
/* Names and bytes of the formats of caches. */
#include "shape/kv_format.h"

#include "base/error.h"
#include "base/names.h"

#include <headroom/dtype.h>
#include <inttypes.h>

static const char *const format_names[] = {
#define ROW(enumerator, name, values, bytes) name,
    HR_KV_FORMAT_LIST(ROW)
#undef ROW
};

static const struct block_row {
  int64_t values, bytes; /* bytes 0: those of the number format */
} blocks[] = {
#define ROW(enumerator, name, values, bytes) {values, bytes},
    HR_KV_FORMAT_LIST(ROW)
#undef ROW
};

static const char *const scales_names[] = {
#define ROW(enumerator, name) name,
    HR_KV_SCALES_LIST(ROW)
#undef ROW
};

HR_DEFINE_NAME(hr_kv_format_name, hr_kv_format, format_names, HR_KV_FORMAT_COUNT)
HR_DEFINE_NAME(hr_kv_scales_name, hr_kv_scales, scales_names, HR_KV_SCALES_COUNT)
HR_DEFINE_PARSE(hr_kv_format_parse, hr_kv_format, format_names, HR_KV_FORMAT_COUNT)
HR_DEFINE_PARSE(hr_kv_scales_parse, hr_kv_scales, scales_names, HR_KV_SCALES_COUNT)

bool hr_kv_has_scales_apart(hr_kv_format format)
{
  return format == HR_KV_FP8 || format == HR_KV_INT8;
}

hr_checked64 hr_kv_bytes(hr_kv_format format, hr_dtype dtype, hr_checked64 elements)
{
  const struct block_row *block = &blocks[format];
  int64_t bytes = block->bytes > 0 ? block->bytes : (int64_t)hr_dtype_bytes(dtype);
  elements.value = hr_ceil_div(elements.value, block->values);
  return hr_times(elements, bytes);
}

hr_status hr_kv_format_check(const char *member, hr_kv_format format, hr_error *error)
{
  if ((unsigned)format < HR_KV_FORMAT_COUNT)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: %d is not a format", member, (int)format);
}

hr_status hr_kv_dim_check(const char *member, hr_kv_format format, int64_t dim, hr_error *error)
{
  if (dim % blocks[format].values == 0)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID,
                 "%s: %s has blocks of %" PRId64 " values, which do not divide a head of %" PRId64, member,
                 hr_kv_format_name(format), blocks[format].values, dim);
}

hr_status hr_kv_readable_check(const char *member, hr_kv_format format, hr_error *error)
{
  if ((unsigned)format < HR_KV_READABLE_COUNT)
    return HR_OK;
  return hr_fail(error, HR_ERROR_UNSUPPORTED,
                 "%s: no kernel of Headroom reads %s, which is counted and predicted alone", member,
                 hr_kv_format_name(format));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the formats of quantized caches. */
#include <headroom/decode.h>

#include "base/error.h"
#include "base/names.h"

static const char *const format_names[] = {
#define ROW(enumerator, name) name,
    HR_KV_FORMAT_LIST(ROW)
#undef ROW
};

static const char *const scales_names[] = {
#define ROW(enumerator, name) name,
    HR_KV_SCALES_LIST(ROW)
#undef ROW
};

const char *hr_kv_format_name(hr_kv_format format)
{
  return hr_name_of(format_names, HR_KV_FORMAT_COUNT, (int)format);
}

const char *hr_kv_scales_name(hr_kv_scales scales)
{
  return hr_name_of(scales_names, HR_KV_SCALES_COUNT, (int)scales);
}

hr_status hr_kv_format_parse(const char *name, hr_kv_format *format)
{
  HR_NEED(NULL, name, format);
  int value;
  HR_TRY(hr_name_find(format_names, HR_KV_FORMAT_COUNT, name, &value));
  *format = (hr_kv_format)value;
  return HR_OK;
}

hr_status hr_kv_scales_parse(const char *name, hr_kv_scales *scales)
{
  HR_NEED(NULL, name, scales);
  int value;
  HR_TRY(hr_name_find(scales_names, HR_KV_SCALES_COUNT, name, &value));
  *scales = (hr_kv_scales)value;
  return HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of K and V in a cache, by format. */
#ifndef HR_SHAPE_KV_FORMAT_H
#define HR_SHAPE_KV_FORMAT_H

#include "base/checked.h"

#include <headroom/decode.h>

/** Tokens of a page where nothing else is said: in most servers, and where a layer is measured. */
#define HR_KV_PAGE_USUAL 16

/** Whether elements are bytes whose scales stand beside the cache: those of HR_KV_FP8 and HR_KV_INT8. */
bool hr_kv_has_scales_apart(hr_kv_format format);

/** Bytes of so many elements with the scales of their blocks. `format` is in the list. */
hr_checked64 hr_kv_bytes(hr_kv_format format, hr_dtype dtype, hr_checked64 elements);

/** HR_ERROR_INVALID, named after `member`, for a format outside of the list. */
hr_status hr_kv_format_check(const char *member, hr_kv_format format, hr_error *error);

/** HR_ERROR_INVALID if a head of `dim` elements is not whole blocks, which other programs refuse. */
hr_status hr_kv_dim_check(const char *member, hr_kv_format format, int64_t dim, hr_error *error);

/** HR_ERROR_UNSUPPORTED, named after `member`, for a format that is counted and predicted alone. */
hr_status hr_kv_readable_check(const char *member, hr_kv_format format, hr_error *error);

#endif

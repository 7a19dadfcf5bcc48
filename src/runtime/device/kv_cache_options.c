/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/kv_cache.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "shape/kv_format.h"

#include <inttypes.h>
#include <math.h>

#define DIM_MAX ((int64_t)1 << 20)

void hr_kv_cache_options_init(hr_kv_cache_options *options, size_t size)
{
  HR_INIT(options, size,
          (hr_kv_cache_options){.k_heads = 1,
                                .v_heads = 1,
                                .qk_dim = 64,
                                .v_dim = 64,
                                .dtype = HR_BF16,
                                .page_size = 16,
                                .slots = 1,
                                .tokens = 4096});
}

static hr_status check_sizes(const hr_kv_cache_options *o, hr_error *error)
{
  bool paged = o->page_size != 0;
  const struct {
    const char *name;
    int64_t value, least, most;
  } sizes[] = {{"k_heads", o->k_heads, 1, DIM_MAX},
               {"v_heads", o->v_heads, 1, DIM_MAX},
               {"qk_dim", o->qk_dim, 1, DIM_MAX},
               {"v_dim", o->v_dim, 1, DIM_MAX},
               {"page_size", o->page_size, paged ? HR_KV_PAGE_MIN : 0, HR_KV_PAGE_MAX},
               {"slots", o->slots, 1, INT32_MAX},
               {"tokens", o->tokens, 1, INT32_MAX},
               {"pages", o->pages, 0, paged ? INT32_MAX : 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected %" PRId64 " to %" PRId64 ", found %" PRId64, sizes[i].name,
                     sizes[i].least, sizes[i].most, sizes[i].value);
  }
  return HR_OK;
}

/* Checks the scales of HR_KV_SCALE_HEAD. */
static hr_status check_scales(const char *name, const float *scales, int64_t heads, hr_error *error)
{
  for (int64_t i = 0; scales && i < heads; i++)
    if (!isnormal(scales[i]) || scales[i] < 0)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected positive normal numbers, found %g for head %" PRId64, name,
                     (double)scales[i], i);
  return HR_OK;
}

static hr_status check_format(const hr_kv_cache_options *o, hr_error *error)
{
  HR_TRY(hr_kv_format_check("cache_format", o->cache_format, error));
  HR_TRY(hr_kv_readable_check("cache_format", o->cache_format, error));
  if ((unsigned)o->cache_scales >= HR_KV_SCALES_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "cache_scales: %d is not a kind of scales", (int)o->cache_scales);
  if (o->cache_format == HR_KV_UNQUANTIZED)
    return HR_OK;
  if (hr_max64(o->qk_dim, o->v_dim) > HR_KV_QUANTIZED_DIM_MAX)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "cache_format: a quantized cache takes head sizes up to %d, not %" PRId64, HR_KV_QUANTIZED_DIM_MAX,
                   hr_max64(o->qk_dim, o->v_dim));
  if (o->cache_scales == HR_KV_SCALE_TOKEN)
    return HR_OK;
  HR_TRY(check_scales("k_scales", o->k_scales, o->k_heads, error));
  return o->latent ? HR_OK : check_scales("v_scales", o->v_scales, o->v_heads, error);
}

hr_status hr_kv_cache_check_options(const hr_kv_cache_options *options, hr_error *error)
{
  const hr_kv_cache_options *o = options;
  HR_TRY(check_sizes(o, error));
  if (o->latent && (o->k_heads != 1 || o->v_heads != 1 || o->v_dim > o->qk_dim))
    return hr_fail(error, HR_ERROR_INVALID,
                   "latent: expected one K head that begins with V, found %" PRId64 " K heads of %" PRId64
                   " and %" PRId64 " V heads of %" PRId64,
                   o->k_heads, o->qk_dim, o->v_heads, o->v_dim);
  if (hr_dtype_bytes(o->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)o->dtype);
  if (o->dtype != HR_FP32 && o->dtype != HR_FP16 && o->dtype != HR_BF16)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "dtype: a KV cache takes fp32, fp16 and bf16, not %s",
                   hr_dtype_name(o->dtype));
  return check_format(o, error);
}

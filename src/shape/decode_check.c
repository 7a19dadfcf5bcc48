/* SPDX-License-Identifier: Apache-2.0 */
/* What hr_decode_check() refuses. */
#include <headroom/experimental/decode.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "shape/alignment.h"
#include "shape/kv_format.h"

#include <inttypes.h>
#include <math.h>

#define LARGEST_SIZE ((int64_t)1 << 40) /* leaves room for padding and tile sizes within 63 bits */

static hr_status check_sizes(const hr_decode *d, hr_error *error)
{
  const struct {
    const char *name;
    int64_t value, least, most;
  } sizes[] = {{"batch", d->batch, 1, INT32_MAX},
               {"q_len", d->q_len, 1, HR_DECODE_Q_LEN_MAX},
               {"kv_len", d->kv_len, 0, INT32_MAX},
               {"q_heads", d->q_heads, 1, INT32_MAX},
               {"k_heads", d->k_heads, 1, INT32_MAX},
               {"v_heads", d->v_heads, 1, INT32_MAX},
               {"qk_dim", d->qk_dim, 1, LARGEST_SIZE},
               {"v_dim", d->v_dim, 1, LARGEST_SIZE},
               {"page_size", d->page_size, 1, INT32_MAX},
               {"page_count", d->page_count, 1, INT32_MAX},
               {"table_pitch", d->table_pitch, 1, INT32_MAX},
               {"window", d->window, 0, LARGEST_SIZE},
               {"top_k", d->top_k, 0, LARGEST_SIZE}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected %" PRId64 " to %" PRId64 ", found %" PRId64, sizes[i].name,
                     sizes[i].least, sizes[i].most, sizes[i].value);
  }
  return HR_OK;
}

static hr_status check_heads(const hr_decode *d, hr_error *error)
{
  const struct {
    const char *name;
    int64_t heads;
  } shared[] = {{"k_heads", d->k_heads}, {"v_heads", d->v_heads}};
  for (size_t i = 0; i < 2; i++) {
    if (d->q_heads % shared[i].heads != 0)
      return hr_fail(error, HR_ERROR_INVALID, "q_heads %" PRId64 " is not a multiple of %s %" PRId64, d->q_heads,
                     shared[i].name, shared[i].heads);
  }
  if (d->latent && (d->k_heads != 1 || d->v_heads != 1 || d->v_dim > d->qk_dim))
    return hr_fail(error, HR_ERROR_INVALID,
                   "latent: expected one K head that begins with V, found %" PRId64 " K heads of %" PRId64
                   " and %" PRId64 " V heads of %" PRId64,
                   d->k_heads, d->qk_dim, d->v_heads, d->v_dim);
  if (d->latent && d->top_k > 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "top_k: latent attention reads V as part of K, so top_k saves nothing; expected 0, found %" PRId64,
                   d->top_k);
  return HR_OK;
}

static hr_status check_numbers(const hr_decode *d, hr_error *error)
{
  if (hr_dtype_bytes(d->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)d->dtype);
  HR_TRY(hr_kv_format_check("cache_format", d->cache_format, error));
  HR_TRY(hr_kv_dim_check("cache_format", d->cache_format, d->qk_dim, error));
  HR_TRY(hr_kv_dim_check("cache_format", d->cache_format, d->v_dim, error));
  if ((unsigned)d->cache_scales >= HR_KV_SCALES_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "cache_scales: %d is not a kind of scales", (int)d->cache_scales);
  if (!isfinite(d->scale))
    return hr_fail(error, HR_ERROR_INVALID, "scale: expected a finite number, found %g", (double)d->scale);
  if (!isfinite(d->softcap) || d->softcap < 0)
    return hr_fail(error, HR_ERROR_INVALID, "softcap: expected a finite number of at least 0, found %g",
                   (double)d->softcap);
  if (d->alibi && (d->softcap > 0 || d->top_k > 0 || d->latent))
    return hr_fail(error, HR_ERROR_INVALID, "alibi: not with a soft cap, top_k or latent attention");
  return HR_OK;
}

static hr_status check_pages(const hr_decode *d, hr_error *error)
{
  if (d->table_pitch * d->page_size < d->kv_len)
    return hr_fail(error, HR_ERROR_INVALID,
                   "table_pitch: %" PRId64 " pages of %" PRId64 " tokens do not hold kv_len %" PRId64, d->table_pitch,
                   d->page_size, d->kv_len);
  return HR_OK;
}

/* The last element of a cache that strides describe. */
static hr_checked64 cache_end(const hr_decode *d, hr_kv_strides s, int64_t heads, int64_t dim)
{
  hr_checked64 end = hr_times(hr_checked(d->page_count), s.page);
  end = hr_plus(end, hr_times(hr_checked(d->page_size), s.token));
  return hr_plus(hr_plus(end, hr_times(hr_checked(heads), s.head)), hr_checked(dim));
}

static hr_status check_cache_strides(const hr_decode *d, const char *name, hr_kv_strides s, int64_t heads, int64_t dim,
                                     size_t element, hr_error *error)
{
  if (s.page < 0 || s.token < 0 || s.head < 0)
    return hr_fail(error, HR_ERROR_INVALID, "%s: %" PRId64 ", %" PRId64 ", %" PRId64 " must not be negative", name,
                   s.page, s.token, s.head);
  if (hr_times(cache_end(d, s, heads, dim), (int64_t)element).overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%s: the bytes of %" PRId64 " pages do not fit 63 bits", name,
                   d->page_count);
  return HR_OK;
}

static hr_status check_all_cache_strides(const hr_decode *d, hr_error *error)
{
  size_t element = hr_decode_cache_bytes(d);
  HR_TRY(check_cache_strides(d, "k_strides", hr_decode_k_strides(d), d->k_heads, d->qk_dim, element, error));
  HR_TRY(check_cache_strides(d, "v_strides", hr_decode_v_strides(d), d->v_heads, d->v_dim, element, error));
  if (!hr_kv_has_scales_apart(d->cache_format))
    return HR_OK;
  hr_kv_strides k = hr_decode_k_scale_strides(d), v = hr_decode_v_scale_strides(d);
  HR_TRY(check_cache_strides(d, "k_scale_strides", k, d->k_heads, 1, sizeof(float), error));
  return check_cache_strides(d, "v_scale_strides", v, d->v_heads, 1, sizeof(float), error);
}

/* Q and O have the checks of an attention call. */
static hr_status check_query_strides(const hr_decode *d, hr_error *error)
{
  hr_attention a = hr_attention_default();
  a.batch = d->batch, a.q_len = d->q_len, a.kv_len = 1;
  a.q_heads = d->q_heads, a.k_heads = a.v_heads = 1;
  a.qk_dim = d->qk_dim, a.v_dim = d->v_dim;
  a.dtype = d->dtype;
  a.q_strides = d->q_strides, a.o_strides = d->o_strides;
  return hr_attention_check(&a, error);
}

hr_status hr_decode_check(const hr_decode *decode, hr_error *error)
{
  HR_NEED(error, decode);
  HR_TAKE(hr_decode, decode, error);
  const hr_decode *d = decode;
  HR_TRY(check_sizes(d, error));
  HR_TRY(check_heads(d, error));
  HR_TRY(check_numbers(d, error));
  HR_TRY(check_pages(d, error));
  HR_TRY(hr_check_alignment(d->alignment, d->dtype, error));
  int64_t flops, bytes;
  if (hr_decode_flops(d, &flops) != HR_OK || hr_decode_bytes(d, &bytes) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW,
                   "a decode call of %" PRId64 " sequences of %" PRId64 " tokens and %" PRId64
                   " heads is too large to count",
                   d->batch, d->kv_len, d->q_heads);
  hr_checked64 page = hr_times(hr_times(hr_checked(d->page_size), d->k_heads), d->qk_dim);
  hr_checked64 v_page = hr_times(hr_times(hr_checked(d->page_size), d->v_heads), d->v_dim);
  if (page.overflow || v_page.overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "page_size: a page of %" PRId64 " tokens does not fit 63 bits",
                   d->page_size);
  HR_TRY(check_query_strides(d, error));
  return check_all_cache_strides(d, error);
}

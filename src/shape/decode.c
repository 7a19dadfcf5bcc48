/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/decode.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "shape/kv_format.h"

#include <inttypes.h>

#define LARGEST_SIZE ((int64_t)1 << 40)

void hr_decode_init(hr_decode *decode, size_t size)
{
  HR_INIT(decode, size,
          (hr_decode){.batch = 1,
                      .q_len = 1,
                      .kv_len = 1,
                      .q_heads = 1,
                      .k_heads = 1,
                      .v_heads = 1,
                      .qk_dim = 64,
                      .v_dim = 64,
                      .dtype = HR_BF16,
                      .page_size = 1,
                      .page_count = 1,
                      .table_pitch = 1});
}

/* ---- quantized caches ---- */

size_t hr_decode_cache_bytes(const hr_decode *decode)
{
  return (size_t)hr_kv_bytes(decode->cache_format, decode->dtype, hr_checked(1)).value;
}

/* ---- strides ---- */

static hr_strides rows_of_heads(const hr_decode *d, hr_strides given, int64_t dim)
{
  if (given.batch != 0 || given.row != 0 || given.head != 0)
    return given;
  hr_checked64 row = hr_times(hr_checked(d->q_heads), dim);
  return (hr_strides){.batch = hr_times(row, d->q_len).value, .row = row.value, .head = dim};
}

hr_strides hr_decode_q_strides(const hr_decode *decode)
{
  return rows_of_heads(decode, decode->q_strides, decode->qk_dim);
}

hr_strides hr_decode_o_strides(const hr_decode *decode)
{
  return rows_of_heads(decode, decode->o_strides, decode->v_dim);
}

static hr_kv_strides cached(const hr_decode *d, hr_kv_strides given, int64_t heads, int64_t dim)
{
  if (given.page != 0 || given.token != 0 || given.head != 0)
    return given;
  hr_checked64 token = hr_times(hr_checked(heads), dim);
  return (hr_kv_strides){.page = hr_times(token, d->page_size).value, .token = token.value, .head = dim};
}

hr_kv_strides hr_decode_k_strides(const hr_decode *decode)
{
  return cached(decode, decode->k_strides, decode->k_heads, decode->qk_dim);
}

hr_kv_strides hr_decode_v_strides(const hr_decode *decode)
{
  return decode->latent ? hr_decode_k_strides(decode)
                        : cached(decode, decode->v_strides, decode->v_heads, decode->v_dim);
}

static hr_kv_strides scales_at(const hr_decode *d, hr_kv_strides given, int64_t heads)
{
  return d->cache_scales == HR_KV_SCALE_HEAD ? (hr_kv_strides){.head = 1} : cached(d, given, heads, 1);
}

hr_kv_strides hr_decode_k_scale_strides(const hr_decode *decode)
{
  return scales_at(decode, decode->k_scale_strides, decode->k_heads);
}

hr_kv_strides hr_decode_v_scale_strides(const hr_decode *decode)
{
  return decode->latent ? hr_decode_k_scale_strides(decode)
                        : scales_at(decode, decode->v_scale_strides, decode->v_heads);
}

/* ---- counts ---- */

hr_status hr_decode_set_pages(hr_decode *decode, int64_t page_size, hr_error *error)
{
  HR_NEED(error, decode);
  if (page_size < 0)
    return hr_fail(error, HR_ERROR_INVALID, "page_size: expected at least 0, found %" PRId64, page_size);
  int64_t kv_len = hr_max64(1, decode->kv_len), size = page_size > 0 ? page_size : kv_len;
  int64_t pages = hr_ceil_div(kv_len, size);
  hr_checked64 count = hr_times(hr_checked(pages), decode->batch);
  if (count.overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "page_size: %" PRId64 " sequences of %" PRId64 " pages do not fit 63 bits",
                   decode->batch, pages);
  decode->page_size = size;
  decode->table_pitch = pages;
  decode->page_count = count.value;
  return HR_OK;
}

/* Sizes with which the counts below cannot overflow unseen: hr_decode_check() allows no others. */
static bool can_be_counted(const hr_decode *d)
{
  const int64_t sizes[] = {d->batch, d->kv_len, d->q_heads, d->k_heads, d->v_heads, d->qk_dim, d->v_dim};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i] < 0 || sizes[i] > LARGEST_SIZE)
      return false;
  }
  return d->q_len >= 0 && d->q_len <= HR_DECODE_Q_LEN_MAX;
}

/* Keys of one sequence of kv_len tokens. */
typedef struct visible_keys {
  int64_t pairs;  /* of queries and keys that they see */
  int64_t chosen; /* pairs whose V counts, of one query head */
  int64_t keys;   /* that any query sees */
} visible_keys;

static visible_keys count_visible(const hr_decode *d)
{
  int64_t first = d->kv_len;
  visible_keys v = {0};
  for (int64_t i = 0; i < d->q_len; i++) {
    int64_t end = hr_max64(0, d->kv_len - d->q_len + i + 1), seen = d->window > 0 ? hr_min64(d->window, end) : end;
    v.pairs += seen;
    v.chosen += d->top_k > 0 ? hr_min64(d->top_k, seen) : seen;
    first = seen > 0 ? hr_min64(first, end - seen) : first;
  }
  v.keys = d->kv_len - first;
  return v;
}

static hr_checked64 decode_flops(const hr_decode *d)
{
  visible_keys v = count_visible(d);
  hr_checked64 head =
      hr_plus(hr_times(hr_checked(2 * d->qk_dim), v.pairs), hr_times(hr_checked(2 * d->v_dim), v.chosen));
  return hr_times(hr_times(head, d->q_heads), d->batch);
}

/* Rows of a V head that are read, at most. */
static int64_t v_rows(const hr_decode *d, const visible_keys *v)
{
  hr_checked64 chosen = hr_times(hr_checked(v->chosen), d->q_heads / hr_max64(1, d->v_heads));
  return d->top_k == 0 || chosen.overflow ? v->keys : hr_min64(v->keys, chosen.value);
}

static hr_checked64 decode_bytes(const hr_decode *d)
{
  visible_keys v = count_visible(d);
  int64_t v_heads = d->latent ? 0 : d->v_heads;
  hr_checked64 k = hr_kv_bytes(d->cache_format, d->dtype, hr_times(hr_checked(d->k_heads), d->qk_dim));
  hr_checked64 values = hr_kv_bytes(d->cache_format, d->dtype, hr_times(hr_checked(v_heads), d->v_dim));
  int64_t scale = hr_kv_has_scales_apart(d->cache_format) ? (int64_t)sizeof(float) : 0;
  if (d->cache_scales == HR_KV_SCALE_TOKEN) {
    k = hr_plus(k, hr_checked(scale * d->k_heads));
    values = hr_plus(values, hr_checked(scale * v_heads));
  }
  hr_checked64 query = hr_times(hr_times(hr_checked(d->qk_dim + d->v_dim), d->q_heads), d->q_len);
  query = hr_times(query, (int64_t)hr_dtype_bytes(d->dtype));
  hr_checked64 cache = hr_plus(hr_times(k, v.keys), hr_times(values, v_rows(d, &v)));
  hr_checked64 all = hr_times(hr_plus(cache, query), d->batch);
  return d->cache_scales == HR_KV_SCALE_HEAD ? hr_plus(all, hr_checked(scale * (d->k_heads + v_heads))) : all;
}

hr_status hr_decode_flops(const hr_decode *decode, int64_t *flops)
{
  HR_NEED(NULL, decode, flops);
  if (!can_be_counted(decode))
    return HR_ERROR_OVERFLOW;
  return hr_checked_take(decode_flops(decode), flops);
}

hr_status hr_decode_bytes(const hr_decode *decode, int64_t *bytes)
{
  HR_NEED(NULL, decode, bytes);
  if (!can_be_counted(decode))
    return HR_ERROR_OVERFLOW;
  return hr_checked_take(decode_bytes(decode), bytes);
}

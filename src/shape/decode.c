/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/decode.h>

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>

#define SIZE_MOST ((int64_t)1 << 40) /* leaves room for padding and tile sizes within 63 bits */

hr_decode hr_decode_default(void)
{
  return (hr_decode){.struct_size = sizeof(hr_decode),
                     .batch = 1,
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
                     .table_pitch = 1};
}

hr_decode_arguments hr_decode_arguments_default(void)
{
  return (hr_decode_arguments){.struct_size = sizeof(hr_decode_arguments)};
}

/* ---- quantized caches ---- */

static bool is_quantized(const hr_decode *d)
{
  return d->cache_format != HR_KV_UNQUANTIZED;
}

size_t hr_decode_cache_bytes(const hr_decode *decode)
{
  return is_quantized(decode) ? 1 : hr_dtype_bytes(decode->dtype);
}

/* ---- strides ---- */

static hr_strides rows_of_heads(const hr_decode *d, hr_strides given, int64_t dim)
{
  if (given.batch != 0 || given.row != 0 || given.head != 0)
    return given;
  return (hr_strides){.batch = d->q_len * d->q_heads * dim, .row = d->q_heads * dim, .head = dim};
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
  return (hr_kv_strides){.page = d->page_size * heads * dim, .token = heads * dim, .head = dim};
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
  int64_t element = (int64_t)hr_decode_cache_bytes(d), v_heads = d->latent ? 0 : d->v_heads;
  hr_checked64 k = hr_times(hr_times(hr_checked(d->k_heads), d->qk_dim), element);
  hr_checked64 values = hr_times(hr_times(hr_checked(v_heads), d->v_dim), element);
  int64_t scale = is_quantized(d) ? (int64_t)sizeof(float) : 0;
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
  return hr_checked_take(decode_flops(decode), flops);
}

hr_status hr_decode_bytes(const hr_decode *decode, int64_t *bytes)
{
  HR_NEED(NULL, decode, bytes);
  return hr_checked_take(decode_bytes(decode), bytes);
}

/* ---- the check ---- */

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
               {"qk_dim", d->qk_dim, 1, SIZE_MOST},
               {"v_dim", d->v_dim, 1, SIZE_MOST},
               {"page_size", d->page_size, 1, INT32_MAX},
               {"page_count", d->page_count, 1, INT32_MAX},
               {"table_pitch", d->table_pitch, 1, INT32_MAX},
               {"window", d->window, 0, SIZE_MOST},
               {"top_k", d->top_k, 0, SIZE_MOST}};
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
                   "top_k: latent attention reads V with K, so that nothing is saved; expected 0, found %" PRId64,
                   d->top_k);
  return HR_OK;
}

static hr_status check_numbers(const hr_decode *d, hr_error *error)
{
  if (hr_dtype_bytes(d->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)d->dtype);
  if ((unsigned)d->cache_format >= HR_KV_FORMAT_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "cache_format: %d is not a format", (int)d->cache_format);
  if ((unsigned)d->cache_scales >= HR_KV_SCALES_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "cache_scales: %d is no kind of scales", (int)d->cache_scales);
  if (!isfinite(d->scale))
    return hr_fail(error, HR_ERROR_INVALID, "scale: expected a finite number, found %g", (double)d->scale);
  if (!isfinite(d->softcap) || d->softcap < 0)
    return hr_fail(error, HR_ERROR_INVALID, "softcap: expected a finite number of at least 0, found %g",
                   (double)d->softcap);
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
  if (!is_quantized(d))
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
  const hr_decode *d = decode;
  HR_TRY(hr_check_struct_size("hr_decode", d->struct_size, sizeof(hr_decode), error));
  HR_TRY(check_sizes(d, error));
  HR_TRY(check_heads(d, error));
  HR_TRY(check_numbers(d, error));
  HR_TRY(check_pages(d, error));
  if (decode_flops(d).overflow || decode_bytes(d).overflow)
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

/* ---- attention as decode ---- */

static hr_status check_is_decode(const hr_attention *a, hr_error *error)
{
  const char *reason = NULL;
  if (a->q_len < 1 || a->q_len > HR_DECODE_Q_LEN_MAX)
    reason = "decode kernels take 1 to 16 queries";
  else if (a->q_len > 1 && a->mask != HR_MASK_CAUSAL)
    reason = "decode kernels take several queries only with a causal mask";
  else if (a->alibi)
    reason = "decode kernels have no ALiBi";
  else if (a->variable_lengths)
    reason = "decode kernels take no concatenated sequences";
  return reason ? hr_fail(error, HR_ERROR_UNSUPPORTED, "%s", reason) : HR_OK;
}

static hr_kv_strides cache_strides(const hr_attention *a, hr_attention_operand which)
{
  hr_strides s = hr_attention_strides(a, which);
  return (hr_kv_strides){.page = s.batch, .token = s.row, .head = s.head};
}

hr_status hr_decode_from_attention(const hr_attention *attention, hr_decode *decode, hr_error *error)
{
  HR_NEED(error, attention, decode);
  const hr_attention *a = attention;
  HR_TRY(hr_attention_check(a, error));
  HR_TRY(check_is_decode(a, error));
  hr_decode d = hr_decode_default();
  d.batch = a->batch, d.q_len = a->q_len, d.kv_len = a->kv_len;
  d.q_heads = a->q_heads, d.k_heads = a->k_heads, d.v_heads = a->v_heads;
  d.qk_dim = a->qk_dim, d.v_dim = a->v_dim;
  d.dtype = a->dtype;
  d.window = a->window;
  d.scale = a->scale;
  d.softcap = a->softcap;
  d.q_strides = hr_attention_strides(a, HR_OPERAND_Q);
  d.o_strides = hr_attention_strides(a, HR_OPERAND_O);
  d.k_strides = cache_strides(a, HR_OPERAND_K);
  d.v_strides = cache_strides(a, HR_OPERAND_V);
  HR_TRY(hr_decode_set_pages(&d, 0, error));
  HR_TRY(hr_decode_check(&d, error));
  *decode = d;
  return HR_OK;
}

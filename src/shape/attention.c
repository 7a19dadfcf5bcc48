/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/attention.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "shape/alignment.h"
#include "shape/attention_strides.h"

#include <inttypes.h>
#include <math.h>

#define LARGEST_SIZE ((int64_t)1 << 40) /* leaves room for padding and tile sizes within 63 bits */

void hr_attention_init(hr_attention *attention, size_t size)
{
  HR_INIT(attention, size,
          (hr_attention){.batch = 1,
                         .q_len = 1,
                         .kv_len = 1,
                         .q_heads = 1,
                         .k_heads = 1,
                         .v_heads = 1,
                         .qk_dim = 64,
                         .v_dim = 64,
                         .dtype = HR_BF16,
                         .mask = HR_MASK_CAUSAL});
}

hr_dtype hr_attention_output_dtype(const hr_attention *attention)
{
  switch (attention->output) {
  case HR_OUTPUT_BF16: return HR_BF16;
  case HR_OUTPUT_FP16: return HR_FP16;
  case HR_OUTPUT_AS_OPERANDS: break;
  }
  return attention->dtype;
}

/* 1 + 2 + … + n. The even one of n and n + 1 is halved first, so that only the result can overflow. */
static hr_checked64 triangle(int64_t n)
{
  return n % 2 == 0 ? hr_times(hr_checked(n / 2), n + 1) : hr_times(hr_checked((n + 1) / 2), n);
}

/* With a causal mask the last row sees all kv_len keys (or the window), and each row before it one key fewer, down to
 * none. */
static hr_checked64 entries_of(const hr_attention *attention, int64_t q_len, int64_t kv_len)
{
  if (hr_min64(q_len, kv_len) < 0 || hr_max64(q_len, kv_len) > LARGEST_SIZE)
    return (hr_checked64){0, true};
  if (q_len == 0 || kv_len == 0)
    return hr_checked(0);
  if (attention->mask == HR_MASK_NONE)
    return hr_times(hr_checked(q_len), kv_len);
  int64_t most = kv_len;
  if (attention->window > 0)
    most = hr_min64(most, attention->window);
  /* Row i, counted from the last one (i = 0), sees min(kv_len - i, most) keys. */
  int64_t full_rows = hr_min64(q_len, kv_len - most + 1);
  int64_t rows_left = hr_min64(q_len - full_rows, most - 1);
  hr_checked64 entries = hr_times(hr_checked(full_rows), most);
  hr_checked64 each = hr_times(hr_checked(rows_left), most - rows_left); /* as many as the first row has */
  return hr_plus(entries, hr_plus(each, triangle(rows_left - 1)));
}

/* FLOPs of `sequences` sequences with `entries` score entries per head. */
static hr_checked64 flops_of(const hr_attention *attention, hr_checked64 entries, int64_t sequences)
{
  hr_checked64 per_entry = hr_times(hr_plus(hr_checked(attention->qk_dim), hr_checked(attention->v_dim)), 2);
  hr_checked64 heads = hr_times(hr_checked(attention->q_heads), sequences);
  hr_checked64 result = hr_times(hr_times(entries, per_entry.value), heads.value);
  result.overflow = result.overflow || per_entry.overflow || heads.overflow;
  return result;
}

static hr_checked64 attention_entries(const hr_attention *attention)
{
  return entries_of(attention, attention->q_len, attention->kv_len);
}

static hr_checked64 attention_flops(const hr_attention *attention)
{
  return flops_of(attention, attention_entries(attention), attention->batch);
}

static hr_checked64 tensor(hr_checked64 rows, int64_t heads, int64_t dim)
{
  return hr_times(hr_times(rows, heads), dim);
}

/* Keys of all sequences that some query sees. A window ends at its query's own key and the last query's is the last
 * key, so q_len queries see the last q_len + window - 1. */
static hr_checked64 keys_seen(const hr_attention *a)
{
  int64_t sequences = a->variable_lengths ? 1 : a->batch;
  int64_t queries = a->variable_lengths ? a->q_total : a->q_len, keys = a->variable_lengths ? a->kv_total : a->kv_len;
  hr_checked64 before = hr_times(hr_checked(a->window - (a->window > 0)), a->variable_lengths ? a->batch : 1);
  hr_checked64 seen = hr_plus(hr_checked(queries), before);
  bool all = a->window <= 0 || seen.overflow || seen.value > keys;
  return hr_times(all ? hr_checked(keys) : seen, sequences);
}

static hr_checked64 attention_bytes(const hr_attention *a)
{
  hr_checked64 queries = a->variable_lengths ? hr_checked(a->q_total) : hr_times(hr_checked(a->batch), a->q_len);
  hr_checked64 keys = keys_seen(a);
  hr_checked64 q = tensor(queries, a->q_heads, a->qk_dim), o = tensor(queries, a->q_heads, a->v_dim);
  hr_checked64 k = tensor(keys, a->k_heads, a->qk_dim), v = tensor(keys, a->v_heads, a->v_dim);
  int64_t element = (int64_t)hr_dtype_bytes(a->dtype),
          o_element = (int64_t)hr_dtype_bytes(hr_attention_output_dtype(a));
  return hr_plus(hr_times(hr_plus(hr_plus(q, k), v), element), hr_times(o, o_element));
}

hr_status hr_attention_entries(const hr_attention *attention, int64_t *entries)
{
  HR_NEED(NULL, attention, entries);
  return hr_checked_take(attention_entries(attention), entries);
}

hr_status hr_attention_flops(const hr_attention *attention, int64_t *flops)
{
  HR_NEED(NULL, attention, flops);
  if (attention->variable_lengths)
    return HR_ERROR_UNSUPPORTED;
  return hr_checked_take(attention_flops(attention), flops);
}

hr_status hr_attention_flops_of(const hr_attention *attention, const int32_t *q_offsets, const int32_t *kv_offsets,
                                int64_t *flops)
{
  HR_NEED(NULL, attention, q_offsets, kv_offsets, flops);
  hr_checked64 entries = hr_checked(0);
  for (int64_t b = 0; b < attention->batch; b++) {
    hr_checked64 of_one =
        entries_of(attention, (int64_t)q_offsets[b + 1] - q_offsets[b], (int64_t)kv_offsets[b + 1] - kv_offsets[b]);
    entries = hr_plus(entries, of_one);
  }
  return hr_checked_take(flops_of(attention, entries, 1), flops);
}

hr_status hr_attention_bytes(const hr_attention *attention, int64_t *bytes)
{
  HR_NEED(NULL, attention, bytes);
  return hr_checked_take(attention_bytes(attention), bytes);
}

hr_status hr_attention_lse_elements(const hr_attention *attention, int64_t *elements)
{
  HR_NEED(NULL, attention, elements);
  hr_checked64 rows = attention->variable_lengths ? hr_checked(attention->q_total)
                                                  : hr_times(hr_checked(attention->batch), attention->q_len);
  return hr_checked_take(hr_times(rows, attention->q_heads), elements);
}

/* `count` slopes of n heads, n a power of two: of every `step`-th head. */
static void write_slopes(int64_t n, int64_t step, int64_t count, float *slopes)
{
  for (int64_t i = 0; i < count; i++)
    slopes[i] = (float)exp2(-8.0 * (double)(i * step + 1) / (double)n);
}

void hr_attention_alibi_slopes(int64_t q_heads, float *slopes)
{
  if (q_heads < 1)
    return;
  int64_t power = 1;
  while (power <= q_heads / 2)
    power *= 2;
  write_slopes(power, 1, power, slopes);
  write_slopes(2 * power, 2, q_heads - power, slopes + power);
}

/* ---- the check ---- */

static hr_status check_sizes(const hr_attention *a, hr_error *error)
{
  const struct {
    const char *name;
    int64_t value, least;
  } sizes[] = {{"batch", a->batch, 1},      {"q_len", a->q_len, 0},     {"kv_len", a->kv_len, 0},
               {"q_heads", a->q_heads, 1},  {"k_heads", a->k_heads, 1}, {"v_heads", a->v_heads, 1},
               {"qk_dim", a->qk_dim, 1},    {"v_dim", a->v_dim, 1},     {"q_total", a->q_total, 0},
               {"kv_total", a->kv_total, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < sizes[i].least)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected at least %" PRId64 ", found %" PRId64, sizes[i].name,
                     sizes[i].least, sizes[i].value);
    if (sizes[i].value > LARGEST_SIZE)
      return hr_fail(error, HR_ERROR_OVERFLOW, "%s: expected at most 2^40, found %" PRId64, sizes[i].name,
                     sizes[i].value);
  }
  return HR_OK;
}

/* Whether all counts fit. Empty operands count one row, so that their strides fit, too. The rows of scores are those of
 * sequences that all have the largest length. */
static bool counts_fit(const hr_attention *a)
{
  hr_attention most = *a;
  most.q_len = hr_max64(1, a->q_len), most.kv_len = hr_max64(1, a->kv_len);
  most.q_total = hr_max64(1, a->q_total), most.kv_total = hr_max64(1, a->kv_total);
  most.window = 0;
  hr_checked64 rows = hr_times(hr_times(hr_checked(most.batch), most.q_heads), most.q_len);
  return !attention_bytes(&most).overflow && !rows.overflow && !attention_entries(a).overflow &&
         !attention_flops(a).overflow;
}

static hr_status check_divides(const char *name, int64_t heads, int64_t q_heads, hr_error *error)
{
  if (q_heads % heads != 0)
    return hr_fail(error, HR_ERROR_INVALID, "q_heads %" PRId64 " is not a multiple of %s %" PRId64, q_heads, name,
                   heads);
  return HR_OK;
}

/* Offsets have 32 bits. */
static hr_status check_totals(const hr_attention *a, hr_error *error)
{
  int64_t most = a->variable_lengths ? INT32_MAX : 0, total = hr_max64(a->q_total, a->kv_total);
  if (total > most)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected at most %" PRId64 "%s, found %" PRId64,
                   a->q_total > most ? "q_total" : "kv_total", most,
                   a->variable_lengths ? "" : " without variable lengths",
                   a->q_total > most ? a->q_total : a->kv_total);
  return HR_OK;
}

/* Scales of heads, and an O of another format, are those of fp8. */
static hr_status check_formats(const hr_attention *a, hr_error *error)
{
  if (hr_dtype_bytes(a->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)a->dtype);
  if ((unsigned)a->output > HR_OUTPUT_FP16)
    return hr_fail(error, HR_ERROR_INVALID, "output: %d is not in the list", (int)a->output);
  if (a->dtype != HR_FP8_E4M3 && (a->output != HR_OUTPUT_AS_OPERANDS || a->head_scales))
    return hr_fail(error, HR_ERROR_INVALID, "%s: only with operands in fp8, found %s",
                   a->head_scales ? "head_scales" : "output", hr_dtype_name(a->dtype));
  return HR_OK;
}

static hr_status check_scores(const hr_attention *a, hr_error *error)
{
  if (a->mask != HR_MASK_NONE && a->mask != HR_MASK_CAUSAL)
    return hr_fail(error, HR_ERROR_INVALID, "mask: %d is not in the list", (int)a->mask);
  if (a->window < 0 || (a->window > 0 && a->mask != HR_MASK_CAUSAL))
    return hr_fail(error, HR_ERROR_INVALID, "window: %" PRId64 " needs a causal mask and at least 1 key", a->window);
  if (!isfinite(a->scale))
    return hr_fail(error, HR_ERROR_INVALID, "scale: expected a finite number, found %g", (double)a->scale);
  if (!isfinite(a->softcap) || a->softcap < 0)
    return hr_fail(error, HR_ERROR_INVALID, "softcap: expected a finite number of at least 0, found %g",
                   (double)a->softcap);
  return HR_OK;
}

hr_status hr_attention_check(const hr_attention *attention, hr_error *error)
{
  HR_NEED(error, attention);
  HR_TAKE(hr_attention, attention, error);
  HR_TRY(check_sizes(attention, error));
  HR_TRY(check_divides("k_heads", attention->k_heads, attention->q_heads, error));
  HR_TRY(check_divides("v_heads", attention->v_heads, attention->q_heads, error));
  HR_TRY(check_formats(attention, error));
  HR_TRY(hr_check_alignment(attention->alignment, attention->dtype, error));
  HR_TRY(check_scores(attention, error));
  HR_TRY(check_totals(attention, error));
  if (!counts_fit(attention))
    return hr_fail(error, HR_ERROR_OVERFLOW,
                   "an attention call of q_len %" PRId64 ", kv_len %" PRId64 " and %" PRId64
                   " heads is too large to count",
                   attention->q_len, attention->kv_len, attention->q_heads);
  return hr_attention_check_strides(attention, error);
}

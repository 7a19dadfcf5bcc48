#include <headroom/attention.h>

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>

hr_attention hr_attention_default(void)
{
  return (hr_attention){.struct_size = sizeof(hr_attention),
                        .batch = 1,
                        .q_len = 1,
                        .kv_len = 1,
                        .q_heads = 1,
                        .k_heads = 1,
                        .v_heads = 1,
                        .qk_dim = 64,
                        .v_dim = 64,
                        .dtype = HR_BF16,
                        .mask = HR_MASK_CAUSAL};
}

/* 1 + 2 + … + n; the even one of n and n + 1 is halved first so that only the result can overflow. */
static hr_checked64 triangle(int64_t n)
{
  return n % 2 == 0 ? hr_times(hr_checked(n / 2), n + 1) : hr_times(hr_checked((n + 1) / 2), n);
}

/* Causal rows see last_row - i keys fewer than the last one, which sees all kv_len (or the window); rows that would
 * see a negative count see none. */
static hr_checked64 attention_entries(const hr_attention *attention)
{
  if (attention->mask == HR_MASK_NONE)
    return hr_times(hr_checked(attention->q_len), attention->kv_len);
  int64_t most = attention->kv_len;
  if (attention->window > 0)
    most = hr_min64(most, attention->window);
  /* Row i (from the last, i = 0) sees min(kv_len - i, most) keys. */
  int64_t full_rows = hr_min64(attention->q_len, attention->kv_len - most + 1);
  int64_t rows_left = hr_min64(attention->q_len - full_rows, most - 1);
  hr_checked64 entries = hr_times(hr_checked(full_rows), most);
  hr_checked64 upper = triangle(most - 1), lower = triangle(most - 1 - rows_left);
  hr_checked64 tail = {upper.value - lower.value, upper.overflow || lower.overflow};
  return hr_plus(entries, tail);
}

static hr_checked64 attention_flops(const hr_attention *attention)
{
  hr_checked64 per_entry = hr_times(hr_plus(hr_checked(attention->qk_dim), hr_checked(attention->v_dim)), 2);
  hr_checked64 entries = attention_entries(attention);
  hr_checked64 heads = hr_times(hr_checked(attention->q_heads), attention->batch);
  hr_checked64 result = hr_times(hr_times(entries, per_entry.value), heads.value);
  result.overflow = result.overflow || per_entry.overflow || heads.overflow;
  return result;
}

static hr_checked64 tensor(int64_t batch, int64_t length, int64_t heads, int64_t dim)
{
  return hr_times(hr_times(hr_times(hr_checked(batch), length), heads), dim);
}

static hr_checked64 attention_bytes(const hr_attention *a)
{
  hr_checked64 q = tensor(a->batch, a->q_len, a->q_heads, a->qk_dim);
  hr_checked64 k = tensor(a->batch, a->kv_len, a->k_heads, a->qk_dim);
  hr_checked64 v = tensor(a->batch, a->kv_len, a->v_heads, a->v_dim);
  hr_checked64 o = tensor(a->batch, a->q_len, a->q_heads, a->v_dim);
  return hr_times(hr_plus(hr_plus(q, k), hr_plus(v, o)), (int64_t)hr_dtype_bytes(a->dtype));
}

hr_status hr_attention_entries(const hr_attention *attention, int64_t *entries)
{
  return hr_checked_take(attention_entries(attention), entries);
}

hr_status hr_attention_flops(const hr_attention *attention, int64_t *flops)
{
  return hr_checked_take(attention_flops(attention), flops);
}

hr_status hr_attention_bytes(const hr_attention *attention, int64_t *bytes)
{
  return hr_checked_take(attention_bytes(attention), bytes);
}

static hr_status check_divides(const char *name, int64_t heads, int64_t q_heads, hr_error *error)
{
  if (q_heads % heads != 0)
    return hr_fail(error, HR_ERROR_INVALID, "q_heads %" PRId64 " is not a multiple of %s %" PRId64, q_heads, name,
                   heads);
  return HR_OK;
}

hr_status hr_attention_check(const hr_attention *a, hr_error *error)
{
  const struct {
    const char *name;
    int64_t value;
  } sizes[] = {{"batch", a->batch},     {"q_len", a->q_len},     {"kv_len", a->kv_len}, {"q_heads", a->q_heads},
               {"k_heads", a->k_heads}, {"v_heads", a->v_heads}, {"qk_dim", a->qk_dim}, {"v_dim", a->v_dim}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < 1)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected at least 1, found %" PRId64, sizes[i].name, sizes[i].value);
  }
  HR_TRY(check_divides("k_heads", a->k_heads, a->q_heads, error));
  HR_TRY(check_divides("v_heads", a->v_heads, a->q_heads, error));
  if (hr_dtype_bytes(a->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is no number format", (int)a->dtype);
  if (a->window < 0 || (a->window > 0 && a->mask != HR_MASK_CAUSAL))
    return hr_fail(error, HR_ERROR_INVALID, "window: %" PRId64 " needs a causal mask and at least 1 key", a->window);
  if (attention_entries(a).overflow || attention_flops(a).overflow || attention_bytes(a).overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW,
                   "an attention of q_len %" PRId64 ", kv_len %" PRId64 " and %" PRId64 " heads is too large to count",
                   a->q_len, a->kv_len, a->q_heads);
  return HR_OK;
}

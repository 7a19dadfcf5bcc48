/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/decode.h"

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

double hr_decode_scale(const hr_decode *decode)
{
  return decode->scale != 0 ? (double)decode->scale : 1.0 / sqrt((double)decode->qk_dim);
}

/* ---- sequences ---- */

int64_t hr_decode_length(const hr_decode *decode, const hr_decode_arguments *arguments, int64_t sequence)
{
  return arguments->lengths ? arguments->lengths[sequence] : decode->kv_len;
}

int64_t hr_decode_page(const hr_decode *decode, const hr_decode_arguments *arguments, int64_t sequence, int64_t token)
{
  int64_t start = arguments->page_starts ? arguments->page_starts[sequence] : sequence * decode->table_pitch;
  int64_t place = start + token / decode->page_size;
  return arguments->pages ? arguments->pages[place] : place;
}

int64_t hr_decode_token(const hr_decode *decode, const hr_decode_arguments *arguments, const hr_kv_strides *strides,
                        int64_t sequence, int64_t token)
{
  return hr_decode_page(decode, arguments, sequence, token) * strides->page +
         token % decode->page_size * strides->token;
}

hr_key_range hr_decode_visible(const hr_decode *decode, int64_t length, int64_t query)
{
  int64_t end = hr_max64(0, length - decode->q_len + query + 1);
  return (hr_key_range){decode->window > 0 ? hr_max64(0, end - decode->window) : 0, end};
}

hr_key_range hr_decode_range(const hr_decode *decode, int64_t length)
{
  return (hr_key_range){hr_decode_visible(decode, length, 0).first, length};
}

int64_t hr_decode_keys_max(const hr_decode *decode)
{
  const hr_decode *d = decode;
  return d->window > 0 ? hr_min64(d->kv_len, hr_min64(d->window, d->kv_len) + d->q_len) : d->kv_len;
}

float hr_decode_top(const hr_decode *decode)
{
  int64_t keys = hr_decode_keys_max(decode);
  return (float)hr_log2_of_share(decode->top_k > 0 ? hr_min64(decode->top_k, keys) : keys);
}

bool hr_decode_selects(const hr_decode *decode)
{
  int64_t seen = decode->window > 0 ? hr_min64(decode->window, decode->kv_len) : decode->kv_len;
  return decode->top_k > 0 && decode->top_k < seen;
}

bool hr_decode_cannot_select(const hr_decode *decode, char *why, size_t why_size)
{
  if (hr_decode_selects(decode))
    snprintf(why, why_size, "does not select V (top_k %" PRId64 ")", decode->top_k);
  return hr_decode_selects(decode);
}

/* ---- checks ---- */

hr_status hr_decode_check_addresses(const hr_decode *decode, const hr_decode_arguments *arguments, hr_error *error)
{
  const hr_decode *d = decode;
  const hr_decode_arguments *x = arguments;
  bool quantized = d->cache_format != HR_KV_UNQUANTIZED;
  const struct {
    const char *name;
    const void *address;
    bool needed;
  } addresses[] = {{"q", x->q, true},
                   {"k", x->k, d->kv_len > 0},
                   {"v", x->v, d->kv_len > 0 && !d->latent},
                   {"o", x->o, true},
                   {"k_scales", x->k_scales, quantized && d->kv_len > 0},
                   {"v_scales", x->v_scales, quantized && d->kv_len > 0 && !d->latent},
                   {"sinks", x->sinks, d->sinks},
                   {"pages", x->pages, x->page_starts != NULL}};
  for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
    if (addresses[i].needed && !addresses[i].address)
      return hr_fail(error, HR_ERROR_INVALID, "%s: an address is needed, found NULL", addresses[i].name);
  }
  return HR_OK;
}

static hr_status check_pages(const hr_decode *d, const hr_decode_arguments *x, int64_t sequence, hr_error *error)
{
  int64_t length = hr_decode_length(d, x, sequence);
  if (length < 0 || length > d->kv_len)
    return hr_fail(error, HR_ERROR_INVALID,
                   "lengths: sequence %" PRId64 " has %" PRId64 " tokens, expected 0 to %" PRId64, sequence, length,
                   d->kv_len);
  if (x->page_starts && x->page_starts[sequence] < 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "page_starts: sequence %" PRId64 " begins at %" PRId32 ", expected 0 or more", sequence,
                   x->page_starts[sequence]);
  for (int64_t token = 0; token < length; token += d->page_size) {
    int64_t page = hr_decode_page(d, x, sequence, token);
    if (page < 0 || page >= d->page_count)
      return hr_fail(error, HR_ERROR_INVALID,
                     "pages: token %" PRId64 " of sequence %" PRId64 " is on page %" PRId64 ", expected 0 to %" PRId64,
                     token, sequence, page, d->page_count - 1);
  }
  return HR_OK;
}

hr_status hr_decode_check_tables(const hr_decode *decode, const hr_decode_arguments *arguments, hr_error *error)
{
  for (int64_t b = 0; b < decode->batch; b++)
    HR_TRY(check_pages(decode, arguments, b, error));
  return HR_OK;
}

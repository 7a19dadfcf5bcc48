/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/decode_sequences.h"

#include "base/checked.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

double hr_decode_scale(const hr_decode *decode)
{
  return decode->scale != 0 ? (double)decode->scale : 1.0 / sqrt((double)decode->qk_dim);
}

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

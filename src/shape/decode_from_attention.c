/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of attention with few queries as decode calls. */
#include <headroom/decode.h>

#include "base/error.h"
#include "base/struct_size.h"

static hr_status check_is_decode(const hr_attention *a, hr_error *error)
{
  const char *reason = NULL;
  if (a->q_len < 1 || a->q_len > HR_DECODE_Q_LEN_MAX)
    reason = "decode kernels take 1 to 16 queries";
  else if (a->q_len > 1 && a->mask != HR_MASK_CAUSAL)
    reason = "decode kernels take several queries only with a causal mask";
  else if (a->alibi)
    reason = "decode kernels have no ALiBi";
  else if (a->first_keys)
    reason = "decode kernels begin with the first key";
  else if (a->variable_lengths)
    reason = "decode kernels take no concatenated sequences";
  else if (a->head_scales || a->output != HR_OUTPUT_AS_OPERANDS)
    reason = "decode kernels have no scales of heads and no other format of O";
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
  HR_TAKE(hr_attention, attention, error);
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
  return hr_give_struct(decode, &d, sizeof d, "hr_decode", error);
}

hr_status hr_decode_from_latent(const hr_attention *attention, hr_decode *decode, hr_error *error)
{
  HR_NEED(error, attention, decode);
  HR_TAKE(hr_attention, attention, error);
  hr_decode d = hr_decode_default();
  HR_TRY(hr_decode_from_attention(attention, &d, error));
  d.latent = true;
  d.v_strides = (hr_kv_strides){0};
  HR_TRY(hr_decode_check(&d, error));
  return hr_give_struct(decode, &d, sizeof d, "hr_decode", error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Named layouts of attention's operands. */
#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "shape/attention_strides.h"

#include <inttypes.h>

static const char *const names[HR_LAYOUT_COUNT] = {
#define HR_LAYOUT_NAME(enumerator, name, sentence) name,
    HR_LAYOUT_LIST(HR_LAYOUT_NAME)
#undef HR_LAYOUT_NAME
};

HR_DEFINE_NAME(hr_layout_name, hr_layout, names, HR_LAYOUT_COUNT)
HR_DEFINE_PARSE(hr_layout_parse, hr_layout, names, HR_LAYOUT_COUNT)

static hr_strides heads_outside(const hr_attention_sizes *o)
{
  return (hr_strides){.batch = o->heads * o->rows * o->dim, .row = o->dim, .head = o->rows * o->dim};
}

static hr_status set_packed_qkv(hr_attention *a, hr_error *error)
{
  if (a->q_len != a->kv_len || a->q_total != a->kv_total)
    return hr_fail(error, HR_ERROR_INVALID, "packed_qkv: q_len %" PRId64 " is not kv_len %" PRId64,
                   a->variable_lengths ? a->q_total : a->q_len, a->variable_lengths ? a->kv_total : a->kv_len);
  hr_checked64 row = hr_times(hr_plus(hr_checked(a->q_heads), hr_checked(a->k_heads)), a->qk_dim);
  row = hr_plus(row, hr_times(hr_checked(a->v_heads), a->v_dim));
  hr_checked64 batch = hr_times(row, a->variable_lengths ? a->q_total : a->q_len);
  if (row.overflow || batch.overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "packed_qkv: rows of %" PRId64 " heads do not fit 63 bits", a->q_heads);
  a->q_strides = a->k_strides = (hr_strides){.batch = batch.value, .row = row.value, .head = a->qk_dim};
  a->v_strides = (hr_strides){.batch = batch.value, .row = row.value, .head = a->v_dim};
  return HR_OK;
}

hr_status hr_attention_set_layout(hr_attention *attention, hr_layout layout, hr_error *error)
{
  HR_NEED(error, attention);
  const hr_strides packed = {0, 0, 0};
  const hr_attention *given = attention;
  HR_TAKE(hr_attention, given, error);
  hr_attention a = *given;
  a.q_strides = a.k_strides = a.v_strides = a.o_strides = packed;
  HR_TRY(hr_attention_check(&a, error));
  hr_strides *const strides[] = {&a.q_strides, &a.k_strides, &a.v_strides, &a.o_strides};
  for (hr_attention_operand which = HR_OPERAND_Q; which <= HR_OPERAND_O; which++) {
    hr_attention_sizes o = hr_attention_operand_sizes(&a, which);
    *strides[which] = layout == HR_LAYOUT_BHSD ? heads_outside(&o) : hr_attention_strides(&a, which);
  }
  if (layout == HR_LAYOUT_PACKED_QKV)
    HR_TRY(set_packed_qkv(&a, error));
  else if (layout != HR_LAYOUT_BSHD && layout != HR_LAYOUT_BHSD)
    return hr_fail(error, HR_ERROR_INVALID, "layout: %d is not in the list", (int)layout);
  HR_TRY(hr_attention_check(&a, error));
  return hr_give_struct(attention, &a, sizeof a, "hr_attention", error);
}

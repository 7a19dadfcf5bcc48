/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/attention_strides.h"

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>

hr_attention_sizes hr_attention_operand_sizes(const hr_attention *a, hr_attention_operand which)
{
  bool query = which == HR_OPERAND_Q || which == HR_OPERAND_O;
  int64_t length = query ? a->q_len : a->kv_len, total = query ? a->q_total : a->kv_total;
  hr_attention_sizes o = {.batch = a->variable_lengths ? 1 : a->batch, .rows = a->variable_lengths ? total : length};
  switch (which) {
  case HR_OPERAND_Q: o.name = "q", o.heads = a->q_heads, o.dim = a->qk_dim, o.strides = a->q_strides; break;
  case HR_OPERAND_K: o.name = "k", o.heads = a->k_heads, o.dim = a->qk_dim, o.strides = a->k_strides; break;
  case HR_OPERAND_V: o.name = "v", o.heads = a->v_heads, o.dim = a->v_dim, o.strides = a->v_strides; break;
  case HR_OPERAND_O: o.name = "o", o.heads = a->q_heads, o.dim = a->v_dim, o.strides = a->o_strides; break;
  }
  return o;
}

hr_strides hr_attention_strides(const hr_attention *a, hr_attention_operand which)
{
  hr_attention_sizes o = hr_attention_operand_sizes(a, which);
  if (o.strides.batch != 0 || o.strides.row != 0 || o.strides.head != 0)
    return o.strides;
  hr_checked64 row = hr_times(hr_checked(o.heads), o.dim);
  return (hr_strides){.batch = hr_times(row, o.rows).value, .row = row.value, .head = o.dim};
}

static hr_checked64 steps(int64_t count, int64_t stride)
{
  return hr_times(hr_plus(hr_checked(count), hr_checked(-1)), stride);
}

static hr_checked64 span(const hr_attention *a, hr_attention_operand which)
{
  hr_attention_sizes o = hr_attention_operand_sizes(a, which);
  hr_strides s = hr_attention_strides(a, which);
  if (o.rows == 0)
    return hr_checked(0);
  if (o.strides.batch == 0 && o.strides.row == 0 && o.strides.head == 0)
    return hr_times(hr_times(hr_times(hr_checked(o.dim), o.heads), o.rows), o.batch);
  hr_checked64 inside = hr_plus(steps(o.rows, s.row), steps(o.heads, s.head));
  return hr_plus(hr_plus(inside, steps(o.batch, s.batch)), hr_checked(o.dim));
}

hr_status hr_attention_span(const hr_attention *attention, hr_attention_operand which, int64_t *elements)
{
  HR_NEED(NULL, attention, elements);
  return hr_checked_take(span(attention, which), elements);
}

/* Whether each dimension's stride is at least the extent of all finer dimensions together: then no two elements share
 * an address. Every usual layout is like that. */
static bool elements_are_disjoint(const hr_attention_sizes *o, const hr_strides *s)
{
  int64_t counts[] = {o->batch, o->rows, o->heads}, strides[] = {s->batch, s->row, s->head}, extent = o->dim;
  for (int round = 0; round < 3; round++) {
    int finest = -1;
    for (int i = 0; i < 3; i++) {
      if (counts[i] > 1 && (finest < 0 || strides[i] < strides[finest]))
        finest = i;
    }
    if (finest < 0)
      return true;
    if (strides[finest] < extent)
      return false;
    extent += (counts[finest] - 1) * strides[finest];
    counts[finest] = 0;
  }
  return true;
}

hr_status hr_attention_check_operand(const hr_attention *a, hr_attention_operand which, const char *name, bool written,
                                     hr_error *error)
{
  hr_attention_sizes o = hr_attention_operand_sizes(a, which);
  if (o.strides.batch < 0 || o.strides.row < 0 || o.strides.head < 0)
    return hr_fail(error, HR_ERROR_INVALID, "%s_strides: %" PRId64 ", %" PRId64 ", %" PRId64 " must not be negative",
                   name, o.strides.batch, o.strides.row, o.strides.head);
  hr_strides s = hr_attention_strides(a, which);
  if (hr_times(span(a, which), (int64_t)hr_dtype_bytes(a->dtype)).overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW,
                   "%s_strides: %" PRId64 ", %" PRId64 ", %" PRId64 ": the bytes do not fit 63 bits", name, s.batch,
                   s.row, s.head);
  if (written && o.rows > 0 && !elements_are_disjoint(&o, &s))
    return hr_fail(error, HR_ERROR_INVALID, "%s_strides: %" PRId64 ", %" PRId64 ", %" PRId64 ": elements overlap", name,
                   s.batch, s.row, s.head);
  return HR_OK;
}

hr_status hr_attention_check_strides(const hr_attention *a, hr_error *error)
{
  for (hr_attention_operand which = HR_OPERAND_Q; which <= HR_OPERAND_O; which++) {
    hr_attention_sizes o = hr_attention_operand_sizes(a, which);
    HR_TRY(hr_attention_check_operand(a, which, o.name, which == HR_OPERAND_O, error));
  }
  return HR_OK;
}

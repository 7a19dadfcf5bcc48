#include "shape/layout.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"

#include <inttypes.h>

static const char *const names[HR_LAYOUT_COUNT] = {
#define HR_LAYOUT_NAME(enumerator, name, sentence) name,
    HR_LAYOUT_LIST(HR_LAYOUT_NAME)
#undef HR_LAYOUT_NAME
};

const char *hr_layout_name(hr_layout layout)
{
  return hr_name_of(names, HR_LAYOUT_COUNT, (int)layout);
}

hr_status hr_layout_parse(const char *name, hr_layout *layout)
{
  HR_NEED(NULL, name, layout);
  int value;
  HR_TRY(hr_name_find(names, HR_LAYOUT_COUNT, name, &value));
  *layout = (hr_layout)value;
  return HR_OK;
}

/* Sizes of one operand: with variable lengths one long sequence. */
typedef struct operand {
  const char *name;
  int64_t batch, rows, heads, dim;
  hr_strides strides; /* as given */
} operand;

static operand operand_of(const hr_attention *a, hr_attention_operand which)
{
  bool query = which == HR_OPERAND_Q || which == HR_OPERAND_O;
  int64_t length = query ? a->q_len : a->kv_len, total = query ? a->q_total : a->kv_total;
  operand o = {.batch = a->variable_lengths ? 1 : a->batch, .rows = a->variable_lengths ? total : length};
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
  operand o = operand_of(a, which);
  if (o.strides.batch != 0 || o.strides.row != 0 || o.strides.head != 0)
    return o.strides;
  return (hr_strides){.batch = o.rows * o.heads * o.dim, .row = o.heads * o.dim, .head = o.dim};
}

static hr_checked64 steps(int64_t count, int64_t stride)
{
  return hr_times(hr_checked(count - 1), stride);
}

static hr_checked64 span(const hr_attention *a, hr_attention_operand which)
{
  operand o = operand_of(a, which);
  hr_strides s = hr_attention_strides(a, which);
  if (o.rows == 0)
    return hr_checked(0);
  hr_checked64 inside = hr_plus(steps(o.rows, s.row), steps(o.heads, s.head));
  return hr_plus(hr_plus(inside, steps(o.batch, s.batch)), hr_checked(o.dim));
}

hr_status hr_attention_span(const hr_attention *attention, hr_attention_operand which, int64_t *elements)
{
  HR_NEED(NULL, attention, elements);
  return hr_checked_take(span(attention, which), elements);
}

/* Each dimension steps over all that lies within the finer ones: that keeps elements apart in every usual layout. */
static bool elements_lie_apart(const operand *o, const hr_strides *s)
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

hr_status hr_attention_check_strides(const hr_attention *a, hr_error *error)
{
  for (hr_attention_operand which = HR_OPERAND_Q; which <= HR_OPERAND_O; which++) {
    operand o = operand_of(a, which);
    if (o.strides.batch < 0 || o.strides.row < 0 || o.strides.head < 0)
      return hr_fail(error, HR_ERROR_INVALID, "%s_strides: %" PRId64 ", %" PRId64 ", %" PRId64 " step backwards",
                     o.name, o.strides.batch, o.strides.row, o.strides.head);
    hr_strides s = hr_attention_strides(a, which);
    if (hr_times(span(a, which), (int64_t)hr_dtype_bytes(a->dtype)).overflow)
      return hr_fail(error, HR_ERROR_OVERFLOW, "%s_strides: %" PRId64 ", %" PRId64 ", %" PRId64 " reach too far",
                     o.name, s.batch, s.row, s.head);
    if (which == HR_OPERAND_O && o.rows > 0 && !elements_lie_apart(&o, &s))
      return hr_fail(error, HR_ERROR_INVALID,
                     "o_strides: with %" PRId64 ", %" PRId64 ", %" PRId64 " elements of O share a place", s.batch,
                     s.row, s.head);
  }
  return HR_OK;
}

/* ---- layouts ---- */

static hr_strides heads_outside(const operand *o)
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
    return hr_fail(error, HR_ERROR_OVERFLOW, "packed_qkv: rows of %" PRId64 " heads reach too far", a->q_heads);
  a->q_strides = a->k_strides = (hr_strides){.batch = batch.value, .row = row.value, .head = a->qk_dim};
  a->v_strides = (hr_strides){.batch = batch.value, .row = row.value, .head = a->v_dim};
  return HR_OK;
}

hr_status hr_attention_set_layout(hr_attention *attention, hr_layout layout, hr_error *error)
{
  HR_NEED(error, attention);
  const hr_strides packed = {0, 0, 0};
  hr_attention a = *attention;
  a.q_strides = a.k_strides = a.v_strides = a.o_strides = packed;
  HR_TRY(hr_attention_check(&a, error));
  hr_strides *const strides[] = {&a.q_strides, &a.k_strides, &a.v_strides, &a.o_strides};
  for (hr_attention_operand which = HR_OPERAND_Q; which <= HR_OPERAND_O; which++) {
    operand o = operand_of(&a, which);
    *strides[which] = layout == HR_LAYOUT_BHSD ? heads_outside(&o) : hr_attention_strides(&a, which);
  }
  if (layout == HR_LAYOUT_PACKED_QKV)
    HR_TRY(set_packed_qkv(&a, error));
  else if (layout != HR_LAYOUT_BSHD && layout != HR_LAYOUT_BHSD)
    return hr_fail(error, HR_ERROR_INVALID, "layout: %d is none", (int)layout);
  HR_TRY(hr_attention_check(&a, error));
  *attention = a;
  return HR_OK;
}

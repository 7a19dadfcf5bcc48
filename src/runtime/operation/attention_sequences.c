/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/attention_sequences.h"

#include "base/checked.h"

#include <math.h>

double hr_attention_scale(const hr_attention *attention)
{
  return attention->scale != 0 ? (double)attention->scale : 1.0 / sqrt((double)attention->qk_dim);
}

hr_key_range hr_attention_visible(const hr_attention *attention, const hr_sequence *sequence, int64_t query)
{
  const hr_attention *t = attention;
  int64_t kv_len = sequence->kv_len, own = query + kv_len - sequence->q_len;
  hr_key_range keys = {sequence->first_keys ? hr_max64(0, sequence->first_keys[query]) : 0, kv_len};
  if (t->mask == HR_MASK_NONE)
    return keys;
  int64_t window = hr_min64(t->window, kv_len); /* a larger window sees no more keys, and could overflow */
  keys.end = hr_max64(0, own + 1);
  if (t->window > 0)
    keys.first = hr_max64(keys.first, own - window + 1);
  return keys;
}

/* The address of row `rows` in sequence `batch`. NULL, the address of an operand without rows, stays NULL. */
static const void *step(const hr_attention *t, const void *base, hr_attention_operand which, int64_t batch,
                        int64_t rows)
{
  hr_strides s = hr_attention_strides(t, which);
  int64_t elements = batch * s.batch + rows * s.row;
  hr_dtype dtype = which == HR_OPERAND_O ? hr_attention_output_dtype(t) : t->dtype;
  return base ? (const char *)base + elements * (int64_t)hr_dtype_bytes(dtype) : NULL;
}

hr_sequence hr_attention_sequence(const hr_attention *attention, const hr_attention_arguments *arguments, int64_t index)
{
  const hr_attention *t = attention;
  const hr_attention_arguments *x = arguments;
  int64_t batch = t->variable_lengths ? 0 : index;
  int64_t q_row = t->variable_lengths ? x->q_offsets[index] : 0,
          kv_row = t->variable_lengths ? x->kv_offsets[index] : 0;
  hr_sequence s = {.q_len = t->q_len, .kv_len = t->kv_len, .lse_head = t->variable_lengths ? t->q_total : t->q_len};
  if (t->variable_lengths) {
    s.q_len = x->q_offsets[index + 1] - q_row;
    s.kv_len = x->kv_offsets[index + 1] - kv_row;
  }
  s.q = step(t, x->q, HR_OPERAND_Q, batch, q_row);
  s.k = step(t, x->k, HR_OPERAND_K, batch, kv_row);
  s.v = step(t, x->v, HR_OPERAND_V, batch, kv_row);
  s.o = (void *)(uintptr_t)step(t, x->o, HR_OPERAND_O, batch, q_row);
  if (x->lse)
    s.lse = x->lse + batch * t->q_heads * t->q_len + q_row;
  if (t->first_keys)
    s.first_keys = x->first_keys + batch * t->q_len + q_row;
  return s;
}

/* Pointers to what only the gradients' kernels read: the forward call would write there. */
#define WRITABLE(type, address) ((type *)(uintptr_t)(address))

hr_attention_arguments hr_backward_operands(const hr_attention_backward_arguments *arguments)
{
  const hr_attention_backward_arguments *x = arguments;
  hr_attention_arguments y = {.struct_size = sizeof y};
  y.q = x->q, y.k = x->k, y.v = x->v;
  y.o = WRITABLE(void, x->o);
  y.lse = WRITABLE(float, x->lse);
  y.alibi_slopes = x->alibi_slopes;
  y.q_offsets = x->q_offsets, y.kv_offsets = x->kv_offsets;
  y.batch = x->batch, y.q_rows = x->q_rows, y.kv_rows = x->kv_rows;
  y.first_keys = x->first_keys;
  return y;
}

hr_attention_arguments hr_backward_gradient_operands(const hr_attention_backward_arguments *arguments)
{
  hr_attention_arguments y = hr_backward_operands(arguments);
  y.q = arguments->dq, y.k = arguments->dk, y.v = arguments->dv;
  y.o = WRITABLE(void, arguments->d_o);
  return y;
}

size_t hr_attention_operand_bytes(const hr_attention *a, hr_attention_operand operand)
{
  int64_t elements = 0;
  if (hr_attention_span(a, operand, &elements) != HR_OK || elements == 0)
    elements = 1;
  return (size_t)elements * hr_dtype_bytes(operand == HR_OPERAND_O ? hr_attention_output_dtype(a) : a->dtype);
}

size_t hr_attention_first_keys_bytes(const hr_attention *a)
{
  int64_t rows = a->variable_lengths ? a->q_total : a->batch * a->q_len;
  return (size_t)hr_max64(rows, 1) * sizeof(int32_t);
}

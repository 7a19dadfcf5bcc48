/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/problem.h"

#include "base/names.h"

const char *hr_operation_name(hr_operation operation)
{
  static const char *const names[HR_OPERATION_COUNT] = {"gemm", "attention", "rowwise", "decode"};
  return hr_name_of(names, HR_OPERATION_COUNT, (int)operation);
}

/* x; weights, a table or a second x; the result. */
static hr_operands rowwise_operands(const hr_rowwise *r)
{
  size_t row = (size_t)r->columns * hr_dtype_bytes(r->dtype), tensor = (size_t)r->rows * row;
  switch (r->operation) {
  case HR_ROWWISE_LAYER_NORM: return (hr_operands){.count = 4, .bytes = {tensor, row, row, tensor}};
  case HR_ROWWISE_RMS_NORM: return (hr_operands){.count = 3, .bytes = {tensor, row, tensor}};
  case HR_ROWWISE_ROTARY: return (hr_operands){.count = 3, .bytes = {tensor, (size_t)r->period * row, tensor}};
  case HR_ROWWISE_SWIGLU:
  case HR_ROWWISE_RESIDUAL: return (hr_operands){.count = 3, .bytes = {tensor, tensor, tensor}};
  case HR_ROWWISE_SOFTMAX:
  case HR_ROWWISE_GELU:
  case HR_ROWWISE_DROPOUT:
  case HR_ROWWISE_COUNT: break;
  }
  return (hr_operands){.count = 2, .bytes = {tensor, tensor}};
}

/* Bytes of an operand, gaps between strides included. An empty operand counts one element: buffers are not empty. */
static size_t attention_operand(const hr_attention *a, hr_attention_operand operand)
{
  int64_t elements = 0;
  if (hr_attention_span(a, operand, &elements) != HR_OK || elements == 0)
    elements = 1;
  return (size_t)elements * hr_dtype_bytes(operand == HR_OPERAND_O ? hr_attention_output_dtype(a) : a->dtype);
}

static void add(hr_operands *operands, hr_operand_kind kind, int64_t elements, size_t element_bytes)
{
  operands->bytes[operands->count] = (size_t)elements * element_bytes;
  operands->kinds[operands->count++] = kind;
}

static hr_operands attention_operands(const hr_attention *a)
{
  hr_operands operands = {.count = 3};
  for (hr_attention_operand which = HR_OPERAND_Q; which <= HR_OPERAND_V; which++)
    operands.bytes[which] = attention_operand(a, which);
  if (a->alibi)
    add(&operands, HR_OPERAND_SLOPES, a->q_heads, sizeof(float));
  if (a->head_scales) {
    add(&operands, HR_OPERAND_Q_SCALES, a->q_heads, sizeof(float));
    add(&operands, HR_OPERAND_K_SCALES, a->k_heads, sizeof(float));
    add(&operands, HR_OPERAND_V_SCALES, a->v_heads, sizeof(float));
  }
  add(&operands, HR_OPERAND_NUMBERS, (int64_t)attention_operand(a, HR_OPERAND_O), 1);
  return operands;
}

static int64_t query_elements(const hr_decode *d, hr_strides s, int64_t dim)
{
  return (d->batch - 1) * s.batch + (d->q_len - 1) * s.row + (d->q_heads - 1) * s.head + dim;
}

static int64_t cache_elements(const hr_decode *d, hr_kv_strides s, int64_t heads, int64_t dim)
{
  return (d->page_count - 1) * s.page + (d->page_size - 1) * s.token + (heads - 1) * s.head + dim;
}

static void add_scales(hr_operands *operands, const hr_decode *d)
{
  hr_kv_strides k = hr_decode_k_scale_strides(d), v = hr_decode_v_scale_strides(d);
  add(operands, HR_OPERAND_K_SCALES, cache_elements(d, k, d->k_heads, 1), sizeof(float));
  if (!d->latent)
    add(operands, HR_OPERAND_V_SCALES, cache_elements(d, v, d->v_heads, 1), sizeof(float));
}

static hr_operands decode_operands(const hr_decode *d)
{
  hr_operands operands = {.count = 0};
  size_t element = hr_dtype_bytes(d->dtype), cached = hr_decode_cache_bytes(d);
  bool quantized = d->cache_format != HR_KV_UNQUANTIZED;
  hr_operand_kind cache = quantized ? HR_OPERAND_CACHE : HR_OPERAND_NUMBERS;
  add(&operands, HR_OPERAND_NUMBERS, query_elements(d, hr_decode_q_strides(d), d->qk_dim), element);
  add(&operands, cache, cache_elements(d, hr_decode_k_strides(d), d->k_heads, d->qk_dim), cached);
  if (!d->latent)
    add(&operands, cache, cache_elements(d, hr_decode_v_strides(d), d->v_heads, d->v_dim), cached);
  if (quantized)
    add_scales(&operands, d);
  if (d->table_pitch > 1)
    add(&operands, HR_OPERAND_PAGES, d->batch * d->table_pitch, sizeof(int32_t));
  if (d->sinks)
    add(&operands, HR_OPERAND_SINKS, d->q_heads, sizeof(float));
  add(&operands, HR_OPERAND_NUMBERS, query_elements(d, hr_decode_o_strides(d), d->v_dim), element);
  return operands;
}

hr_problem hr_gemm_problem(const hr_gemm *gemm)
{
  return (hr_problem){.operation = HR_OPERATION_GEMM, .dtype = gemm->dtype, .gemm = *gemm};
}

hr_problem hr_attention_problem(const hr_attention *attention)
{
  return (hr_problem){.operation = HR_OPERATION_ATTENTION, .dtype = attention->dtype, .attention = *attention};
}

hr_problem hr_rowwise_problem(const hr_rowwise *rows)
{
  return (hr_problem){.operation = HR_OPERATION_ROWWISE, .dtype = rows->dtype, .rows = *rows};
}

hr_problem hr_decode_problem(const hr_decode *decode)
{
  return (hr_problem){.operation = HR_OPERATION_DECODE, .dtype = decode->dtype, .decode = *decode};
}

hr_dtype hr_problem_output_dtype(const hr_problem *problem)
{
  return problem->operation == HR_OPERATION_ATTENTION ? hr_attention_output_dtype(&problem->attention) : problem->dtype;
}

hr_operands hr_problem_operands(const hr_problem *problem)
{
  size_t element = hr_dtype_bytes(problem->dtype);
  if (problem->operation == HR_OPERATION_ROWWISE)
    return rowwise_operands(&problem->rows);
  if (problem->operation == HR_OPERATION_ATTENTION)
    return attention_operands(&problem->attention);
  if (problem->operation == HR_OPERATION_DECODE)
    return decode_operands(&problem->decode);
  const hr_gemm *g = &problem->gemm;
  return (hr_operands){.count = 3,
                       .bytes = {element * (size_t)hr_gemm_a(g).elements, element * (size_t)hr_gemm_b(g).elements,
                                 element * (size_t)hr_gemm_c(g).elements}};
}

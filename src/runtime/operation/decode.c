/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/operation/decode_sequences.h"
#include "shape/kv_format.h"

#include <headroom/experimental/decode.h>
#include <inttypes.h>
#include <stddef.h>

void hr_decode_arguments_init(hr_decode_arguments *arguments, size_t size)
{
  HR_INIT(arguments, size, (hr_decode_arguments){0});
}

static int64_t query_elements(const hr_decode *d, hr_strides s, int64_t dim)
{
  return (d->batch - 1) * s.batch + (d->q_len - 1) * s.row + (d->q_heads - 1) * s.head + dim;
}

static int64_t cache_elements(const hr_decode *d, hr_kv_strides s, int64_t heads, int64_t dim)
{
  return (d->page_count - 1) * s.page + (d->page_size - 1) * s.token + (heads - 1) * s.head + dim;
}

#define MEMBER(name) offsetof(hr_decode_arguments, name)

static void add_scales(hr_operands *all, const hr_decode *d)
{
  int64_t k = cache_elements(d, hr_decode_k_scale_strides(d), d->k_heads, 1);
  int64_t v = cache_elements(d, hr_decode_v_scale_strides(d), d->v_heads, 1);
  hr_add_input(all, MEMBER(k_scales), HR_OPERAND_K_SCALES, (size_t)k * sizeof(float));
  if (!d->latent)
    hr_add_input(all, MEMBER(v_scales), HR_OPERAND_V_SCALES, (size_t)v * sizeof(float));
}

static void add_cache(hr_operands *all, const hr_decode *d)
{
  const size_t cached = hr_decode_cache_bytes(d);
  bool quantized = d->cache_format != HR_KV_UNQUANTIZED;
  hr_operand_kind kind = quantized ? HR_OPERAND_CACHE : HR_OPERAND_NUMBERS;
  int64_t k = cache_elements(d, hr_decode_k_strides(d), d->k_heads, d->qk_dim);
  int64_t v = cache_elements(d, hr_decode_v_strides(d), d->v_heads, d->v_dim);
  hr_add_input(all, MEMBER(k), kind, (size_t)k * cached);
  if (!d->latent)
    hr_add_input(all, MEMBER(v), kind, (size_t)v * cached);
  if (quantized)
    add_scales(all, d);
}

static hr_operands operands(const hr_problem *problem)
{
  const hr_decode *d = &problem->decode;
  const size_t element = hr_dtype_bytes(d->dtype);
  hr_operands all = {.count = 0};
  hr_add_input(&all, MEMBER(q), HR_OPERAND_NUMBERS,
               (size_t)query_elements(d, hr_decode_q_strides(d), d->qk_dim) * element);
  add_cache(&all, d);
  if (d->table_pitch > 1)
    hr_add_input(&all, MEMBER(pages), HR_OPERAND_PAGES, (size_t)(d->batch * d->table_pitch) * sizeof(int32_t));
  if (d->sinks)
    hr_add_input(&all, MEMBER(sinks), HR_OPERAND_SINKS, (size_t)d->q_heads * sizeof(float));
  if (d->alibi)
    hr_add_input(&all, MEMBER(alibi_slopes), HR_OPERAND_SLOPES, (size_t)d->q_heads * sizeof(float));
  hr_add_output(&all, MEMBER(o), HR_OPERAND_NUMBERS,
                (size_t)query_elements(d, hr_decode_o_strides(d), d->v_dim) * element);
  return all;
}

static hr_status check(const hr_problem *problem, hr_error *error)
{
  HR_TRY(hr_decode_check(&problem->decode, error));
  return hr_kv_readable_check("cache_format", problem->decode.cache_format, error);
}

static int64_t alignment(const hr_problem *problem)
{
  return problem->decode.alignment;
}

static hr_status check_addresses(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_decode *d = &problem->decode;
  const hr_decode_arguments *x = &arguments->decode;
  bool quantized = d->cache_format != HR_KV_UNQUANTIZED;
  const hr_needed_address addresses[] = {{"q", x->q, true},
                                         {"k", x->k, d->kv_len > 0},
                                         {"v", x->v, d->kv_len > 0 && !d->latent},
                                         {"o", x->o, true},
                                         {"k_scales", x->k_scales, quantized && d->kv_len > 0},
                                         {"v_scales", x->v_scales, quantized && d->kv_len > 0 && !d->latent},
                                         {"sinks", x->sinks, d->sinks},
                                         {"alibi_slopes", x->alibi_slopes, d->alibi},
                                         {"pages", x->pages, x->page_starts != NULL}};
  return hr_check_needed(addresses, sizeof addresses / sizeof *addresses, error);
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

static hr_status check_tables(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  for (int64_t b = 0; b < problem->decode.batch; b++)
    HR_TRY(check_pages(&problem->decode, &arguments->decode, b, error));
  return HR_OK;
}

static bool has_bounds(const hr_problem *problem, const hr_arguments *arguments)
{
  return arguments->decode.batch != 0 && arguments->decode.batch != problem->decode.batch;
}

static hr_status bound(hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  return hr_take_bound("batch", arguments->decode.batch, &problem->decode.batch, error);
}

static hr_status flops(const hr_problem *problem, int64_t *count)
{
  return hr_decode_flops(&problem->decode, count);
}

static hr_status bytes(const hr_problem *problem, int64_t *count)
{
  return hr_decode_bytes(&problem->decode, count);
}

const hr_operation_row hr_operation_decode = {.name = "decode",
                                              .arguments_name = "hr_decode_arguments",
                                              .arguments_bytes = sizeof(hr_decode_arguments),
                                              .check = check,
                                              .operands = operands,
                                              .alignment = alignment,
                                              .has_bounds = has_bounds,
                                              .bound = bound,
                                              .check_addresses = check_addresses,
                                              .check_tables = check_tables,
                                              .flops = flops,
                                              .bytes = bytes};

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/operation/attention_sequences.h"

#include <inttypes.h>
#include <stddef.h>

void hr_attention_arguments_init(hr_attention_arguments *arguments, size_t size)
{
  HR_INIT(arguments, size, (hr_attention_arguments){0});
}

#define MEMBER(name) offsetof(hr_attention_arguments, name)

static hr_operands operands(const hr_problem *problem)
{
  const hr_attention *a = &problem->attention;
  hr_operands all = {.count = 0};
  hr_add_input(&all, MEMBER(q), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(a, HR_OPERAND_Q));
  hr_add_input(&all, MEMBER(k), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(a, HR_OPERAND_K));
  hr_add_input(&all, MEMBER(v), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(a, HR_OPERAND_V));
  if (a->alibi)
    hr_add_input(&all, MEMBER(alibi_slopes), HR_OPERAND_SLOPES, (size_t)a->q_heads * sizeof(float));
  if (a->first_keys)
    hr_add_input(&all, MEMBER(first_keys), HR_OPERAND_FIRST_KEYS, hr_attention_first_keys_bytes(a));
  if (a->head_scales) {
    hr_add_input(&all, MEMBER(q_scales), HR_OPERAND_Q_SCALES, (size_t)a->q_heads * sizeof(float));
    hr_add_input(&all, MEMBER(k_scales), HR_OPERAND_K_SCALES, (size_t)a->k_heads * sizeof(float));
    hr_add_input(&all, MEMBER(v_scales), HR_OPERAND_V_SCALES, (size_t)a->v_heads * sizeof(float));
  }
  hr_add_output(&all, MEMBER(o), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(a, HR_OPERAND_O));
  return all;
}

static hr_dtype output(const hr_problem *problem)
{
  return hr_attention_output_dtype(&problem->attention);
}

static hr_status check(const hr_problem *problem, hr_error *error)
{
  return hr_attention_check(&problem->attention, error);
}

static int64_t alignment(const hr_problem *problem)
{
  return problem->attention.alignment;
}

static hr_status check_addresses(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_attention *t = &problem->attention;
  const hr_attention_arguments *x = &arguments->attention;
  bool queries = (t->variable_lengths ? t->q_total : t->q_len) > 0;
  bool keys = (t->variable_lengths ? t->kv_total : t->kv_len) > 0;
  const hr_needed_address addresses[] = {{"q", x->q, queries},
                                         {"k", x->k, keys},
                                         {"v", x->v, keys},
                                         {"o", x->o, queries},
                                         {"alibi_slopes", x->alibi_slopes, t->alibi},
                                         {"first_keys", x->first_keys, t->first_keys && queries},
                                         {"q_scales", x->q_scales, t->head_scales},
                                         {"k_scales", x->k_scales, t->head_scales},
                                         {"v_scales", x->v_scales, t->head_scales},
                                         {"q_offsets", x->q_offsets, t->variable_lengths},
                                         {"kv_offsets", x->kv_offsets, t->variable_lengths}};
  return hr_check_needed(addresses, sizeof addresses / sizeof *addresses, error);
}

static hr_status check_offsets(const char *name, const int32_t *offsets, int64_t batch, int64_t longest, int64_t total,
                               hr_error *error)
{
  for (int64_t b = 0; b < batch; b++) {
    int64_t length = (int64_t)offsets[b + 1] - offsets[b];
    if (offsets[b] < 0 || length < 0 || length > longest || offsets[b + 1] > total)
      return hr_fail(error, HR_ERROR_INVALID,
                     "%s: sequence %" PRId64 " has rows %" PRId32 " to %" PRId32 ", expected at most %" PRId64
                     " rows within 0 to %" PRId64,
                     name, b, offsets[b], offsets[b + 1], longest, total);
  }
  return HR_OK;
}

static hr_status check_first_keys(const hr_attention *t, const hr_attention_arguments *x, int64_t b, hr_error *error)
{
  hr_sequence s = hr_attention_sequence(t, x, b);
  for (int64_t i = 1; i < s.q_len; i++)
    if (s.first_keys[i] < s.first_keys[i - 1])
      return hr_fail(error, HR_ERROR_INVALID,
                     "first_keys: query %" PRId64 " of sequence %" PRId64 " begins with key %" PRId32
                     ", before %" PRId32 ", where the query before it begins",
                     i, b, s.first_keys[i], s.first_keys[i - 1]);
  return HR_OK;
}

static hr_status check_tables(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_attention *t = &problem->attention;
  const hr_attention_arguments *x = &arguments->attention;
  if (t->variable_lengths) {
    HR_TRY(check_offsets("q_offsets", x->q_offsets, t->batch, t->q_len, t->q_total, error));
    HR_TRY(check_offsets("kv_offsets", x->kv_offsets, t->batch, t->kv_len, t->kv_total, error));
  }
  for (int64_t b = 0; t->first_keys && b < t->batch; b++)
    HR_TRY(check_first_keys(t, x, b, error));
  return HR_OK;
}

static bool has_bounds(const hr_problem *problem, const hr_arguments *arguments)
{
  const hr_attention *t = &problem->attention;
  const hr_attention_arguments *x = &arguments->attention;
  bool rows = t->variable_lengths &&
              ((x->q_rows != 0 && x->q_rows != t->q_total) || (x->kv_rows != 0 && x->kv_rows != t->kv_total));
  return rows || (x->batch != 0 && x->batch != t->batch);
}

static hr_status bound(hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  hr_attention *t = &problem->attention;
  const hr_attention_arguments *x = &arguments->attention;
  HR_TRY(hr_take_bound("batch", x->batch, &t->batch, error));
  if (!t->variable_lengths)
    return HR_OK;
  HR_TRY(hr_take_bound("q_rows", x->q_rows, &t->q_total, error));
  return hr_take_bound("kv_rows", x->kv_rows, &t->kv_total, error);
}

static hr_status flops(const hr_problem *problem, int64_t *count)
{
  return hr_attention_flops(&problem->attention, count);
}

static hr_status bytes(const hr_problem *problem, int64_t *count)
{
  return hr_attention_bytes(&problem->attention, count);
}

const hr_operation_row hr_operation_attention = {.name = "attention",
                                                 .arguments_name = "hr_attention_arguments",
                                                 .arguments_bytes = sizeof(hr_attention_arguments),
                                                 .check = check,
                                                 .operands = operands,
                                                 .output = output,
                                                 .alignment = alignment,
                                                 .has_bounds = has_bounds,
                                                 .bound = bound,
                                                 .check_addresses = check_addresses,
                                                 .check_tables = check_tables,
                                                 .flops = flops,
                                                 .bytes = bytes};

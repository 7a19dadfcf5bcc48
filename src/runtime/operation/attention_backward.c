/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of attention. What they share with the forward call is left to its row. */
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/operation/attention_sequences.h"
#include "runtime/operation/operation.h"

#include <stddef.h>

void hr_attention_backward_arguments_init(hr_attention_backward_arguments *arguments, size_t size)
{
  HR_INIT(arguments, size, (hr_attention_backward_arguments){0});
}

static hr_problem forward_problem(const hr_problem *problem)
{
  const hr_attention *a = &problem->backward.forward;
  return (hr_problem){.operation = HR_OPERATION_ATTENTION, .dtype = a->dtype, .attention = *a};
}

static hr_arguments forward_arguments(const hr_arguments *arguments)
{
  return (hr_arguments){.attention = hr_backward_operands(&arguments->backward)};
}

#define MEMBER(name) offsetof(hr_attention_backward_arguments, name)

static void add_tables(const hr_attention *a, bool sinks, hr_operands *all)
{
  const size_t heads = (size_t)a->q_heads * sizeof(float);
  int64_t lse = 0;
  if (hr_attention_lse_elements(a, &lse) == HR_OK)
    hr_add_input(all, MEMBER(lse), HR_OPERAND_LSE, (size_t)hr_max64(lse, 1) * sizeof(float));
  if (a->alibi)
    hr_add_input(all, MEMBER(alibi_slopes), HR_OPERAND_SLOPES, heads);
  if (a->first_keys)
    hr_add_input(all, MEMBER(first_keys), HR_OPERAND_FIRST_KEYS, hr_attention_first_keys_bytes(a));
  if (sinks)
    hr_add_input(all, MEMBER(sinks), HR_OPERAND_SINKS, heads);
}

static hr_operands operands(const hr_problem *problem)
{
  const hr_attention *a = &problem->backward.forward, gradients = hr_backward_gradients(&problem->backward);
  const bool sinks = problem->backward.options.sinks;
  hr_operands all = {.count = 0};
  hr_add_input(&all, MEMBER(q), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(a, HR_OPERAND_Q));
  hr_add_input(&all, MEMBER(k), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(a, HR_OPERAND_K));
  hr_add_input(&all, MEMBER(v), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(a, HR_OPERAND_V));
  hr_add_input(&all, MEMBER(o), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(a, HR_OPERAND_O));
  hr_add_input(&all, MEMBER(d_o), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(&gradients, HR_OPERAND_O));
  add_tables(a, sinks, &all);
  hr_add_output(&all, MEMBER(dq), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(&gradients, HR_OPERAND_Q));
  hr_add_output(&all, MEMBER(dk), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(&gradients, HR_OPERAND_K));
  hr_add_output(&all, MEMBER(dv), HR_OPERAND_NUMBERS, hr_attention_operand_bytes(&gradients, HR_OPERAND_V));
  if (sinks)
    hr_add_output(&all, MEMBER(d_sinks), HR_OPERAND_SINK_GRADIENTS, (size_t)a->q_heads * sizeof(float));
  return all;
}

static hr_status check(const hr_problem *problem, hr_error *error)
{
  return hr_attention_backward_check(&problem->backward.forward, &problem->backward.options, error);
}

static int64_t alignment(const hr_problem *problem)
{
  return problem->backward.forward.alignment;
}

static hr_status check_addresses(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_attention *t = &problem->backward.forward;
  const hr_attention_backward_arguments *x = &arguments->backward;
  const hr_problem forward = forward_problem(problem);
  const hr_arguments of_forward = forward_arguments(arguments);
  HR_TRY(hr_operation_attention.check_addresses(&forward, &of_forward, error));
  bool queries = (t->variable_lengths ? t->q_total : t->q_len) > 0;
  bool keys = (t->variable_lengths ? t->kv_total : t->kv_len) > 0, sinks = problem->backward.options.sinks;
  const hr_needed_address addresses[] = {
      {"d_o", x->d_o, queries}, {"lse", x->lse, queries},   {"dq", x->dq, queries},        {"dk", x->dk, keys},
      {"dv", x->dv, keys},      {"sinks", x->sinks, sinks}, {"d_sinks", x->d_sinks, sinks}};
  return hr_check_needed(addresses, sizeof addresses / sizeof *addresses, error);
}

static hr_status check_tables(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_problem forward = forward_problem(problem);
  const hr_arguments of_forward = forward_arguments(arguments);
  return hr_operation_attention.check_tables(&forward, &of_forward, error);
}

static bool has_bounds(const hr_problem *problem, const hr_arguments *arguments)
{
  const hr_problem forward = forward_problem(problem);
  const hr_arguments of_forward = forward_arguments(arguments);
  return hr_operation_attention.has_bounds(&forward, &of_forward);
}

static hr_status bound(hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  hr_problem forward = forward_problem(problem);
  const hr_arguments of_forward = forward_arguments(arguments);
  HR_TRY(hr_operation_attention.bound(&forward, &of_forward, error));
  problem->backward.forward = forward.attention;
  return HR_OK;
}

static hr_status flops(const hr_problem *problem, int64_t *count)
{
  return hr_attention_backward_flops(&problem->backward.forward, count);
}

static hr_status bytes(const hr_problem *problem, int64_t *count)
{
  return hr_attention_backward_bytes(&problem->backward.forward, count);
}

const hr_operation_row hr_operation_attention_backward = {.name = "attention_backward",
                                                          .arguments_name = "hr_attention_backward_arguments",
                                                          .arguments_bytes = sizeof(hr_attention_backward_arguments),
                                                          .check = check,
                                                          .operands = operands,
                                                          .alignment = alignment,
                                                          .has_bounds = has_bounds,
                                                          .bound = bound,
                                                          .check_addresses = check_addresses,
                                                          .check_tables = check_tables,
                                                          .flops = flops,
                                                          .bytes = bytes};

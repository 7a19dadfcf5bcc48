/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/operation/few_rows.h"

#include <stddef.h>
#include <stdio.h>

#define TEXT(of) #of
#define TEXT_OF(macro) TEXT(macro)

bool hr_gemm_has_few_rows(const hr_gemm *g, char *why, size_t why_size)
{
  const bool layout = !g->transpose_a && g->transpose_b;
  const char *reason =
      layout ? "takes up to " TEXT_OF(HR_GEMM_FEW_ROWS) " rows of A" : "takes A plain and B transposed only";
  if (layout && g->m <= HR_GEMM_FEW_ROWS)
    return true;
  snprintf(why, why_size, "%s", reason);
  return false;
}

void hr_gemm_arguments_init(hr_gemm_arguments *arguments, size_t size)
{
  HR_INIT(arguments, size, (hr_gemm_arguments){0});
}

static hr_operands operands(const hr_problem *problem)
{
  const hr_gemm *g = &problem->gemm;
  const size_t element = hr_dtype_bytes(g->dtype);
  hr_operands all = {.count = 0};
  hr_add_input(&all, offsetof(hr_gemm_arguments, a), HR_OPERAND_NUMBERS, element * (size_t)hr_gemm_a(g).elements);
  hr_add_input(&all, offsetof(hr_gemm_arguments, b), HR_OPERAND_NUMBERS, element * (size_t)hr_gemm_b(g).elements);
  if (g->bias)
    hr_add_input(&all, offsetof(hr_gemm_arguments, bias), HR_OPERAND_NUMBERS, element * (size_t)g->n);
  hr_add_output(&all, offsetof(hr_gemm_arguments, c), HR_OPERAND_NUMBERS, element * (size_t)hr_gemm_c(g).elements);
  return all;
}

static hr_status check(const hr_problem *problem, hr_error *error)
{
  return hr_gemm_check(&problem->gemm, error);
}

static int64_t alignment(const hr_problem *problem)
{
  return problem->gemm.alignment;
}

static hr_status check_addresses(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_gemm_arguments *x = &arguments->gemm;
  const hr_needed_address addresses[] = {
      {"a", x->a, true}, {"b", x->b, true}, {"bias", x->bias, problem->gemm.bias}, {"c", x->c, true}};
  return hr_check_needed(addresses, sizeof addresses / sizeof *addresses, error);
}

static hr_status flops(const hr_problem *problem, int64_t *count)
{
  return hr_gemm_flops(&problem->gemm, count);
}

static hr_status bytes(const hr_problem *problem, int64_t *count)
{
  return hr_gemm_bytes(&problem->gemm, count);
}

const hr_operation_row hr_operation_gemm = {.name = "gemm",
                                            .arguments_name = "hr_gemm_arguments",
                                            .arguments_bytes = sizeof(hr_gemm_arguments),
                                            .check = check,
                                            .operands = operands,
                                            .alignment = alignment,
                                            .check_addresses = check_addresses,
                                            .flops = flops,
                                            .bytes = bytes};

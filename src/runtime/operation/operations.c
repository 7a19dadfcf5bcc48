/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

#include "base/error.h"
#include "shape/alignment.h"

#include <inttypes.h>
#include <string.h>

static const hr_operation_row *const rows[HR_OPERATION_COUNT] = {[HR_OPERATION_GEMM] = &hr_operation_gemm,
                                                                 [HR_OPERATION_ATTENTION] = &hr_operation_attention,
                                                                 [HR_OPERATION_ROWWISE] = &hr_operation_rowwise,
                                                                 [HR_OPERATION_DECODE] = &hr_operation_decode,
                                                                 [HR_OPERATION_ATTENTION_BACKWARD] =
                                                                     &hr_operation_attention_backward};

const hr_operation_row *hr_operation_of(hr_operation operation)
{
  return rows[operation];
}

const char *hr_operation_name(hr_operation operation)
{
  return (unsigned)operation < HR_OPERATION_COUNT ? rows[operation]->name : "unknown";
}

hr_problem hr_gemm_problem(const hr_gemm *gemm)
{
  return (hr_problem){.operation = HR_OPERATION_GEMM, .dtype = gemm->dtype, .gemm = *gemm};
}

hr_problem hr_attention_problem(const hr_attention *attention)
{
  return (hr_problem){.operation = HR_OPERATION_ATTENTION, .dtype = attention->dtype, .attention = *attention};
}

hr_problem hr_rowwise_problem(const hr_rowwise *rowwise)
{
  return (hr_problem){.operation = HR_OPERATION_ROWWISE, .dtype = rowwise->dtype, .rows = *rowwise};
}

hr_problem hr_decode_problem(const hr_decode *decode)
{
  return (hr_problem){.operation = HR_OPERATION_DECODE, .dtype = decode->dtype, .decode = *decode};
}

hr_problem hr_attention_backward_problem(const hr_backward *backward)
{
  return (hr_problem){
      .operation = HR_OPERATION_ATTENTION_BACKWARD, .dtype = backward->forward.dtype, .backward = *backward};
}

hr_dtype hr_problem_output_dtype(const hr_problem *problem)
{
  const hr_operation_row *row = rows[problem->operation];
  return row->output ? row->output(problem) : problem->dtype;
}

hr_dtype hr_operand_dtype(const hr_problem *problem, const hr_operands *operands, size_t operand)
{
  if (operands->kinds[operand] != HR_OPERAND_NUMBERS)
    return HR_FP32;
  return operand < operands->inputs ? problem->dtype : hr_problem_output_dtype(problem);
}

hr_operands hr_problem_operands(const hr_problem *problem)
{
  return rows[problem->operation]->operands(problem);
}

/* Addresses of arguments are pointers of several types, which all platforms of this library represent alike. */
static const void **address_at(const void *arguments, size_t member)
{
  return (const void **)(uintptr_t)((const char *)arguments + member);
}

hr_arguments hr_problem_arguments(const hr_problem *problem, const hr_operands *operands,
                                  hr_operand_addresses addresses)
{
  hr_arguments arguments;
  memset(&arguments, 0, sizeof arguments);
  arguments.gemm.struct_size = rows[problem->operation]->arguments_bytes;
  for (size_t i = 0; i < operands->inputs; i++)
    *address_at(&arguments, operands->members[i]) = addresses.inputs[i];
  for (size_t i = operands->inputs; addresses.outputs && i < operands->count; i++)
    *address_at(&arguments, operands->members[i]) = addresses.outputs[i - operands->inputs];
  return arguments;
}

static bool has_alignment(hr_operand_kind kind)
{
  return kind == HR_OPERAND_NUMBERS || kind == HR_OPERAND_CACHE;
}

/* Whether another operand is at the address of an output that does not replace it: kernels read inputs after they have
 * written part of it. */
static bool is_output_twice(const hr_operands *operands, const void *arguments, size_t operand)
{
  const void *address = *address_at(arguments, operands->members[operand]);
  for (size_t i = operands->inputs; address && i < operands->count; i++)
    if (i != operand && operands->replaces[i] != operand + 1 && *address_at(arguments, operands->members[i]) == address)
      return true;
  return false;
}

static hr_status check_places(const hr_problem *problem, const hr_operands *operands, const void *arguments,
                              hr_error *error)
{
  const hr_operation_row *row = rows[problem->operation];
  const int64_t alignment = hr_alignment(row->alignment(problem));
  for (size_t i = 0; i < operands->count; i++) {
    const void *address = *address_at(arguments, operands->members[i]);
    if (is_output_twice(operands, arguments, i))
      return hr_fail(error, HR_ERROR_INVALID, "%s: the output has the address of an%s, %p", row->name,
                     i < operands->inputs ? " input" : "other", address);
    if (has_alignment(operands->kinds[i]) && (uintptr_t)address % (uintptr_t)alignment != 0)
      return hr_fail(error, HR_ERROR_INVALID,
                     "%s: the address %p is not a multiple of %" PRId64 ", the alignment of the problem", row->name,
                     address, alignment);
  }
  return HR_OK;
}

hr_status hr_bound_problem(const hr_problem *problem, const void *arguments, hr_problem *bounded, bool *smaller,
                           hr_error *error)
{
  const hr_operation_row *row = rows[problem->operation];
  *smaller = row->has_bounds && row->has_bounds(problem, arguments);
  if (!*smaller)
    return HR_OK;
  *bounded = *problem;
  return row->bound(bounded, arguments, error);
}

hr_status hr_check_arguments(const hr_problem *problem, const hr_operands *operands, const void *arguments,
                             bool readable, hr_error *error)
{
  const hr_operation_row *row = rows[problem->operation];
  HR_TRY(row->check_addresses(problem, arguments, error));
  HR_TRY(check_places(problem, operands, arguments, error));
  return readable && row->check_tables ? row->check_tables(problem, arguments, error) : HR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

void hr_add_operand(hr_operands *operands, size_t member, hr_operand_kind kind, size_t bytes)
{
  size_t i = operands->count++;
  operands->bytes[i] = bytes;
  operands->kinds[i] = kind;
  operands->members[i] = member;
}

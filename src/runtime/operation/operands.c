/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

#include "base/error.h"

#include <inttypes.h>

void hr_add_output(hr_operands *operands, size_t member, hr_operand_kind kind, size_t bytes)
{
  size_t i = operands->count++;
  operands->bytes[i] = bytes;
  operands->kinds[i] = kind;
  operands->members[i] = member;
}

void hr_add_input(hr_operands *operands, size_t member, hr_operand_kind kind, size_t bytes)
{
  hr_add_output(operands, member, kind, bytes);
  operands->inputs = operands->count;
}

hr_status hr_take_bound(const char *name, int64_t asked, int64_t *size, hr_error *error)
{
  if (asked < 0 || asked > *size)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected 0 to %" PRId64 ", the plan's, found %" PRId64, name, *size,
                   asked);
  *size = asked > 0 ? asked : *size;
  return HR_OK;
}

hr_status hr_check_needed(const hr_needed_address *addresses, size_t count, hr_error *error)
{
  for (size_t i = 0; i < count; i++) {
    if (addresses[i].needed && !addresses[i].address)
      return hr_fail(error, HR_ERROR_INVALID, "%s: an address is needed, found NULL", addresses[i].name);
  }
  return HR_OK;
}

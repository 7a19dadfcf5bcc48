/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/checks.h"

static const hr_check *const checks[HR_OPERATION_COUNT] = {[HR_OPERATION_GEMM] = &hr_check_gemm,
                                                           [HR_OPERATION_ATTENTION] = &hr_check_attention,
                                                           [HR_OPERATION_ROWWISE] = &hr_check_rowwise,
                                                           [HR_OPERATION_DECODE] = &hr_check_decode,
                                                           [HR_OPERATION_ATTENTION_BACKWARD] =
                                                               &hr_check_attention_backward};

const hr_check *hr_check_of(hr_operation operation)
{
  return checks[operation];
}

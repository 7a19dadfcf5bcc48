/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#define LAUNCH(name, member)                                                                                \
  hr_status hr_launch_##name(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at, \
                             hr_error *error)                                                               \
  {                                                                                                         \
    return hr_plan_run_##name(plan, &arguments->member, at->workspace, at->stream, error);                  \
  }
LAUNCH(gemm, gemm)
LAUNCH(attention, attention)
LAUNCH(rowwise, rows)
LAUNCH(decode, decode)
LAUNCH(attention_backward, backward)

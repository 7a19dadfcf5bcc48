/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include "base/error.h"
#include "model/operators/fused.h"

#include <headroom/experimental/operators.h>

hr_status hr_run_list(const hr_executor *x, const hr_run_shape *shape, hr_operators *operators, hr_error *error)
{
  const hr_workload workload = hr_run_workload(x, shape);
  HR_TRY(hr_operators_list(&x->whole, &workload, operators, error));
  if (hr_run_persists(x, shape))
    hr_persist_operators(operators);
  return HR_OK;
}

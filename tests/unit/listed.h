/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of a step, found by name. */
#ifndef HEADROOM_TEST_LISTED_H
#define HEADROOM_TEST_LISTED_H

#include "test.h"

#include <headroom/experimental/operators.h>

/* Until the next call. */
static inline const hr_operators *listed(const hr_model *model, const hr_workload *workload)
{
  static hr_operators operators;
  hr_error error;
  assert_ok(hr_operators_list(model, workload, &operators, &error), error);
  return &operators;
}

static inline const hr_operator *found(const hr_operators *operators, hr_operator_id id)
{
  const hr_operator *op = hr_operators_find(operators, id, HR_PASS_FORWARD);
  if (!op)
    fail_msg("no %s", hr_operator_id_name(id));
  return op;
}

static inline void assert_gemm(const hr_operators *operators, hr_operator_id id, int64_t m, int64_t n, int64_t k)
{
  const hr_gemm *g = &found(operators, id)->gemm;
  if (g->m != m || g->n != n || g->k != k)
    fail_msg("%s: (%d, %d, %d)", hr_operator_id_name(id), (int)g->m, (int)g->n, (int)g->k);
}

#endif

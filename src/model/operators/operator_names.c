/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/operators.h>

#include "base/names.h"
#include "model/layers/weight_roles.h"

#include <stdio.h>

static const char *const ids[] = {
#define ROW(enumerator, name, in_layer) name,
    HR_OPERATOR_LIST(ROW)
#undef ROW
};
static const char *const tensors[] = {
#define ROW(enumerator, name) name,
    HR_TENSOR_LIST(ROW)
#undef ROW
};
static const char *const roles[] = {
#define ROW(enumerator, name, in_layer) name,
    HR_WEIGHT_ROLE_LIST(ROW)
#undef ROW
};
static const char *const kinds[] = {"gemm", "bmm", "attention", "memory", "communication", "grouped_gemm", "scan"};
static const char *const passes[] = {"forward", "dgrad", "wgrad", "recompute", "bgrad"};

bool hr_operator_between_replicas(hr_operator_id id)
{
  return id == HR_OP_WEIGHT_ALL_GATHER || id == HR_OP_GRADIENT_ALL_REDUCE || id == HR_OP_GRADIENT_REDUCE_SCATTER;
}

HR_DEFINE_NAME(hr_operator_id_name, hr_operator_id, ids, sizeof ids / sizeof *ids)
HR_DEFINE_NAME(hr_step_tensor_name, hr_step_tensor, tensors, sizeof tensors / sizeof *tensors)

const char *hr_weight_role_name(int role)
{
  return hr_name_of(roles, sizeof roles / sizeof *roles, role);
}

HR_DEFINE_NAME(hr_operator_kind_name, hr_operator_kind, kinds, sizeof kinds / sizeof *kinds)
HR_DEFINE_NAME(hr_pass_name, hr_pass, passes, sizeof passes / sizeof *passes)

void hr_operator_name(const hr_operator *op, char *name, size_t size)
{
  if (op->pass == HR_PASS_FORWARD)
    snprintf(name, size, "%s", hr_operator_id_name(op->id));
  else
    snprintf(name, size, "%s_%s", hr_operator_id_name(op->id), hr_pass_name(op->pass));
}

const hr_operator *hr_operators_find(const hr_operators *operators, hr_operator_id id, hr_pass pass)
{
  for (size_t i = 0; i < operators->count; i++) {
    if (operators->items[i].id == id && operators->items[i].pass == pass)
      return &operators->items[i];
  }
  return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From an operator of a step to the problem that a kernel solves. */
#include "experiment/operator_problem.h"

#include "base/error.h"

#include <headroom/decode.h>

#define PAGE_TOKENS 16

/* A memory operator as a row-wise operation; `moves`: reads and writes of each element, all together. */
typedef struct rowwise_form {
  hr_rowwise_operation operation;
  int64_t columns, moves;
} rowwise_form;

static rowwise_form norm_form(const hr_model *model, int64_t columns)
{
  return (rowwise_form){model->norm == HR_NORM_RMS ? HR_ROWWISE_RMS_NORM : HR_ROWWISE_LAYER_NORM, columns, 2};
}

static int64_t queries_of(const hr_workload *workload)
{
  return workload->phase == HR_PHASE_DECODE ? 1 : workload->sequence;
}

static int64_t keys_of(const hr_model *model, const hr_workload *workload, const hr_operator *op)
{
  int64_t keys = workload->phase == HR_PHASE_DECODE ? workload->context : workload->sequence;
  bool windowed = workload->phase == HR_PHASE_DECODE && model->window > 0 && model->window < keys;
  /* Layers with and without a window have an operator each in the step; their counts tell them apart. */
  return windowed && op->count == model->window_layers ? model->window : keys;
}

static hr_status form_of(const hr_model *model, const hr_workload *workload, const hr_operator *op, rowwise_form *form,
                         hr_error *error)
{
  int64_t tokens = workload->batch * queries_of(workload), element = (int64_t)hr_dtype_bytes(workload->dtype);
  int64_t width = op->bytes / element / tokens; /* elements moved for each token */
  switch (op->id) {
  case HR_OP_ATTENTION_NORM:
  case HR_OP_ATTENTION_POST_NORM:
  case HR_OP_MLP_NORM:
  case HR_OP_MLP_POST_NORM: *form = norm_form(model, model->hidden); return HR_OK;
  case HR_OP_QK_NORM: /* if it normalises all heads together, width is that of Q and K */
    *form = norm_form(model, model->qk_norm == HR_QK_NORM_FULL ? width / 2 : model->qk_dim);
    return HR_OK;
  case HR_OP_SOFTMAX: *form = (rowwise_form){HR_ROWWISE_SOFTMAX, keys_of(model, workload, op), 2}; return HR_OK;
  case HR_OP_ROTARY: *form = (rowwise_form){HR_ROWWISE_ROTARY, model->rotary_dim, 2}; return HR_OK;
  case HR_OP_ACTIVATION:
    *form = model->mlp_gated ? (rowwise_form){HR_ROWWISE_SWIGLU, width / 3, 3}
                             : (rowwise_form){HR_ROWWISE_GELU, width / 2, 2};
    return HR_OK;
  case HR_OP_ATTENTION_RESIDUAL:
  case HR_OP_MLP_RESIDUAL:
    if (model->parallel_block)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "no kernel adds three terms");
    *form = (rowwise_form){HR_ROWWISE_RESIDUAL, model->hidden, 3};
    return HR_OK;
  default: return hr_fail(error, HR_ERROR_UNSUPPORTED, "no kernel for this operator");
  }
}

static hr_status rowwise_problem(const hr_model *model, const hr_workload *workload, const hr_operator *op,
                                 hr_problem *problem, hr_error *error)
{
  rowwise_form form = {HR_ROWWISE_COUNT, 0, 0};
  if (op->pass != HR_PASS_FORWARD)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "no kernel for its backward pass");
  HR_TRY(form_of(model, workload, op, &form, error));
  hr_rowwise rows = hr_rowwise_default();
  rows.operation = form.operation;
  rows.dtype = workload->dtype;
  rows.columns = form.columns;
  rows.rows = op->bytes / (int64_t)hr_dtype_bytes(rows.dtype) / form.moves / form.columns;
  if (rows.operation == HR_ROWWISE_SOFTMAX || rows.operation == HR_ROWWISE_ROTARY)
    rows.period = queries_of(workload);
  if (rows.operation == HR_ROWWISE_ROTARY) /* all heads of a token have the same angles */
    rows.group = rows.rows / (workload->batch * rows.period);
  HR_TRY(hr_rowwise_check(&rows, error));
  *problem = hr_rowwise_problem(&rows);
  return HR_OK;
}

static hr_status attention_problem(const hr_operator *op, hr_problem *problem, hr_error *error)
{
  if (op->pass != HR_PASS_FORWARD)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "no kernel for its backward pass");
  HR_TRY(hr_attention_check(&op->attention, error));
  *problem = hr_attention_problem(&op->attention);
  return HR_OK;
}

bool hr_operator_take_decode(hr_device *device, const hr_workload *workload, hr_problem *problem)
{
  hr_plan *plan = NULL;
  hr_decode decode;
  if (workload->phase != HR_PHASE_DECODE || problem->operation != HR_OPERATION_ATTENTION ||
      hr_decode_from_attention(&problem->attention, &decode, NULL) != HR_OK)
    return false;
  decode.k_strides = decode.v_strides = (hr_kv_strides){0}; /* those of pages */
  bool taken = hr_decode_set_pages(&decode, PAGE_TOKENS, NULL) == HR_OK &&
               hr_plan_decode(device, &decode, HR_DECODE_KERNELS, &plan, NULL) == HR_OK;
  hr_plan_free(plan);
  if (taken)
    *problem = hr_decode_problem(&decode);
  return taken;
}

hr_status hr_operator_problem(const hr_model *model, const hr_workload *workload, const hr_operator *op,
                              hr_problem *problem, hr_error *error)
{
  switch (op->kind) {
  case HR_KIND_GEMM:
  case HR_KIND_BMM:
    HR_TRY(hr_gemm_check(&op->gemm, error));
    *problem = hr_gemm_problem(&op->gemm);
    return HR_OK;
  case HR_KIND_ATTENTION: return attention_problem(op, problem, error);
  case HR_KIND_MEMORY: return rowwise_problem(model, workload, op, problem, error);
  case HR_KIND_COMMUNICATION: break;
  }
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "one device has no other to communicate with");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Turns an operator of a step into the problem that a kernel solves. */
#include "experiment/operator_problem.h"

#include "base/error.h"
#include "shape/kv_format.h"

#include <headroom/decode.h>
#include <inttypes.h>

#define PARAMETER_COLUMNS 4096
#define USUAL_RATE 0.1 /* of dropout in GPT-2 and GPT-3; the time does not depend on it */

/* A memory operator as a row-wise operation; `moves`: reads and writes of each element, all together. */
typedef struct rowwise_form {
  hr_rowwise_operation operation;
  int64_t moves;
} rowwise_form;

/* The forward and the backward pass of an operation. Dropout drops gradients as it drops activations. */
typedef struct rowwise_passes {
  rowwise_form forward, backward;
} rowwise_passes;

static const rowwise_passes softmax = {{HR_ROWWISE_SOFTMAX, 2}, {HR_ROWWISE_SOFTMAX_BACKWARD, 3}};
static const rowwise_passes layer_norm = {{HR_ROWWISE_LAYER_NORM, 2}, {HR_ROWWISE_LAYER_NORM_BACKWARD, 3}};
static const rowwise_passes rms_norm = {{HR_ROWWISE_RMS_NORM, 2}, {HR_ROWWISE_RMS_NORM_BACKWARD, 3}};
static const rowwise_passes rotary = {{HR_ROWWISE_ROTARY, 2}, {HR_ROWWISE_ROTARY_BACKWARD, 2}};
static const rowwise_passes dropout = {{HR_ROWWISE_DROPOUT, 2}, {HR_ROWWISE_DROPOUT, 2}};
static const rowwise_passes gelu = {{HR_ROWWISE_GELU, 2}, {HR_ROWWISE_GELU_BACKWARD, 3}};
static const rowwise_passes swiglu = {{HR_ROWWISE_SWIGLU, 3}, {HR_ROWWISE_SWIGLU_BACKWARD, 5}};
static const rowwise_passes loss = {{HR_ROWWISE_CROSS_ENTROPY, 1}, {HR_ROWWISE_CROSS_ENTROPY_BACKWARD, 2}};

static int64_t queries_of(const hr_workload *workload)
{
  return workload->phase == HR_PHASE_DECODE ? 1 : workload->sequence;
}

/* Queries of one softmax: all keys are queries, too, unless the step decodes. */
static int64_t period_of(const hr_workload *workload, const hr_operator *op)
{
  bool all_keys = op->id == HR_OP_SOFTMAX && workload->phase != HR_PHASE_DECODE;
  return all_keys ? op->columns : queries_of(workload);
}

static bool is_forward(const hr_operator *op)
{
  return op->pass == HR_PASS_FORWARD || op->pass == HR_PASS_RECOMPUTE;
}

/* Reads and writes of each element, if a token has one row unless the operator says otherwise. */
static int64_t moves_of(const hr_workload *workload, const hr_operator *op)
{
  const int64_t tokens = workload->batch * queries_of(workload), rows = op->rows > 0 ? op->rows : tokens;
  return op->bytes / (int64_t)hr_dtype_bytes(workload->dtype) / rows / op->columns;
}

/* The gradients of a residual's terms are summed as the terms were: two and their sum. */
static hr_status residual_form(int64_t moves, rowwise_form *form, hr_error *error)
{
  if (moves != 3)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   moves == 4 ? "no kernel adds three terms" : "no kernel mixes residual streams");
  *form = (rowwise_form){HR_ROWWISE_RESIDUAL, moves};
  return HR_OK;
}

/* NULL: the operator is none of these. An activation reads a gate, too, if it has one. */
static const rowwise_passes *passes_of(const hr_model *model, const hr_operator *op, int64_t moves)
{
  switch (op->id) {
  case HR_OP_EMBEDDING_NORM:
  case HR_OP_ATTENTION_NORM:
  case HR_OP_ATTENTION_POST_NORM:
  case HR_OP_MLP_NORM:
  case HR_OP_MLP_POST_NORM:
  case HR_OP_RANK_NORM:
  case HR_OP_QK_NORM:
  case HR_OP_FINAL_NORM: return model->norm == HR_NORM_RMS ? &rms_norm : &layer_norm;
  case HR_OP_SOFTMAX: return &softmax;
  case HR_OP_EMBEDDING_DROPOUT:
  case HR_OP_SOFTMAX_DROPOUT:
  case HR_OP_ATTENTION_DROPOUT:
  case HR_OP_MLP_DROPOUT: return &dropout;
  case HR_OP_ROTARY: return &rotary;
  case HR_OP_EXPERT_ACTIVATION:
  case HR_OP_SHARED_ACTIVATION:
  case HR_OP_ACTIVATION:
    return moves == (is_forward(op) ? swiglu.forward.moves : swiglu.backward.moves) ? &swiglu : &gelu;
  case HR_OP_LOSS: return &loss;
  default: return NULL;
  }
}

static hr_status form_of(const hr_model *model, const hr_workload *workload, const hr_operator *op, rowwise_form *form,
                         hr_error *error)
{
  const int64_t moves = moves_of(workload, op);
  if (op->id == HR_OP_ATTENTION_RESIDUAL || op->id == HR_OP_MLP_RESIDUAL)
    return residual_form(moves, form, error);
  const rowwise_passes *passes = passes_of(model, op, moves);
  if (op->pass == HR_PASS_BGRAD)
    *form = (rowwise_form){HR_ROWWISE_BIAS_BACKWARD, 1};
  else if (passes)
    *form = is_forward(op) ? passes->forward : passes->backward;
  else
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "no kernel for this operator");
  return HR_OK;
}

static bool has_positions(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_SOFTMAX || operation == HR_ROWWISE_SOFTMAX_BACKWARD ||
         operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_ROTARY_BACKWARD;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
  while (b > 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The parameters as a tensor, of whatever shape: their order does not matter. Constants are those of GPT-3 and Llama 2
 * (arXiv 2005.14165, appendix B; arXiv 2307.09288, section 2.2), on which the time does not depend. */
static hr_status optimizer_problem(const hr_workload *workload, const hr_operator *op, hr_problem *problem,
                                   hr_error *error)
{
  hr_rowwise rows = hr_rowwise_default();
  rows.operation = HR_ROWWISE_ADAMW;
  rows.dtype = workload->dtype;
  rows.columns = common_divisor(op->columns, PARAMETER_COLUMNS);
  rows.rows = op->columns / rows.columns;
  rows.learning_rate = 3e-4, rows.beta1 = 0.9, rows.beta2 = 0.95, rows.weight_decay = 0.1;
  rows.max_norm = 1;
  HR_TRY(hr_rowwise_check(&rows, error));
  *problem = hr_rowwise_problem(&rows);
  return HR_OK;
}

static hr_status rowwise_problem(const hr_model *model, const hr_workload *workload, const hr_operator *op,
                                 hr_problem *problem, hr_error *error)
{
  rowwise_form form = {HR_ROWWISE_COUNT, 0};
  if (op->id == HR_OP_OPTIMIZER)
    return optimizer_problem(workload, op, problem, error);
  HR_TRY(form_of(model, workload, op, &form, error));
  hr_rowwise rows = hr_rowwise_default();
  rows.operation = form.operation;
  rows.dtype = workload->dtype;
  rows.columns = op->columns;
  rows.rate = form.operation == HR_ROWWISE_DROPOUT ? USUAL_RATE : 0;
  rows.rows = op->bytes / (int64_t)hr_dtype_bytes(rows.dtype) / form.moves / op->columns;
  rows.scale = form.operation == HR_ROWWISE_CROSS_ENTROPY_BACKWARD ? 1 / (double)rows.rows : 0;
  if (has_positions(rows.operation))
    rows.period = period_of(workload, op);
  if (op->id == HR_OP_ROTARY) /* all heads of a token have the same angles */
    rows.group = rows.rows / (workload->batch * rows.period);
  HR_TRY(hr_rowwise_check(&rows, error));
  *problem = hr_rowwise_problem(&rows);
  return HR_OK;
}

static hr_status attention_gradients_problem(const hr_operator *op, hr_problem *problem, hr_error *error)
{
  const hr_backward backward = {.forward = op->attention, .options = hr_attention_backward_default()};
  HR_TRY(hr_attention_backward_check(&backward.forward, &backward.options, error));
  *problem = hr_attention_backward_problem(&backward);
  return HR_OK;
}

static hr_status attention_problem(const hr_operator *op, hr_problem *problem, hr_error *error)
{
  if (op->pass != HR_PASS_FORWARD && op->pass != HR_PASS_RECOMPUTE)
    return attention_gradients_problem(op, problem, error);
  HR_TRY(hr_attention_check(&op->attention, error));
  *problem = hr_attention_problem(&op->attention);
  if (op->latent) { /* only decode calls say that V is part of K */
    hr_decode decode = hr_decode_default();
    HR_TRY(hr_decode_from_latent(&op->attention, &decode, error));
    *problem = hr_decode_problem(&decode);
  }
  return HR_OK;
}

static bool as_decode(const hr_problem *problem, hr_decode *decode)
{
  if (problem->operation == HR_OPERATION_DECODE)
    *decode = problem->decode;
  return problem->operation == HR_OPERATION_DECODE ||
         (problem->operation == HR_OPERATION_ATTENTION &&
          hr_decode_from_attention(&problem->attention, decode, NULL) == HR_OK);
}

const char *hr_operator_kernels(const hr_problem *problem)
{
  if (problem->operation == HR_OPERATION_DECODE)
    return problem->decode.latent ? NULL : HR_DECODE_KERNELS;
  return problem->operation == HR_OPERATION_ATTENTION ? HR_FUSED_ATTENTION_KERNELS : NULL;
}

bool hr_operator_take_decode(hr_device *device, const hr_workload *workload, hr_problem *problem)
{
  hr_plan *plan = NULL;
  hr_decode decode = hr_decode_default();
  if (workload->phase != HR_PHASE_DECODE || !as_decode(problem, &decode))
    return false;
  const char *kernels = decode.latent ? NULL : HR_DECODE_KERNELS;
  decode.k_strides = decode.v_strides = (hr_kv_strides){0}; /* those of pages */
  const int64_t page_size = workload->page_size > 0 ? workload->page_size : HR_KV_PAGE_USUAL;
  bool taken = hr_decode_set_pages(&decode, page_size, NULL) == HR_OK &&
               hr_plan_decode(device, &decode, kernels, &plan, NULL) == HR_OK;
  hr_plan_free(plan);
  if (taken)
    *problem = hr_decode_problem(&decode);
  return taken;
}

bool hr_operator_has_equal_groups(const hr_operator *op)
{
  int64_t each = op->pass == HR_PASS_WGRAD ? op->gemm.k : op->gemm.m;
  return op->kind == HR_KIND_GROUPED_GEMM && op->rows == each * op->gemm.batch;
}

static hr_status grouped_problem(const hr_operator *op, hr_problem *problem, hr_error *error)
{
  if (!hr_operator_has_equal_groups(op))
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "no kernel for experts of unequal load: %" PRId64 " tokens over %" PRId64 " experts", op->rows,
                   op->gemm.batch);
  HR_TRY(hr_gemm_check(&op->gemm, error));
  *problem = hr_gemm_problem(&op->gemm);
  return HR_OK;
}

hr_status hr_operator_problem(const hr_model *model, const hr_workload *workload, const hr_operator *op,
                              hr_problem *problem, hr_error *error)
{
  if (op->id == HR_OP_INDEX_SCORE || op->id == HR_OP_INDEX_TOP_K || op->id == HR_OP_INDEX_COMPRESS ||
      op->id == HR_OP_COMPRESS)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "no kernel for this operator");
  switch (op->kind) {
  case HR_KIND_GEMM:
  case HR_KIND_BMM:
    HR_TRY(hr_gemm_check(&op->gemm, error));
    *problem = hr_gemm_problem(&op->gemm);
    return HR_OK;
  case HR_KIND_GROUPED_GEMM: return grouped_problem(op, problem, error);
  case HR_KIND_ATTENTION: return attention_problem(op, problem, error);
  case HR_KIND_MEMORY: return rowwise_problem(model, workload, op, problem, error);
  case HR_KIND_SCAN: return hr_fail(error, HR_ERROR_UNSUPPORTED, "no kernel for this operator");
  case HR_KIND_COMMUNICATION: break;
  }
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "one device does not communicate");
}

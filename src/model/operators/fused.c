/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that this library runs in the kernel of another (src/run/fuse.c): in a step of few tokens a norm in the
 * linear layers that read it, activations and residuals in the linear layer before them. */
#include "model/operators/fused.h"

#include "schedule/linear.h"

/* What an operator wrote that is not launched until it is read: a norm, or a product. */
typedef struct waiting {
  hr_operator *norm, *linear;
} waiting;

static bool is_read_by_linear(hr_operator_id id)
{
  return id == HR_OP_ATTENTION_NORM || id == HR_OP_MLP_NORM || id == HR_OP_FINAL_NORM;
}

static bool takes_norm(const hr_model *model, const hr_operator *op)
{
  const hr_rowwise_operation norm = model->norm == HR_NORM_RMS ? HR_ROWWISE_RMS_NORM : HR_ROWWISE_LAYER_NORM;
  return hr_linear_norm_bytes(norm, op->gemm.m, op->gemm.k, op->gemm.dtype) <= HR_LINEAR_NORM_BYTES_MAX;
}

static int64_t weights_of(const hr_operator *op)
{
  return op->gemm.n * op->gemm.k;
}

static bool is_linear(const hr_operator *op)
{
  return op->kind == HR_KIND_GEMM && weights_of(op) <= HR_LINEAR_WEIGHTS_MAX;
}

/* A norm that anything else reads is launched. */
static void read_norms(const hr_model *model, const hr_operator *op, const waiting *written)
{
  for (size_t i = 0; i < HR_OPERATOR_READS_MAX; i++) {
    hr_operator *norm = written[op->reads[i]].norm;
    if (norm && !(is_linear(op) && takes_norm(model, op)))
      norm->fused = false;
  }
}

/* A gate is a second matrix of the same kernel. */
static void fuse_activation(hr_operator *op, const waiting *written)
{
  hr_operator *first = written[op->reads[0]].linear, *second = written[op->reads[1]].linear;
  const bool gated = op->reads[1] != HR_TENSOR_NONE;
  if (!first || (gated && (!second || 2 * weights_of(first) > HR_LINEAR_WEIGHTS_MAX)))
    return;
  op->fused = true;
  if (gated)
    second->fused = true;
}

/* The last product that is added is the one whose kernel adds. */
static void fuse_residual(hr_operator *op, const waiting *written)
{
  size_t last = 0;
  for (size_t i = 0; i < HR_OPERATOR_READS_MAX && op->reads[i] != HR_TENSOR_NONE; i++)
    last = i;
  op->fused = written[op->reads[last]].linear != NULL;
}

static waiting fuse(const hr_model *model, hr_operator *op, const waiting *written)
{
  waiting now = {NULL, NULL};
  read_norms(model, op, written);
  if (op->id == HR_OP_ACTIVATION || op->id == HR_OP_SHARED_ACTIVATION)
    fuse_activation(op, written);
  else if (op->id == HR_OP_ATTENTION_RESIDUAL || op->id == HR_OP_MLP_RESIDUAL)
    fuse_residual(op, written);
  else if (is_linear(op))
    now.linear = op;
  else if (is_read_by_linear(op->id))
    op->fused = true, now.norm = op;
  return now;
}

void hr_fuse_operators(const hr_model *model, const hr_workload *workload, hr_operators *operators)
{
  const bool few = workload->phase == HR_PHASE_DECODE && workload->batch <= HR_LINEAR_ROWS_MAX;
  if (!few || workload->framework != HR_FRAMEWORK_HEADROOM || workload->tensor_parallel > 1)
    return;
  waiting written[HR_TENSOR_COUNT] = {{NULL, NULL}};
  for (size_t i = 0; i < operators->count; i++) {
    hr_operator *op = &operators->items[i];
    const waiting now = fuse(model, op, written);
    for (size_t j = 0; j < HR_OPERATOR_WRITES_MAX && op->writes[j] != HR_TENSOR_NONE; j++)
      written[op->writes[j]] = now;
  }
}

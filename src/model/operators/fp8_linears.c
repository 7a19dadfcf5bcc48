/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers of a training step in fp8, as Transformer Engine has them with current scaling (its documentation, "FP8
 * current scaling") and DeepSeek-V3 (arXiv 2412.19437, section 3.3): the forward product and both gradients have
 * operands of 8 bits, the result 16. The router, the logits and attention stay in the workload's format. */
#include "model/operators/fp8_linears.h"
#include "base/checked.h"
#include "model/layers/frameworks.h"
#include "model/layers/operator_builder.h"

/* Elements of the result. A grouped GEMM has the mean of its experts' rows, rounded up. */
static int64_t results_of(const hr_operator *op)
{
  const hr_gemm *g = &op->gemm;
  const bool experts = op->kind == HR_KIND_GROUPED_GEMM && op->pass != HR_PASS_WGRAD;
  return experts ? op->rows * g->n : g->m * g->n * g->batch;
}

/* Both operands of a gradient of weights were written transposed by the other two passes. */
static void multiply(const hr_workload *workload, hr_operator *op)
{
  const int64_t wide = (int64_t)hr_dtype_bytes(workload->dtype), results = results_of(op);
  op->activations = HR_ACTIVATIONS_FP8;
  op->rounds_twice = true;
  op->rounded = op->pass == HR_PASS_WGRAD || (op->pass != HR_PASS_DGRAD && hr_shares_input(op->id));
  op->bytes = op->bytes / wide + results * (wide - 1);
}

void hr_multiply_in_fp8(const hr_workload *workload, hr_operators *operators)
{
  for (size_t i = 0; workload->fp8_linears && i < operators->count; i++) {
    hr_operator *op = &operators->items[i];
    if ((op->kind == HR_KIND_GEMM || op->kind == HR_KIND_GROUPED_GEMM) && hr_has_linear_layers(op->id))
      multiply(workload, op);
  }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which decode steps this library runs as one kernel (src/runtime/cuda/kernels/persistent.cu), where a device can. */
#include "base/checked.h"
#include "model/operators/fused.h"
#include "schedule/linear.h"

#include <headroom/dtype.h>

/* Heads of K times tokens that the caches of a step have room for: with more the kernels for attention alone are
 * faster, docs/notes/step-gpu.md. */
#define KEYS_MAX 32768

static bool have_same_heads(const hr_mixer_attention *a, const hr_mixer_attention *b)
{
  return a->q_heads == b->q_heads && a->k_heads == b->k_heads && a->v_heads == b->v_heads && a->qk_dim == b->qk_dim &&
         a->v_dim == b->v_dim;
}

/* A norm behind attention or an MLP is a kernel of its own. */
static bool takes_layers(const hr_layer_group *g, const hr_workload *w)
{
  const hr_mixer_attention *a = &g->attention;
  const int64_t heads = hr_max64(a->k_heads, a->v_heads), k = hr_max64(a->q_heads * a->v_dim, g->dense.width);
  return g->experts.experts == 0 && a->q_heads > 0 && !a->sinks && g->norms <= 2 && !g->norms_behind &&
         heads * w->batch <= KEYS_MAX / w->context && hr_linear_x_bytes(w->batch, k) <= HR_LINEAR_X_BYTES_MAX;
}

bool hr_is_persistent(const hr_model *model, const hr_workload *w)
{
  if (w->phase != HR_PHASE_DECODE || w->framework != HR_FRAMEWORK_HEADROOM || hr_dtype_bytes(w->dtype) != 2 ||
      w->batch > HR_LINEAR_ROWS_MAX || w->tensor_parallel > 1 || w->pipeline_stages > 1 || w->context > KEYS_MAX)
    return false;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *g = &model->groups[i];
    if (!takes_layers(g, w) || !have_same_heads(&g->attention, &model->groups[0].attention))
      return false;
  }
  return model->numerics.attention_softcap == 0;
}

/* What the kernel does beside a product or attention: gates are second matrices of products. */
static bool is_part(const hr_operator *op)
{
  return (op->kind != HR_KIND_GEMM && op->kind != HR_KIND_ATTENTION) || op->id == HR_OP_MLP_GATE;
}

void hr_persist_operators(hr_operators *operators)
{
  for (size_t i = 0; i < operators->count; i++) {
    hr_operator *op = &operators->items[i];
    op->persistent = op->in_layer || op->id == HR_OP_FINAL_NORM || op->id == HR_OP_LOGIT;
    op->fused = op->persistent && is_part(op);
  }
}

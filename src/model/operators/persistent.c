/* SPDX-License-Identifier: Apache-2.0 */
/* The rule says which decode steps this library runs as one kernel (src/runtime/cuda/kernels/persistent.cu), where a
 * device can. A step with a launch that the kernel does not take would have its large layers fused for nothing. */
#include "base/checked.h"
#include "model/operators/fused.h"
#include "schedule/linear.h"

#include <headroom/dtype.h>

/* Tokens that the caches of a step have room for: none was measured with more, docs/notes/step-gpu.md. */
#define TOKENS_MAX 65536
#define COLUMNS 32 /* columns of linear layers are a multiple */
#define HEAD 8     /* and sizes of heads of this */
#define HEAD_MAX 256

static bool have_same_heads(const hr_mixer_attention *a, const hr_mixer_attention *b)
{
  return a->q_heads == b->q_heads && a->k_heads == b->k_heads && a->v_heads == b->v_heads && a->qk_dim == b->qk_dim &&
         a->v_dim == b->v_dim;
}

/* Other norms of heads are kernels of their own, and so are factors of queries; chunks have page tables of their
 * own. */
static bool takes_heads(const hr_mixer_attention *a, const hr_numerics *n)
{
  const bool plain = a->qk_norm == HR_QK_NORM_NONE || (a->qk_norm == HR_QK_NORM_SHARED && !a->qk_norm_bias);
  const int64_t groups = hr_max64(a->k_heads, a->v_heads);
  return a->q_heads > 0 && !a->shared_kv && !a->v_is_k && a->index_topk == 0 && groups % a->k_heads == 0 &&
         groups % a->v_heads == 0 && a->q_heads % groups == 0 && plain && !a->sinks && a->qk_dim % HEAD == 0 &&
         a->v_dim % HEAD == 0 && hr_max64(a->qk_dim, a->v_dim) <= HEAD_MAX &&
         (a->window == 0 || a->window_kind == HR_WINDOW_SLIDING) && (n->query_growth == 0 || a->rotary_dim > 0);
}

static bool takes_columns(const hr_workload *w, int64_t k)
{
  return k % COLUMNS == 0 && hr_linear_x_bytes(w->batch, k) <= HR_LINEAR_X_BYTES_MAX;
}

/* Experts of one token, chosen by the largest logits; experts that all tokens share are kernels of their own. */
static bool takes_experts(const hr_model *model, const hr_ffn_experts *m, const hr_workload *w)
{
  const hr_router *r = &model->numerics.router;
  const int64_t norm_bytes = hr_linear_norm_bytes(HR_ROWWISE_LAYER_NORM, 1, model->hidden, w->dtype);
  const bool plain = m->groups == 0 && m->shared_width == 0 && m->held == 0 && !m->bias && !m->router_bias &&
                     !m->output_norm && m->latent == 0 && model->numerics.known && !r->sigmoid && !r->bias_chooses &&
                     !r->weighs_inputs;
  return m->experts == 0 ||
         (w->batch == 1 && w->expert_parallel <= 1 && plain && m->experts <= HR_LINEAR_EXPERTS_MAX &&
          m->active <= HR_LINEAR_ACTIVE_MAX && m->experts * model->hidden <= HR_ROUTER_WEIGHTS_MAX &&
          norm_bytes <= HR_LINEAR_NORM_BYTES_MAX && m->width % COLUMNS == 0 && takes_columns(w, m->active * m->width));
}

/* A norm behind attention or an MLP is a kernel of its own. */
static bool takes_layers(const hr_model *model, const hr_layer_group *g, const hr_workload *w)
{
  const hr_mixer_attention *a = &g->attention;
  const bool alone = g->scan.heads == 0 && g->latent.q_heads == 0 && g->compressed.q_heads == 0 && !a->output_gate &&
                     (g->experts.experts == 0 || g->dense.width == 0);
  return alone && takes_heads(a, &model->numerics) && (a->qk_norm == HR_QK_NORM_NONE || model->norm == HR_NORM_RMS) &&
         takes_experts(model, &g->experts, w) && g->norms <= 2 && !g->norms_behind &&
         takes_columns(w, a->q_heads * a->v_dim) && takes_columns(w, g->dense.width);
}

/* The kernel has experts of one number. */
static bool has_same_experts(const hr_model *model, const hr_ffn_experts *m)
{
  for (size_t i = 0; i < model->group_count && m->experts > 0; i++) {
    const hr_ffn_experts *first = &model->groups[i].experts;
    if (first->experts > 0)
      return first->experts == m->experts && first->active == m->active;
  }
  return true;
}

bool hr_is_persistent(const hr_model *model, const hr_workload *w)
{
  if (w->batch < 1 || w->phase != HR_PHASE_DECODE || w->framework != HR_FRAMEWORK_HEADROOM ||
      hr_dtype_bytes(w->dtype) != 2 || w->batch > HR_LINEAR_PERSISTENT_ROWS_MAX || w->tensor_parallel > 1 ||
      w->pipeline_stages > 1 || w->context > TOKENS_MAX / w->batch)
    return false;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *g = &model->groups[i];
    if (!takes_layers(model, g, w) || !has_same_experts(model, &g->experts) ||
        !have_same_heads(&g->attention, &model->groups[0].attention))
      return false;
  }
  return takes_columns(w, model->hidden) && model->numerics.attention_softcap == 0 && model->residual_streams == 0;
}

/* What the kernel does beside a product or attention: gates are second matrices of products. */
static bool is_part(const hr_operator *op)
{
  const bool multiplies = op->kind == HR_KIND_GEMM || op->kind == HR_KIND_GROUPED_GEMM;
  return (!multiplies && op->kind != HR_KIND_ATTENTION) || op->id == HR_OP_MLP_GATE || op->id == HR_OP_EXPERT_GATE;
}

void hr_persist_operators(hr_operators *operators)
{
  for (size_t i = 0; i < operators->count; i++) {
    hr_operator *op = &operators->items[i];
    op->persistent = op->in_layer || op->id == HR_OP_FINAL_NORM || op->id == HR_OP_LOGIT;
    op->fused = op->persistent && is_part(op);
  }
}

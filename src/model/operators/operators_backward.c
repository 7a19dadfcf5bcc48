/* SPDX-License-Identifier: Apache-2.0 */
/* Derives the backward operators from the forward ones. */
#include "model/layers/frameworks.h"
#include "model/layers/operator_builder.h"

#include <headroom/experimental/model.h>
#include <string.h>

/* C = A B: dA = dC Bᵀ and dB = Aᵀ dC, each stored like its operand.
 *
 *   linear y = x Wᵀ, W stored [n, k]:   dX = dY W,    dW = dYᵀ X     (m, k, n) and (n, k, m)
 *   score  S = Q Kᵀ, K stored [kv, d]:  dQ = dS K,    dK = dSᵀ Q
 *   AOV    O = P V,   V stored [kv, d]:  dP = dO Vᵀ,   dV = Pᵀ dO */
static void append_gemm_gradients(hr_operator_builder *builder, const hr_operator *forward, int64_t shared)
{
  const hr_gemm *g = &forward->gemm;
  hr_gemm_sizes first = {.m = g->m,
                         .n = g->k,
                         .k = g->n,
                         .transpose_b = !g->transpose_b,
                         .matrices_a = g->batch,
                         .matrices_b = shared,
                         .matrices_c = g->batch};
  hr_gemm_sizes second = {.m = g->transpose_b ? g->n : g->k,
                          .n = g->transpose_b ? g->k : g->n,
                          .k = g->m,
                          .transpose_a = true,
                          .matrices_a = g->batch,
                          .matrices_b = g->batch,
                          .matrices_c = shared};
  hr_append_gemm(builder, forward->id, forward->kind, HR_PASS_DGRAD, &first);
  hr_append_gemm(builder, forward->id, forward->kind, HR_PASS_WGRAD, &second);
}

/* The fused backward pass recomputes the scores and then computes four gradients: five GEMMs where the forward pass has
 * two, three over qk_dim (S, dQ, dK) and two over v_dim (dP, dV); 2.5 times the forward FLOPs if qk_dim = v_dim. It
 * reads Q, K, V, O and dO and writes dQ, dK and dV: twice the forward bytes. Source: Dao 2023 (arXiv 2307.08691),
 * section 3.1.2. */
static void append_attention_backward(hr_operator_builder *builder, const hr_operator *forward)
{
  hr_operator *op = hr_append_operator(builder, forward->id, HR_KIND_ATTENTION, HR_PASS_DGRAD);
  const hr_attention *a = &forward->attention;
  op->attention = *a;
  int64_t entries = 0;
  if (hr_attention_entries(a, &entries) != HR_OK)
    return; /* the forward operator has recorded the overflow */
  hr_checked64 per_entry = hr_plus(hr_times(hr_checked(a->qk_dim), 3), hr_times(hr_checked(a->v_dim), 2));
  hr_checked64 flops = hr_times(hr_times(hr_times(hr_times(per_entry, 2), entries), a->q_heads), a->batch);
  hr_set_figure(builder, op, flops, &op->flops);
  hr_set_figure(builder, op, hr_times(hr_checked(forward->bytes), 2), &op->bytes);
}

/* Each product has two gradients; a scan also computes its states once more instead of keeping them. Source: Gu & Dao
 * 2023 (arXiv 2312.00752), section 3.3.2. */
static void append_scan_backward(hr_operator_builder *builder, const hr_operator *forward,
                                 const hr_backward_facts *facts)
{
  hr_operator *op = hr_append_operator(builder, forward->id, HR_KIND_SCAN, HR_PASS_DGRAD);
  op->gemm.dtype = forward->gemm.dtype;
  op->bytes = facts->bytes;
  op->columns = forward->columns;
  op->recurrence = forward->recurrence;
  hr_set_figure(builder, op, hr_times(hr_checked(forward->flops), forward->id == HR_OP_SCAN ? 3 : 2), &op->flops);
}

/* Whether the layers of most have a bias there. */
static bool has_bias(const hr_model *model, hr_operator_id id)
{
  const hr_layer_group *layer = hr_model_main_group(model);
  switch (id) {
  case HR_OP_QKV_TRANSFORM:
  case HR_OP_Q_TRANSFORM: return layer->attention.q_bias;
  case HR_OP_K_TRANSFORM: return layer->attention.k_bias;
  case HR_OP_V_TRANSFORM: return layer->attention.v_bias;
  case HR_OP_LINEAR_PROJECTION:
    return layer->latent.q_heads > 0 ? layer->latent.output_bias : layer->attention.output_bias;
  case HR_OP_MLP_UP:
  case HR_OP_MLP_GATE:
  case HR_OP_MLP_DOWN: return layer->dense.bias;
  case HR_OP_LOGIT: return model->logit_bias;
  default: return false;
  }
}

static void append_memory(hr_operator_builder *builder, hr_operator_id id, hr_pass pass, const hr_gemm *g,
                          int64_t moves)
{
  hr_operator *op = hr_append_operator(builder, id, HR_KIND_MEMORY, pass);
  int64_t element_bytes = (int64_t)hr_dtype_bytes(builder->workload->dtype);
  op->columns = g->n;
  hr_set_figure(builder, op, hr_times(hr_times(hr_times(hr_checked(g->m), g->n), moves), element_bytes), &op->bytes);
}

/* Kernels of eager mode around the gradients of a linear layer: those of Q, K and V are copied into one matrix, and a
 * sum over its rows is the gradient of the bias. A compiler fuses the copy into the kernels before it. */
static void append_eager(hr_operator_builder *builder, const hr_operator *forward)
{
  hr_gemm g = forward->gemm;
  if (hr_framework_kernels(builder->workload->framework) != HR_FRAMEWORK_EAGER || forward->kind != HR_KIND_GEMM)
    return;
  if (forward->id == HR_OP_QKV_TRANSFORM)
    append_memory(builder, HR_OP_QKV_SPLIT, HR_PASS_DGRAD, &g, 2);
  if (has_bias(builder->model, forward->id)) {
    append_memory(builder, forward->id, HR_PASS_BGRAD, &g, 1);
    builder->to->items[builder->to->count - 1].summed_rows = g.m;
  }
}

/* A tensor that is gathered forward has a gradient that is reduced and scattered backward, and the other way round. */
static hr_collective_kind backward_of(hr_collective_kind forward)
{
  switch (forward) {
  case HR_ALL_GATHER: return HR_REDUCE_SCATTER;
  case HR_REDUCE_SCATTER: return HR_ALL_GATHER;
  default: return forward;
  }
}

/* The gradient of a sum over devices is on all of them. An indexer chooses keys, which has no gradient: transformers
 * runs it without one (modeling_deepseek_v32.py), and the loss of its own that trains it is not counted. */
static bool has_gradients(hr_operator_id id)
{
  return id != HR_OP_EMBEDDING_ALL_REDUCE && (id < HR_OP_INDEX_Q || id > HR_OP_INDEX_TOP_K);
}

static void append_gradients(hr_operator_builder *builder, const hr_operator *forward, const hr_backward_facts *facts)
{
  switch (forward->kind) {
  case HR_KIND_GEMM:
  case HR_KIND_BMM: append_gemm_gradients(builder, forward, facts->matrices_b); break;
  case HR_KIND_GROUPED_GEMM: hr_append_grouped_gradients(builder, forward); break;
  case HR_KIND_ATTENTION: append_attention_backward(builder, forward); break;
  case HR_KIND_SCAN: append_scan_backward(builder, forward, facts); break;
  case HR_KIND_MEMORY:
  case HR_KIND_COMMUNICATION: {
    hr_operator *op = hr_append_operator(builder, forward->id, forward->kind, HR_PASS_DGRAD);
    op->bytes = facts->bytes;
    op->columns = forward->columns;
    op->collective = backward_of(forward->collective), op->devices = forward->devices, op->stride = forward->stride;
    op->copies = forward->copies;
    break;
  }
  }
}

/* Whether the backward pass of a layer runs the operator once more. K and V of other devices it gathers anyway. */
static bool is_recomputed(const hr_operator *op, hr_recompute recompute)
{
  switch (recompute) {
  case HR_RECOMPUTE_NONE: return false;
  case HR_RECOMPUTE_SELECTIVE:
    return op->id == HR_OP_ATTENTION_SCORE || op->id == HR_OP_SOFTMAX || op->id == HR_OP_SOFTMAX_DROPOUT ||
           op->id == HR_OP_ATTENTION_OVER_VALUE;
  case HR_RECOMPUTE_FULL: return op->in_layer && op->id != HR_OP_KV_ALL_GATHER;
  }
  return false;
}

static void append_recomputed(hr_operator_builder *builder, size_t forward_count)
{
  for (size_t i = 0; i < forward_count && !builder->full; i++) {
    const hr_operator forward = builder->to->items[i];
    if (!is_recomputed(&forward, builder->workload->recompute))
      continue;
    hr_operator *op = hr_append_operator(builder, forward.id, forward.kind, HR_PASS_RECOMPUTE);
    *op = forward;
    op->pass = HR_PASS_RECOMPUTE;
  }
}

/* The gradients of an operator run where it does, and work on what it names. */
static void name_tensors(hr_operator *gradient, const hr_operator *forward)
{
  gradient->count = forward->count;
  gradient->groups = forward->groups;
  memcpy(gradient->reads, forward->reads, sizeof gradient->reads);
  memcpy(gradient->writes, forward->writes, sizeof gradient->writes);
  memcpy(gradient->weights, forward->weights, sizeof gradient->weights);
}

void hr_append_backward(hr_operator_builder *builder)
{
  size_t forward_count = builder->to->count;
  append_recomputed(builder, forward_count);
  for (size_t i = forward_count; i-- > 0 && !builder->full;) {
    size_t first = builder->to->count;
    if (!has_gradients(builder->to->items[i].id))
      continue;
    append_eager(builder, &builder->to->items[i]);
    append_gradients(builder, &builder->to->items[i], &builder->backward[i]);
    for (size_t j = first; j < builder->to->count; j++)
      name_tensors(&builder->to->items[j], &builder->to->items[i]);
  }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, after Korthikanti et al. 2022 (arXiv 2205.05198), sections 4.1 and 4.2.
 *
 * A layer saves sbh(34 + 5as/h) bytes in fp16, on t devices sbh(10 + 24/t + 5as/(ht)):
 *
 *     per token          bytes            generalized here to
 *     norm inputs        2h · 2           layer_norms · h
 *     inputs of QKV, up  2h · 2           h each; h for both in a parallel block with one norm
 *     Q, K, V, O         8h / t           heads × head size of each; Q and K twice with a Q/K norm
 *     MLP                16h / t          input and output of the activation; plus the gate
 *     dropout masks      2h               1 byte per element, with dropout
 *     scores             5as / t          softmax output 2, its dropout's mask 1 and output 2; fused: none */
#include "analysis/model/activation_memory.h"

static int64_t element_bytes(const hr_workload *workload)
{
  return (int64_t)hr_dtype_bytes(workload->dtype);
}

/* Elements of Q, K and V per token. */
static hr_checked64 qkv_columns(const hr_shard *shard)
{
  return hr_plus(hr_plus(hr_checked(shard->q_columns), hr_checked(shard->k_columns)), hr_checked(shard->v_columns));
}

/* Scores of all heads of the device. */
static hr_checked64 score_count(const hr_workload *workload, const hr_shard *shard)
{
  return hr_times(hr_times(hr_times(hr_checked(shard->q_heads), workload->batch), shard->q_len), shard->kv_len);
}

static hr_checked64 saved_scores(const hr_workload *workload, const hr_shard *shard)
{
  int64_t element = element_bytes(workload);
  if (workload->attention == HR_ATTENTION_FUSED) /* the log-sum-exp of each row, in fp32 */
    return hr_times(hr_times(hr_checked(shard->q_heads), shard->rows), 4);
  return hr_times(score_count(workload, shard), workload->dropout ? 2 * element + 1 : element);
}

hr_checked64 hr_saved_by_layer(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  bool one_input = model->parallel_block && model->layer_norms == 1;
  hr_checked64 hidden = hr_times(hr_checked(model->hidden), model->layer_norms + (one_input ? 1 : 2));
  hr_checked64 heads = hr_plus(qkv_columns(shard), hr_checked(shard->o_columns));
  if (model->qk_norm != HR_QK_NORM_NONE)
    heads = hr_plus(heads, hr_plus(hr_checked(shard->q_columns), hr_checked(shard->k_columns)));
  hr_checked64 mlp = hr_times(hr_checked(shard->mlp_width), model->mlp_gated ? 3 : 2);
  hr_checked64 columns = hr_plus(hr_plus(hidden, heads), hr_plus(mlp, hr_checked(model->q_rank)));
  hr_checked64 masks = hr_times(hr_checked(workload->dropout ? model->hidden : 0), 2);
  hr_checked64 per_token = hr_plus(hr_times(columns, element_bytes(workload)), masks);
  return hr_plus(hr_times(per_token, shard->rows), saved_scores(workload, shard));
}

hr_checked64 hr_saved_by_embedding(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  int64_t element = element_bytes(workload);
  hr_checked64 per_token = hr_checked(workload->dropout ? model->hidden : 0); /* the mask */
  if (model->embedding_norm)
    per_token = hr_plus(per_token, hr_times(hr_checked(shard->embedding_dim), element));
  if (shard->embedding_dim != model->hidden)
    per_token = hr_plus(per_token, hr_times(hr_checked(shard->embedding_dim), element));
  return hr_times(per_token, shard->rows);
}

/* The inputs of the final norm, the embedding projection and the logits, and the logits in fp32 for the loss.
 * Source: Korthikanti et al. 2022, section 4.3. */
hr_checked64 hr_saved_by_head(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  int64_t inputs = (model->final_norm ? 1 : 0) + (shard->embedding_dim != model->hidden ? 1 : 0);
  hr_checked64 columns = hr_plus(hr_times(hr_checked(model->hidden), inputs), hr_checked(shard->embedding_dim));
  hr_checked64 logits = hr_times(hr_checked(shard->vocabulary), 4);
  return hr_times(hr_plus(hr_times(columns, element_bytes(workload)), logits), shard->logit_rows);
}

/* The residual stream of all tokens, plus the inputs and outputs of the largest operator: attention, MLP or logits. */
hr_checked64 hr_peak_activation_bytes(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  bool fused = workload->attention == HR_ATTENTION_FUSED;
  hr_checked64 qkv = hr_times(hr_plus(qkv_columns(shard), hr_checked(shard->o_columns)), shard->rows);
  hr_checked64 scores = fused ? hr_checked(0) : hr_times(score_count(workload, shard), 2);
  hr_checked64 width = hr_times(hr_checked(shard->mlp_width), model->mlp_gated ? 3 : 2);
  hr_checked64 mlp = hr_times(hr_plus(hr_checked(model->hidden), width), shard->rows);
  hr_checked64 logits =
      hr_times(hr_plus(hr_checked(shard->embedding_dim), hr_checked(shard->vocabulary)), shard->logit_rows);
  hr_checked64 largest = hr_larger(hr_larger(hr_plus(qkv, scores), mlp), logits);
  hr_checked64 residual = hr_times(hr_checked(model->hidden), shard->rows);
  return hr_times(hr_plus(residual, largest), element_bytes(workload));
}

hr_checked64 hr_kv_cache_bytes(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                               int64_t stage_layers, int64_t tokens)
{
  int64_t windowed = model->window > 0 ? hr_min64(model->window_layers, model->layers) : 0;
  int64_t full = hr_min64(stage_layers, model->layers - windowed); /* of the stage with the most of them */
  hr_checked64 kept = hr_plus(hr_times(hr_checked(full), tokens),
                              hr_times(hr_checked(stage_layers - full), hr_min64(tokens, model->window)));
  hr_checked64 per_token = hr_plus(hr_checked(shard->k_columns), hr_checked(shard->v_columns));
  hr_checked64 bytes = hr_times(hr_times(per_token, workload->batch), element_bytes(workload));
  hr_checked64 result = hr_times(bytes, kept.value);
  result.overflow = result.overflow || kept.overflow;
  return result;
}

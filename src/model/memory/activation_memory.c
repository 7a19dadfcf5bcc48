/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, after Korthikanti et al. 2022 (arXiv 2205.05198), sections 4.1 and 4.2.
 *
 * A layer saves sbh(34 + 5as/h) bytes in fp16, on t devices sbh(10 + 24/t + 5as/(ht)):
 *
 *     per token          bytes            generalized here to
 *     norm inputs        2h · 2           norms · h
 *     inputs of QKV, up  2h · 2           h each; h for both in a parallel block with one norm
 *     Q, K, V, O         8h / t           heads × head size of each; Q and K twice with a Q/K norm
 *     MLP                16h / t          input and output of the activation; plus the gate
 *     dropout masks      2h               1 byte per element, with dropout
 *     scores             5as / t          softmax output 2, its dropout's mask 1 and output 2; fused: none
 *
 * Sequence parallelism divides the first two and the masks by t, too: sbh/t (34 + 5as/h). Recomputation (section 5):
 * selective leaves out the scores, full keeps the layer's input alone, 2sbh. */
#include "model/memory/activation_memory.h"

#include "model/layers/attention_calls.h"

static int64_t element_bytes(const hr_workload *workload)
{
  return (int64_t)hr_dtype_bytes(workload->dtype);
}

static int64_t streams_of(const hr_model *model)
{
  return hr_max64(model->residual_streams, 1);
}

/* Counts the bytes that a layer saves if it is not recomputed whole. */
static hr_checked64 saved_for_backward(const hr_layer_context *c)
{
  const hr_layer_group *layer = c->layer;
  int64_t blocks = hr_has_mixer(layer) + hr_has_ffn(layer);
  bool one_input = layer->parallel_block && layer->norms == 1;
  hr_checked64 hidden = hr_times(hr_checked(c->model->hidden),
                                 layer->norms + (one_input ? 1 : blocks) + blocks * (streams_of(c->model) - 1));
  hr_checked64 masks = hr_times(hr_checked(c->workload->dropout ? c->model->hidden : 0), blocks);
  hr_checked64 per_token = hr_plus(hr_times(hidden, element_bytes(c->workload)), masks);
  hr_checked64 sum = hr_times(per_token, c->shard->stream_rows);
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    if (hr_layer_kind_at(i)->present(layer))
      sum = hr_plus(sum, hr_layer_kind_at(i)->saved_bytes(c));
  }
  return sum;
}

hr_checked64 hr_saved_by_layer(const hr_layer_context *c)
{
  if (c->workload->recompute != HR_RECOMPUTE_FULL)
    return saved_for_backward(c);
  hr_checked64 token = hr_times(hr_checked(c->model->hidden), streams_of(c->model));
  return hr_times(hr_times(token, element_bytes(c->workload)), c->shard->stream_rows);
}

/* K and V of the other context-parallel devices, and in training their gradients. */
static hr_checked64 gathered_keys(const hr_layer_context *c)
{
  if (c->workload->context_parallel == 1)
    return hr_checked(0);
  const hr_mixer_attention heads = hr_heads_of(c->layer);
  hr_checked64 columns =
      hr_plus(hr_times(hr_checked(heads.k_heads), heads.qk_dim), hr_times(hr_checked(heads.v_heads), heads.v_dim));
  hr_checked64 elements = hr_times(hr_times(columns, c->workload->batch), c->shard->kv_len);
  return hr_times(elements, c->workload->phase == HR_PHASE_TRAIN ? 2 : 1);
}

hr_checked64 hr_working_bytes(const hr_layer_context *c)
{
  const hr_mixer_attention heads = hr_heads_of(c->layer);
  hr_checked64 gathered = hr_times(gathered_keys(c), element_bytes(c->workload));
  if (c->workload->recompute == HR_RECOMPUTE_NONE)
    return gathered;
  if (c->workload->recompute == HR_RECOMPUTE_SELECTIVE)
    return hr_plus(gathered, hr_recomputed_scores(c, &heads));
  return hr_plus(gathered, saved_for_backward(c));
}

hr_checked64 hr_saved_by_embedding(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  int64_t element = element_bytes(workload);
  hr_checked64 per_token = hr_checked(workload->dropout ? model->hidden : 0); /* the mask */
  if (model->embedding_norm)
    per_token = hr_plus(per_token, hr_times(hr_checked(shard->embedding_dim), element));
  if (shard->embedding_dim != model->hidden)
    per_token = hr_plus(per_token, hr_times(hr_checked(shard->embedding_dim), element));
  return hr_times(per_token, shard->stream_rows);
}

/* The inputs of the final norm, the embedding projection and the logits, and the logits in fp32 for the loss;
 * Headroom's loss takes them as they are. Source: Korthikanti et al. 2022, section 4.3. */
hr_checked64 hr_saved_by_head(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  int64_t inputs = (model->final_norm ? 1 : 0) + (shard->embedding_dim != model->hidden ? 1 : 0);
  hr_checked64 columns = hr_plus(hr_times(hr_checked(model->hidden), inputs), hr_checked(shard->embedding_dim));
  const bool widens = workload->framework != HR_FRAMEWORK_HEADROOM;
  hr_checked64 logits = hr_times(hr_checked(shard->outputs), widens ? 4 : element_bytes(workload));
  hr_checked64 inputs_bytes = hr_times(hr_times(columns, element_bytes(workload)), shard->logit_stream_rows);
  return hr_plus(inputs_bytes, hr_times(logits, shard->logit_rows));
}

static hr_checked64 largest_of_layer(const hr_layer_context *c)
{
  hr_checked64 largest = hr_checked(0);
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    if (hr_layer_kind_at(i)->present(c->layer))
      largest = hr_larger(largest, hr_layer_kind_at(i)->live_elements(c));
  }
  return largest;
}

/* The residual stream of all tokens, plus the inputs and outputs of the largest operator: mixer, feed-forward network
 * or logits. */
hr_checked64 hr_peak_activation_bytes(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  hr_checked64 largest =
      hr_times(hr_plus(hr_checked(shard->embedding_dim), hr_checked(shard->outputs)), shard->logit_rows);
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group share = hr_shard_layer(model, &model->groups[i], workload);
    const hr_layer_context context = {model, workload, shard, &share};
    largest = hr_larger(largest, hr_plus(largest_of_layer(&context), gathered_keys(&context)));
  }
  hr_checked64 residual = hr_times(hr_times(hr_checked(model->hidden), streams_of(model)), shard->stream_rows);
  return hr_times(hr_plus(residual, largest), element_bytes(workload));
}

hr_checked64 hr_layer_cache_elements(const hr_layer_group *layer, int64_t tokens)
{
  hr_checked64 sum = hr_checked(0);
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    const hr_layer_kind *kind = hr_layer_kind_at(i);
    if (kind->cache_elements && kind->present(layer))
      sum = hr_plus(sum, kind->cache_elements(layer, tokens));
  }
  return sum;
}

hr_checked64 hr_layer_state_bytes(const hr_layer_group *layer, const hr_workload *workload)
{
  hr_checked64 sum = hr_checked(0);
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    const hr_layer_kind *kind = hr_layer_kind_at(i);
    if (kind->state_bytes && kind->present(layer))
      sum = hr_plus(sum, kind->state_bytes(layer, workload));
  }
  return sum;
}

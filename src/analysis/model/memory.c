/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/memory.h>

#include "analysis/model/activation_memory.h"
#include "analysis/model/layer_weights.h"
#include "analysis/model/parameters.h"
#include "base/error.h"

/* Sum of a figure over the layers of the pipeline stage with the heaviest ones: groups tell how many layers are equal,
 * not where they are. */
static hr_checked64 sum_of_stage(const hr_model *model, const hr_checked64 *of_group, int64_t stages)
{
  bool taken[HR_LAYER_GROUPS_MAX] = {false};
  int64_t left = hr_ceil_div(hr_model_layers(model), stages);
  hr_checked64 sum = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++) /* a figure that overflowed cannot be compared */
    sum.overflow = sum.overflow || of_group[i].overflow;
  while (left > 0 && !sum.overflow) {
    size_t heaviest = model->group_count;
    for (size_t i = 0; i < model->group_count; i++) {
      if (!taken[i] && (heaviest == model->group_count || of_group[i].value > of_group[heaviest].value))
        heaviest = i;
    }
    int64_t layers = hr_min64(left, model->groups[heaviest].count);
    sum = hr_plus(sum, hr_times(of_group[heaviest], layers));
    taken[heaviest] = true;
    left -= layers;
  }
  return sum;
}

/* The part of the model on the most loaded device of the tensor-parallel group. */
static void part_on_device(const hr_model *model, const hr_workload *workload, const hr_shard *shard, hr_model *share)
{
  *share = *model;
  share->vocabulary = shard->vocabulary;
  for (size_t i = 0; i < model->group_count; i++)
    share->groups[i] = hr_shard_layer(&model->groups[i], workload);
}

/* What the weights of the model's part take, in the formats of quantized layers or all alike. */
typedef struct weight_bytes {
  int64_t element_bytes;
  bool quantized;
} weight_bytes;

static hr_checked64 layer_bytes(const hr_model *share, const hr_layer_group *layer, const weight_bytes *weights)
{
  hr_checked64 bytes = hr_times(hr_count_layer(share, layer), weights->element_bytes);
  return weights->quantized ? hr_plus(bytes, hr_layer_bytes_added(share, layer, weights->element_bytes)) : bytes;
}

/* Weights on the most loaded device. With several stages, that is ⌈L/p⌉ layers and the larger end of the pipeline: the
 * embedding with its positions, or the logits (whose stage needs its own copy of a tied table). */
static hr_status weights_on_device(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                                   const weight_bytes *weights, hr_checked64 *bytes, hr_error *error)
{
  hr_model share;
  hr_parameters all;
  part_on_device(model, workload, shard, &share);
  HR_TRY(hr_count_parameters(&share, &all, error));
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX], layers = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++) {
    of_group[i] = layer_bytes(&share, &share.groups[i], weights);
    layers = hr_plus(layers, hr_times(of_group[i], share.groups[i].count));
  }
  hr_checked64 logit = hr_checked(0);
  if (weights->quantized)
    logit = hr_logit_bytes_added(&share, weights->element_bytes);
  if (workload->pipeline_stages == 1) {
    /* Each term was counted above, so none overflows. */
    int64_t within = 0;
    for (size_t i = 0; i < model->group_count; i++)
      within += hr_count_layer(&share, &share.groups[i]).value * share.groups[i].count;
    *bytes = hr_plus(hr_plus(layers, logit), hr_times(hr_checked(all.total - within), weights->element_bytes));
    return HR_OK;
  }
  int64_t norm = model->norm_weight ? model->hidden * (model->norm_bias ? 2 : 1) : 0;
  int64_t final_norm = model->final_norm ? norm : 0, embedding_norm = model->embedding_norm ? norm : 0;
  int64_t table = shard->vocabulary * shard->embedding_dim;
  int64_t projection = (all.embedding - table) / 2; /* one of two: before the layers, after them */
  int64_t first = table + projection + all.position + embedding_norm;
  int64_t last =
      (model->head == HR_HEAD_LANGUAGE && model->tied_embeddings ? table : 0) + projection + all.logit + final_norm;
  hr_checked64 ends = hr_larger(hr_times(hr_checked(first), weights->element_bytes),
                                hr_plus(hr_times(hr_checked(last), weights->element_bytes), logit));
  *bytes = hr_plus(sum_of_stage(model, of_group, workload->pipeline_stages), ends);
  return HR_OK;
}

/* Mixed-precision Adam keeps an fp32 copy of the weights, a mean and a variance; fp32 weights need no copy. */
static int64_t optimizer_bytes_per_parameter(hr_dtype dtype)
{
  return hr_dtype_bytes(dtype) < 4 ? 12 : 8;
}

/* 1F1B schedule: the first of p stages has p microbatches in flight; the last has one, with the logits. */
static hr_checked64 saved_activations(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  int64_t stages = workload->pipeline_stages;
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX];
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group share = hr_shard_layer(&model->groups[i], workload);
    of_group[i] = hr_saved_by_layer(&(hr_layer_context){model, workload, shard, &share});
  }
  hr_checked64 layers = sum_of_stage(model, of_group, stages);
  hr_checked64 embedding = hr_saved_by_embedding(model, workload, shard);
  hr_checked64 head = hr_saved_by_head(model, workload, shard);
  if (stages == 1)
    return hr_plus(hr_plus(layers, embedding), head);
  hr_checked64 first = hr_times(hr_plus(layers, embedding), stages);
  hr_checked64 last = hr_plus(layers, head);
  return hr_larger(first, last);
}

static int64_t cached_element_bytes(const hr_workload *workload)
{
  return workload->kv_cache == HR_KV_UNQUANTIZED ? (int64_t)hr_dtype_bytes(workload->dtype) : 1;
}

static hr_checked64 kv_cache(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  if (workload->phase != HR_PHASE_PREFILL && workload->phase != HR_PHASE_DECODE)
    return hr_checked(0);
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX];
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group share = hr_shard_layer(&model->groups[i], workload);
    of_group[i] = hr_layer_cache_elements(&share, shard->kv_len);
  }
  hr_checked64 elements = sum_of_stage(model, of_group, workload->pipeline_stages);
  return hr_times(hr_times(elements, workload->batch), cached_element_bytes(workload));
}

/* Of all sequences on the device. */
static hr_checked64 states(const hr_model *model, const hr_workload *workload)
{
  if (workload->phase != HR_PHASE_PREFILL && workload->phase != HR_PHASE_DECODE)
    return hr_checked(0);
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX];
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group share = hr_shard_layer(&model->groups[i], workload);
    of_group[i] = hr_layer_state_bytes(&share, workload);
  }
  return hr_times(sum_of_stage(model, of_group, workload->pipeline_stages), workload->batch);
}

static hr_checked64 states_per_sequence(const hr_model *model, const hr_workload *workload)
{
  hr_checked64 sum = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++)
    sum = hr_plus(sum, hr_times(hr_layer_state_bytes(&model->groups[i], workload), model->groups[i].count));
  return sum;
}

/* What one more token adds in all layers; a head that several devices hold counts once. */
hr_checked64 hr_cache_bytes_per_token(const hr_model *model, const hr_workload *workload)
{
  hr_checked64 sum = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *layer = &model->groups[i];
    hr_checked64 one = hr_layer_cache_elements(layer, 1), two = hr_layer_cache_elements(layer, 2);
    sum = hr_plus(sum, hr_times(hr_plus(two, hr_times(one, -1)), layer->count));
  }
  return hr_times(sum, cached_element_bytes(workload));
}

hr_status hr_memory_estimate(const hr_model *model, const hr_workload *workload, hr_memory *memory, hr_error *error)
{
  HR_NEED(error, model, workload, memory);
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  hr_shard shard;
  bool train = workload->phase == HR_PHASE_TRAIN;
  weight_bytes stored = {(int64_t)hr_dtype_bytes(workload->dtype), !train}, counted = {1, false};
  hr_checked64 weights, parameters;
  HR_TRY(hr_shard_sizes(model, workload, &shard, error));
  HR_TRY(weights_on_device(model, workload, &shard, &stored, &weights, error));
  HR_TRY(weights_on_device(model, workload, &shard, &counted, &parameters, error));

  hr_checked64 none = hr_checked(0);
  hr_memory result;
  const struct {
    hr_checked64 bytes;
    int64_t *place;
    const char *what;
  } parts[] = {
      {weights, &result.weight_bytes, "weights"},
      {train ? weights : none, &result.gradient_bytes, "gradients"},
      {train ? hr_times(parameters, optimizer_bytes_per_parameter(workload->dtype)) : none, &result.optimizer_bytes,
       "optimizer state"},
      {train ? saved_activations(model, workload, &shard) : hr_peak_activation_bytes(model, workload, &shard),
       &result.activation_bytes, "activations"},
      {kv_cache(model, workload, &shard), &result.kv_cache_bytes, "KV cache"},
      {states(model, workload), &result.state_bytes, "states"},
  };
  hr_checked64 total = hr_checked(0);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    total = hr_plus(total, parts[i].bytes);
    if (hr_checked_take(parts[i].bytes, parts[i].place) != HR_OK || total.overflow)
      return hr_fail(error, HR_ERROR_OVERFLOW, "the bytes of the %s do not fit into 63 bits", parts[i].what);
  }
  result.total_bytes = total.value;
  if (hr_checked_take(hr_cache_bytes_per_token(model, workload), &result.kv_cache_bytes_per_token) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the bytes of a token's keys and values do not fit into 63 bits");
  if (hr_checked_take(states_per_sequence(model, workload), &result.state_bytes_per_sequence) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the bytes of a sequence's states do not fit into 63 bits");
  *memory = result;
  return HR_OK;
}

/* Whether `batch` sequences fit; an overflow does not. The model and the workload have been checked. */
static bool fits(const hr_model *model, const hr_workload *workload, int64_t batch, int64_t capacity_bytes)
{
  hr_memory memory = {0};
  hr_workload tried = *workload;
  tried.batch = batch;
  return hr_memory_estimate(model, &tried, &memory, NULL) == HR_OK && memory.total_bytes <= capacity_bytes;
}

hr_status hr_memory_largest_batch(const hr_model *model, const hr_workload *workload, int64_t capacity_bytes,
                                  int64_t *batch, hr_error *error)
{
  HR_NEED(error, model, workload, batch);
  hr_workload one = *workload;
  one.batch = 1;
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(&one, model, error));
  int64_t low = 0, high = 1; /* invariant after the first loop: `low` fits, `high` does not */
  while (high <= HR_WORKLOAD_SIZE_MAX && fits(model, workload, high, capacity_bytes)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (fits(model, workload, middle, capacity_bytes))
      low = middle;
    else
      high = middle;
  }
  *batch = low;
  return HR_OK;
}

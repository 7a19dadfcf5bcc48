/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/memory.h>

#include "base/error.h"
#include "base/struct_size.h"
#include "model/memory/activation_memory.h"
#include "model/memory/memory_basis.h"
#include "shape/kv_format.h"

#include <headroom/experimental/workload.h>

/* Bytes of so many of a stage's v parts. */
static hr_checked64 of_parts(hr_checked64 stage, int64_t parts, const hr_workload *workload)
{
  hr_checked64 all = hr_times(stage, parts);
  return all.overflow ? all : hr_checked(hr_ceil_div(all.value, hr_virtual_stages(workload)));
}

/* Parts of microbatches that the first stage has in flight: no more than there are. */
static int64_t parts_in_flight(const hr_workload *workload)
{
  int64_t p = workload->pipeline_stages, v = hr_virtual_stages(workload), m = hr_workload_microbatches(workload);
  return v == 1 ? hr_min64(p, m) : p * v + (m > p ? p - 1 : 0);
}

/* 1F1B schedule: the first of p stages has min(p, m) microbatches in flight; the last has one, with the logits. Of
 * stages with v parts the first has p·v + p − 1 parts of microbatches in flight, the last p·v − p + 1. The working
 * memory of a layer's backward pass is there once, and when what the head has saved is gone. Source: Korthikanti et
 * al. 2022 (arXiv 2205.05198), section 4.2.3. */
static hr_checked64 saved_activations(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  int64_t stages = workload->pipeline_stages;
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX], working = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group share = hr_shard_layer(model, &model->groups[i], workload);
    const hr_layer_context context = {model, workload, shard, &share};
    of_group[i] = hr_saved_by_layer(&context);
    working = hr_larger(working, hr_working_bytes(&context));
  }
  hr_checked64 layers = hr_sum_of_stage(model, of_group, stages);
  hr_checked64 embedding = hr_saved_by_embedding(model, workload, shard);
  hr_checked64 head = hr_saved_by_head(model, workload, shard);
  if (stages == 1)
    return hr_plus(hr_plus(layers, embedding), hr_larger(head, working));
  int64_t in_last = stages * (hr_virtual_stages(workload) - 1) + 1;
  hr_checked64 first = of_parts(hr_plus(layers, embedding), parts_in_flight(workload), workload);
  hr_checked64 last = hr_plus(of_parts(layers, in_last, workload), hr_larger(head, working));
  return hr_larger(hr_plus(first, working), last);
}

/* Sequences in flight keep their keys, values and states: those of all microbatches. */
static hr_checked64 of_all_sequences(const hr_workload *workload, hr_checked64 of_one)
{
  return hr_times(hr_times(of_one, workload->batch), hr_workload_microbatches(workload));
}

/* Tokens of a sequence that its pages hold. */
static int64_t paged_tokens(const hr_workload *workload, int64_t tokens)
{
  const bool pages = workload->phase == HR_PHASE_DECODE && workload->page_size > 0;
  return pages ? hr_round_up(tokens, workload->page_size) : tokens;
}

static hr_checked64 kv_cache(const hr_model *model, const hr_workload *workload, const hr_shard *shard)
{
  const int64_t tokens = paged_tokens(workload, shard->kv_len / workload->context_parallel);
  if (workload->phase != HR_PHASE_PREFILL && workload->phase != HR_PHASE_DECODE)
    return hr_checked(0);
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX];
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group share = hr_shard_layer(model, &model->groups[i], workload);
    of_group[i] = hr_layer_cache_elements(&share, tokens);
  }
  hr_checked64 elements = hr_sum_of_stage(model, of_group, workload->pipeline_stages);
  return hr_kv_bytes(workload->kv_cache, workload->dtype, of_all_sequences(workload, elements));
}

/* Counts the states of all sequences on the device. */
static hr_checked64 states(const hr_model *model, const hr_workload *workload)
{
  if (workload->phase != HR_PHASE_PREFILL && workload->phase != HR_PHASE_DECODE)
    return hr_checked(0);
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX];
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group share = hr_shard_layer(model, &model->groups[i], workload);
    of_group[i] = hr_layer_state_bytes(&share, workload);
  }
  return of_all_sequences(workload, hr_sum_of_stage(model, of_group, workload->pipeline_stages));
}

static hr_checked64 states_per_sequence(const hr_model *model, const hr_workload *workload)
{
  hr_checked64 sum = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++)
    sum = hr_plus(sum, hr_times(hr_layer_state_bytes(&model->groups[i], workload), model->groups[i].count));
  return sum;
}

/* What a sequence adds in a layer. Compressed entries count in part, as if a token added its share of one. */
static hr_checked64 layer_growth(const hr_layer_group *layer, int64_t from, int64_t to)
{
  const hr_mixer_compressed *m = &layer->compressed;
  hr_layer_group kept = *layer;
  kept.compressed.ratio = 0;
  hr_checked64 before = hr_layer_cache_elements(&kept, from), after = hr_layer_cache_elements(&kept, to);
  hr_checked64 shares = hr_checked(0);
  if (m->q_heads > 0 && m->ratio > 0)
    shares = hr_times(hr_checked(m->head_dim + (m->index_heads > 0 ? m->index_dim : 0)), to - from);
  shares.value = shares.overflow ? 0 : shares.value / hr_max64(m->ratio, 1);
  return hr_plus(hr_plus(after, hr_times(before, -1)), shares);
}

/* What a sequence adds in all layers from a number of tokens to another; a head that several devices hold counts
 * once. */
static hr_checked64 cache_growth(const hr_model *model, const hr_workload *workload, int64_t from, int64_t to)
{
  hr_checked64 sum = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++)
    sum = hr_plus(sum, hr_times(layer_growth(&model->groups[i], from, to), model->groups[i].count));
  return hr_kv_bytes(workload->kv_cache, workload->dtype, sum);
}

hr_checked64 hr_cache_bytes_per_token(const hr_model *model, const hr_workload *workload)
{
  return cache_growth(model, workload, 0, 1);
}

hr_status hr_memory_begin(const hr_model *model, const hr_workload *workload, hr_memory_basis *basis, hr_error *error)
{
  hr_shard shard;
  const bool train = workload->phase == HR_PHASE_TRAIN;
  const int64_t tokens = workload->phase == HR_PHASE_DECODE ? workload->context : workload->sequence;
  HR_TRY(hr_shard_sizes(model, workload, &shard, error));
  HR_TRY(train ? hr_parameters_on_device(model, workload, &shard, &basis->held, error)
               : hr_stored_weights(model, workload, &shard, &basis->stored, error));
  basis->activations =
      train ? saved_activations(model, workload, &shard) : hr_peak_activation_bytes(model, workload, &shard);
  basis->kv_cache = kv_cache(model, workload, &shard);
  basis->states = states(model, workload);
  basis->of_token = hr_cache_bytes_per_token(model, workload);
  basis->of_next_token =
      cache_growth(model, workload, paged_tokens(workload, tokens), paged_tokens(workload, tokens + 1));
  basis->of_sequence = states_per_sequence(model, workload);
  return HR_OK;
}

hr_status hr_memory_end(const hr_memory_basis *basis, const hr_workload *workload, hr_memory *memory, hr_error *error)
{
  hr_memory result;
  hr_weight_memory held = basis->stored;
  if (workload->phase == HR_PHASE_TRAIN)
    HR_TRY(hr_training_weights(&basis->held, workload, &held, error));
  const struct {
    hr_checked64 bytes;
    int64_t *place;
    const char *what;
  } parts[] = {
      {held.weights, &result.weight_bytes, "weights"},
      {held.gradients, &result.gradient_bytes, "gradients"},
      {held.optimizer, &result.optimizer_bytes, "optimizer state"},
      {held.gathered, &result.gathered_bytes, "gathered weights"},
      {basis->activations, &result.activation_bytes, "activations"},
      {basis->kv_cache, &result.kv_cache_bytes, "KV cache"},
      {basis->states, &result.state_bytes, "states"},
  };
  hr_checked64 total = hr_checked(0);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    total = hr_plus(total, parts[i].bytes);
    if (hr_checked_take(parts[i].bytes, parts[i].place) != HR_OK || total.overflow)
      return hr_fail(error, HR_ERROR_OVERFLOW, "the bytes of the %s do not fit into 63 bits", parts[i].what);
  }
  result.total_bytes = total.value;
  if (hr_checked_take(basis->of_token, &result.kv_cache_bytes_per_token) != HR_OK ||
      hr_checked_take(basis->of_next_token, &result.kv_cache_bytes_of_next_token) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the bytes of a token's keys and values do not fit into 63 bits");
  if (hr_checked_take(basis->of_sequence, &result.state_bytes_per_sequence) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the bytes of a sequence's states do not fit into 63 bits");
  *memory = result;
  return HR_OK;
}

hr_status hr_memory_estimate(const hr_model *model, const hr_workload *workload, hr_memory *memory, hr_error *error)
{
  HR_NEED(error, model, workload, memory);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  hr_memory_basis basis;
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  HR_TRY(hr_memory_begin(model, workload, &basis, error));
  return hr_memory_end(&basis, workload, memory, error);
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
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
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

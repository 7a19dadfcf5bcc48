/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the weights on the most loaded device, of their gradients and optimizer state, and what replicas share. */
#include "model/memory/weight_memory.h"

#include "base/error.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/layer_weights.h"
#include "model/layers/parameters.h"

#include <headroom/experimental/model.h>
#include <stddef.h>
#include <string.h>

hr_checked64 hr_sum_of_stage(const hr_model *model, const hr_checked64 *of_group, int64_t stages)
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
    if (heaviest == model->group_count)
      break;
    int64_t layers = hr_min64(left, model->groups[heaviest].count);
    sum = hr_plus(sum, hr_times(of_group[heaviest], layers));
    taken[heaviest] = true;
    left -= layers;
  }
  return sum;
}

/* The part of the model on the most loaded device of the tensor-parallel group. Groups that it lacks are undefined: the
 * planner asks for the parts of 100,000 layouts per second. */
static void part_on_device(const hr_model *model, const hr_workload *workload, const hr_shard *shard, hr_model *share)
{
  const size_t behind = offsetof(hr_model, groups) + sizeof model->groups;
  memcpy(share, model, offsetof(hr_model, groups));
  memcpy((char *)share + behind, (const char *)model + behind, sizeof *model - behind);
  share->vocabulary = shard->vocabulary;
  for (size_t i = 0; i < model->group_count; i++)
    share->groups[i] = hr_shard_layer(model, &model->groups[i], workload);
}

/* What is counted of the model's part: weights in the formats of quantized layers or all alike. */
typedef struct weight_bytes {
  int64_t element_bytes;
  bool quantized;
} weight_bytes;

static hr_checked64 layer_bytes(const hr_model *share, const hr_layer_group *layer, const weight_bytes *weights)
{
  hr_checked64 bytes = hr_times(hr_count_layer(share, layer), weights->element_bytes);
  return weights->quantized ? hr_plus(bytes, hr_layer_bytes_added(share, layer, weights->element_bytes)) : bytes;
}

/* The ends of the pipeline, as parameters: before the layers the embedding with its positions, behind them the logits,
 * whose stage needs its own copy of a tied table. */
static void count_ends(const hr_model *model, const hr_shard *shard, const hr_parameters *all, int64_t *first,
                       int64_t *last)
{
  int64_t norm = model->norm_weight ? model->hidden * (model->norm_bias ? 2 : 1) : 0;
  int64_t final_norm = model->final_norm ? norm : 0, embedding_norm = model->embedding_norm ? norm : 0;
  int64_t table = shard->vocabulary * shard->embedding_dim;
  int64_t projection = (all->embedding - table) / 2; /* one of two: before the layers, after them */
  *first = table + projection + all->position + embedding_norm;
  *last =
      (model->head == HR_HEAD_LANGUAGE && model->tied_embeddings ? table : 0) + projection + all->logit + final_norm;
}

/* Weights on the most loaded device. With several stages, that is ⌈L/p⌉ layers and the larger end of the pipeline. */
static hr_status weights_on_device(const hr_model *model, const hr_model *share, const hr_workload *workload,
                                   const hr_shard *shard, const weight_bytes *weights, hr_checked64 *bytes,
                                   hr_error *error)
{
  hr_parameters all;
  HR_TRY(hr_count_parameters(share, &all, error));
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX], layers = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++) {
    of_group[i] = layer_bytes(share, &share->groups[i], weights);
    layers = hr_plus(layers, hr_times(of_group[i], share->groups[i].count));
  }
  hr_checked64 logit = hr_checked(0);
  if (weights->quantized)
    logit = hr_logit_bytes_added(share, weights->element_bytes);
  if (workload->pipeline_stages == 1) {
    /* Each term was counted above, so none overflows. */
    int64_t within = 0;
    for (size_t i = 0; i < model->group_count; i++)
      within += hr_count_layer(share, &share->groups[i]).value * share->groups[i].count;
    *bytes = hr_plus(hr_plus(layers, logit), hr_times(hr_checked(all.total - within), weights->element_bytes));
    return HR_OK;
  }
  int64_t first, last;
  count_ends(model, shard, &all, &first, &last);
  hr_checked64 ends = hr_larger(hr_times(hr_checked(first), weights->element_bytes),
                                hr_plus(hr_times(hr_checked(last), weights->element_bytes), logit));
  *bytes = hr_plus(hr_sum_of_stage(model, of_group, workload->pipeline_stages), ends);
  return HR_OK;
}

/* ---- training ---- */

/* Mixed-precision Adam keeps an fp32 copy of the weights, a mean and a variance; fp32 weights need no copy. */
static int64_t optimizer_bytes_per_parameter(hr_dtype dtype)
{
  return hr_dtype_bytes(dtype) < 4 ? 12 : 8;
}

/* Counts a device's parameters of routed experts, which fewer devices keep copies of. */
static hr_checked64 routed_on_device(const hr_model *share, const hr_workload *workload)
{
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX];
  for (size_t i = 0; i < share->group_count; i++)
    of_group[i] = hr_count_routed(share, &share->groups[i]);
  return hr_sum_of_stage(share, of_group, workload->pipeline_stages);
}

hr_checked64 hr_part_of_replica(hr_checked64 parameters, hr_checked64 routed, const hr_replicas *replicas)
{
  if (parameters.overflow || routed.overflow)
    return parameters;
  return hr_checked(hr_ceil_div(parameters.value - routed.value, replicas->devices) +
                    hr_ceil_div(routed.value, replicas->devices_of_experts));
}

/* Parameters of the units that are gathered and reduced at once: a layer, or an end of the model if that is larger.
 * Source: PyTorch's FSDP with a unit per layer (Zhao et al. 2023, arXiv 2304.11277, section 3.2.1). */
typedef struct gathered_units {
  hr_checked64 layer, largest;
} gathered_units;

static hr_status largest_units(const hr_model *model, const hr_model *share, const hr_shard *shard,
                               gathered_units *units, hr_error *error)
{
  hr_parameters all;
  int64_t first, last;
  HR_TRY(hr_count_parameters(share, &all, error));
  count_ends(model, shard, &all, &first, &last);
  units->layer = hr_checked(0);
  for (size_t i = 0; i < share->group_count; i++)
    units->layer = hr_larger(units->layer, hr_count_layer(share, &share->groups[i]));
  units->largest = hr_larger(units->layer, hr_checked(hr_max64(first, last)));
  return HR_OK;
}

static hr_checked64 smaller(hr_checked64 a, hr_checked64 b)
{
  return !a.overflow && (b.overflow || a.value < b.value) ? a : b;
}

/* Stages 2 and 3 reduce the gradients of a unit before they are split; stage 3 also gathers the weights of the unit in
 * use and of the next one. */
static hr_checked64 gathered(const gathered_units *units, hr_checked64 parameters, int64_t stage)
{
  hr_checked64 two = smaller(hr_plus(units->largest, units->layer), parameters);
  hr_checked64 sum = stage >= 2 ? smaller(units->largest, parameters) : hr_checked(0);
  return stage >= 3 ? hr_plus(sum, two) : sum;
}

static hr_status training_memory(const hr_model *model, const hr_model *share, const hr_workload *workload,
                                 const hr_shard *shard, hr_weight_memory *memory, hr_error *error)
{
  hr_replicas replicas;
  hr_checked64 parameters;
  gathered_units units;
  const weight_bytes counted = {1, false};
  int64_t element = (int64_t)hr_dtype_bytes(workload->dtype);
  HR_TRY(hr_count_replicas(workload, &replicas, error));
  HR_TRY(weights_on_device(model, share, workload, shard, &counted, &parameters, error));
  HR_TRY(largest_units(model, share, shard, &units, error));
  int64_t stage = replicas.devices > 1 ? workload->zero_stage : 0;
  hr_checked64 part = hr_part_of_replica(parameters, routed_on_device(share, workload), &replicas);
  memory->weights = hr_times(stage >= 3 ? part : parameters, element);
  memory->gradients = hr_times(stage >= 2 ? part : parameters, element);
  memory->optimizer = hr_times(stage >= 1 ? part : parameters, optimizer_bytes_per_parameter(workload->dtype));
  memory->gathered = hr_times(gathered(&units, parameters, stage), element);
  return HR_OK;
}

hr_status hr_parameters_on_device(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                                  hr_checked64 *all, hr_checked64 *routed, hr_error *error)
{
  hr_model share;
  const weight_bytes counted = {1, false};
  part_on_device(model, workload, shard, &share);
  *routed = routed_on_device(&share, workload);
  return weights_on_device(model, &share, workload, shard, &counted, all, error);
}

hr_status hr_weight_memory_of(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                              hr_weight_memory *memory, hr_error *error)
{
  hr_model share;
  part_on_device(model, workload, shard, &share);
  if (workload->phase == HR_PHASE_TRAIN)
    return training_memory(model, &share, workload, shard, memory, error);
  const weight_bytes stored = {(int64_t)hr_dtype_bytes(workload->dtype), true};
  memory->gradients = memory->optimizer = memory->gathered = hr_checked(0);
  return weights_on_device(model, &share, workload, shard, &stored, &memory->weights, error);
}

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

/* The ends of the pipeline, as parameters: before the layers the embedding with its positions, behind them the logits,
 * whose stage needs its own copy of a tied table. */
static void count_ends(const hr_model *model, const hr_shard *shard, const hr_parameters *all, int64_t *first,
                       int64_t *last)
{
  int64_t norm = model->norm_weight ? model->hidden * (model->norm_bias ? 2 : 1) : 0;
  int64_t final_norm = (model->final_norm ? norm : 0) + hr_final_connection(model).value,
          embedding_norm = model->embedding_norm ? norm : 0;
  int64_t table = shard->vocabulary * shard->embedding_dim;
  int64_t projection = (all->embedding - table) / 2; /* one of two: before the layers, after them */
  *first = table + projection + all->position + embedding_norm;
  *last =
      (model->head == HR_HEAD_LANGUAGE && model->tied_embeddings ? table : 0) + projection + all->logit + final_norm;
}

/* ---- inference ---- */

/* Bytes of the weights in their stored formats. With several stages, those of ⌈L/p⌉ layers and the larger end of the
 * pipeline. */
static hr_status stored_on_device(const hr_model *model, const hr_model *share, const hr_workload *workload,
                                  const hr_shard *shard, hr_checked64 *bytes, hr_error *error)
{
  hr_parameters all;
  int64_t element = (int64_t)hr_dtype_bytes(workload->dtype), within = 0, first, last;
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX], layers = hr_checked(0), logit = hr_logit_bytes_added(share, workload);
  HR_TRY(hr_count_parameters(share, &all, error));
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *layer = &share->groups[i];
    const hr_checked64 parameters = hr_count_layer(share, layer);
    of_group[i] = hr_plus(hr_times(parameters, element), hr_layer_bytes_added(share, layer, workload));
    layers = hr_plus(layers, hr_times(of_group[i], layer->count));
    within += parameters.value * layer->count; /* part of what was counted, so that it fits */
  }
  if (workload->pipeline_stages == 1) {
    *bytes = hr_plus(hr_plus(layers, logit), hr_times(hr_checked(all.total - within), element));
    return HR_OK;
  }
  count_ends(model, shard, &all, &first, &last);
  hr_checked64 ends =
      hr_larger(hr_times(hr_checked(first), element), hr_plus(hr_times(hr_checked(last), element), logit));
  *bytes = hr_plus(hr_sum_of_stage(model, of_group, workload->pipeline_stages), ends);
  return HR_OK;
}

/* ---- training ---- */

/* Mixed-precision Adam keeps an fp32 copy of the weights, a mean and a variance; fp32 weights need no copy. */
static int64_t optimizer_bytes_per_parameter(hr_dtype dtype)
{
  return hr_dtype_bytes(dtype) < 4 ? 12 : 8;
}

hr_checked64 hr_part_of_replica(hr_checked64 parameters, hr_checked64 routed, const hr_replicas *replicas)
{
  if (parameters.overflow || routed.overflow)
    return parameters;
  return hr_checked(hr_ceil_div(parameters.value - routed.value, replicas->devices) +
                    hr_ceil_div(routed.value, replicas->devices_of_experts));
}

static hr_checked64 smaller(hr_checked64 a, hr_checked64 b)
{
  return !a.overflow && (b.overflow || a.value < b.value) ? a : b;
}

/* Stages 2 and 3 reduce the gradients of a unit before they are split; stage 3 also gathers the weights of the unit in
 * use and of the next one. */
static hr_checked64 gathered(const hr_held_parameters *held, int64_t stage)
{
  hr_checked64 two = smaller(hr_plus(held->largest, held->layer), held->all);
  hr_checked64 sum = stage >= 2 ? smaller(held->largest, held->all) : hr_checked(0);
  return stage >= 3 ? hr_plus(sum, two) : sum;
}

hr_status hr_training_weights(const hr_held_parameters *held, const hr_workload *workload, hr_weight_memory *memory,
                              hr_error *error)
{
  hr_replicas replicas;
  int64_t element = (int64_t)hr_dtype_bytes(workload->dtype);
  HR_TRY(hr_count_replicas(workload, &replicas, error));
  int64_t stage = replicas.devices > 1 ? workload->zero_stage : 0;
  hr_checked64 part = hr_part_of_replica(held->all, held->routed, &replicas);
  memory->weights = hr_times(stage >= 3 ? part : held->all, element);
  memory->gradients = hr_times(stage >= 2 ? part : held->all, element);
  memory->optimizer = hr_times(stage >= 1 ? part : held->all, optimizer_bytes_per_parameter(workload->dtype));
  memory->gathered = hr_times(gathered(held, stage), element);
  return HR_OK;
}

static hr_checked64 count_routed(const hr_model *share, const hr_layer_group *layer)
{
  return layer->experts.experts > 0 ? hr_count_routed(share, layer) : hr_checked(0);
}

/* The units are those of PyTorch's FSDP, one a layer (Zhao et al. 2023, arXiv 2304.11277, section 3.2.1). */
hr_status hr_parameters_on_device(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                                  hr_held_parameters *held, hr_error *error)
{
  hr_model share;
  hr_parameters all;
  int64_t first, last, stages = workload->pipeline_stages;
  hr_checked64 of_group[HR_LAYER_GROUPS_MAX], routed[HR_LAYER_GROUPS_MAX];
  part_on_device(model, workload, shard, &share);
  HR_TRY(hr_count_parameters(&share, &all, error));
  count_ends(model, shard, &all, &first, &last);
  held->layer = hr_checked(0);
  for (size_t i = 0; i < model->group_count; i++) {
    of_group[i] = hr_count_layer(&share, &share.groups[i]);
    routed[i] = count_routed(&share, &share.groups[i]);
    held->layer = hr_larger(held->layer, of_group[i]);
  }
  hr_checked64 end = hr_checked(hr_max64(first, last));
  held->largest = hr_larger(held->layer, end);
  held->routed = hr_sum_of_stage(model, routed, stages);
  held->all = stages == 1 ? hr_checked(all.total) : hr_plus(hr_sum_of_stage(model, of_group, stages), end);
  return HR_OK;
}

hr_status hr_stored_weights(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                            hr_weight_memory *memory, hr_error *error)
{
  hr_model share;
  part_on_device(model, workload, shard, &share);
  memory->gradients = memory->optimizer = memory->gathered = hr_checked(0);
  return stored_on_device(model, &share, workload, shard, &memory->weights, error);
}

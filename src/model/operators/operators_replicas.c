/* SPDX-License-Identifier: Apache-2.0 */
/* Communication between the devices that have the same weights: context-parallel ones and replicas.
 *
 * Without ZeRO and in stage 1 the gradients are summed once a step; stages 2 and 3 keep a part of them only, and so sum
 * those of each microbatch. Stage 3 gathers the weights for each pass of each microbatch, stages 1 and 2 after the
 * optimizer's update. Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 7. */
#include "base/error.h"
#include "model/layers/operator_builder.h"
#include "model/memory/weight_memory.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/workload.h>

/* Parameters that so many devices have alike. */
typedef struct copied {
  hr_checked64 parameters;
  int64_t devices, stride;
} copied;

/* A message for each of the device's layers; the first and last layers' have the ends of the model, too. */
static void append(hr_operator_builder *builder, const copied *weights, hr_operator_id id, hr_collective_kind kind,
                   hr_pass pass)
{
  int64_t layers = hr_ceil_div(hr_model_layers(builder->model), builder->workload->pipeline_stages);
  hr_checked64 message = weights->parameters;
  message.value = hr_ceil_div(message.overflow ? 0 : message.value, layers);
  hr_append_communication(builder, id, kind, weights->devices, message, hr_checked(0));
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  op->count = layers;
  op->pass = pass;
  hr_set_stride(builder, hr_checked(weights->stride));
}

static void append_stage(hr_operator_builder *builder, const copied *weights, int64_t stage)
{
  if (weights->devices < 2 || weights->parameters.value == 0)
    return;
  if (stage == 0) {
    append(builder, weights, HR_OP_GRADIENT_ALL_REDUCE, HR_ALL_REDUCE, HR_PASS_WGRAD);
    return;
  }
  append(builder, weights, HR_OP_WEIGHT_ALL_GATHER, HR_ALL_GATHER, HR_PASS_FORWARD);
  if (stage == 3)
    append(builder, weights, HR_OP_WEIGHT_ALL_GATHER, HR_ALL_GATHER, HR_PASS_DGRAD);
  append(builder, weights, HR_OP_GRADIENT_REDUCE_SCATTER, HR_REDUCE_SCATTER, HR_PASS_WGRAD);
}

static void append_communication(hr_operator_builder *builder, const hr_replicas *replicas, hr_checked64 all,
                                 hr_checked64 routed)
{
  const hr_workload *w = builder->workload;
  copied dense = {hr_plus(all, hr_times(routed, -1)), replicas->devices, w->tensor_parallel};
  const copied experts = {routed, replicas->devices_of_experts, hr_max64(w->tensor_parallel, w->expert_parallel)};
  if (replicas->devices_of_experts == replicas->devices)
    dense.parameters = all;
  else
    append_stage(builder, &experts, w->zero_stage);
  append_stage(builder, &dense, w->zero_stage);
}

/* Adam with decoupled weight decay and clipped gradients, in mixed precision: reads the gradient for its norm and once
 * more, reads and writes the fp32 copy, the mean and the variance, writes the weight. fp32 weights have no copy.
 * Sources: Loshchilov & Hutter 2019 (arXiv 1711.05101); Micikevicius et al. 2018 (arXiv 1710.03740), section 3.1. */
static int64_t bytes_of_update(hr_dtype dtype)
{
  int64_t element = (int64_t)hr_dtype_bytes(dtype);
  return 2 * element + 2 * (4 + 4 + 4) + (element < 4 ? element : 0);
}

/* From ZeRO stage 1 on a device updates its part of the parameters that replicas share. */
static void append_optimizer(hr_operator_builder *builder, const hr_replicas *replicas, hr_checked64 all,
                             hr_checked64 routed)
{
  const hr_workload *w = builder->workload;
  const bool shared = replicas->devices > 1 && w->zero_stage >= 1;
  const hr_checked64 parameters = shared ? hr_part_of_replica(all, routed, replicas) : all;
  hr_operator *op = hr_append_operator(builder, HR_OP_OPTIMIZER, HR_KIND_MEMORY, HR_PASS_FORWARD);
  hr_set_figure(builder, op, parameters, &op->columns);
  hr_set_figure(builder, op, hr_times(parameters, bytes_of_update(w->dtype)), &op->bytes);
}

hr_status hr_append_updates(hr_operator_builder *builder, hr_error *error)
{
  hr_replicas replicas;
  hr_held_parameters held;
  HR_TRY(hr_count_replicas(builder->workload, &replicas, error));
  if (builder->held)
    held = *builder->held;
  else
    HR_TRY(hr_parameters_on_device(builder->model, builder->workload, &builder->shard, &held, error));
  if (replicas.devices > 1)
    append_communication(builder, &replicas, held.all, held.routed);
  append_optimizer(builder, &replicas, held.all, held.routed);
  return HR_OK;
}

bool hr_runs_with_microbatches(hr_operator_id id)
{
  return !hr_operator_between_replicas(id) && id != HR_OP_OPTIMIZER;
}

int64_t hr_replica_runs(hr_operator_id id, const hr_workload *workload)
{
  int64_t from = id == HR_OP_WEIGHT_ALL_GATHER ? 3 : 2; /* the first stage that sends with each microbatch */
  return workload->zero_stage >= from ? hr_workload_microbatches(workload) : 1;
}

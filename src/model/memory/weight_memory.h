/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the weights on the most loaded device, and of what training keeps for each. */
#ifndef HR_MODEL_MEMORY_WEIGHT_MEMORY_H
#define HR_MODEL_MEMORY_WEIGHT_MEMORY_H

#include "base/checked.h"
#include "model/layers/shard.h"

/** Bytes of one replica. In training: weights, gradients and optimizer state as ZeRO shards them, and the buffers that
 *  it gathers into. Otherwise: weights alone, in their stored formats. */
typedef struct hr_weight_memory {
  hr_checked64 weights, gradients, optimizer, gathered;
} hr_weight_memory;

/** `shard` holds the sizes of `workload`. HR_ERROR_OVERFLOW if parameters or devices do not fit into 63 bits. */
hr_status hr_weight_memory_of(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                              hr_weight_memory *memory, hr_error *error);

/** Parameters on the most loaded device, and those of them that belong to routed experts. */
hr_status hr_parameters_on_device(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                                  hr_checked64 *all, hr_checked64 *routed, hr_error *error);

/** The parameters that one replica keeps where all share them equally, of which `routed` have fewer copies. */
hr_checked64 hr_part_of_replica(hr_checked64 parameters, hr_checked64 routed, const hr_replicas *replicas);

/** Sum of a figure over the layers of the pipeline stage with the heaviest ones: groups tell how many layers are equal,
 *  not where they are. */
hr_checked64 hr_sum_of_stage(const hr_model *model, const hr_checked64 *of_group, int64_t stages);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the weights on the most loaded device, and of what training keeps for each. */
#ifndef HR_MODEL_MEMORY_WEIGHT_MEMORY_H
#define HR_MODEL_MEMORY_WEIGHT_MEMORY_H

#include "base/checked.h"
#include "model/layers/shard.h"

/** Parameters on the most loaded device. */
typedef struct hr_held_parameters {
  hr_checked64 all, routed;    /* routed: of experts that e devices share */
  hr_checked64 layer, largest; /* of a unit that is gathered and reduced at once: a layer, or an end of the model */
} hr_held_parameters;

/** HR_ERROR_OVERFLOW if parameters do not fit into 63 bits. `shard` holds the sizes of `workload`. */
hr_status hr_parameters_on_device(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                                  hr_held_parameters *held, hr_error *error);

/** Bytes of one replica. */
typedef struct hr_weight_memory {
  hr_checked64 weights, gradients, optimizer, gathered;
} hr_weight_memory;

/** In training: as ZeRO shards them, and the buffers that it gathers into. HR_ERROR_OVERFLOW if devices do not fit into
 *  63 bits. */
hr_status hr_training_weights(const hr_held_parameters *held, const hr_workload *workload, hr_weight_memory *memory,
                              hr_error *error);

/** In other phases: weights alone, in their stored formats. Errors as hr_parameters_on_device(). */
hr_status hr_stored_weights(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                            hr_weight_memory *memory, hr_error *error);

/** The parameters that one replica keeps where all share them equally, of which `routed` have fewer copies. */
hr_checked64 hr_part_of_replica(hr_checked64 parameters, hr_checked64 routed, const hr_replicas *replicas);

/** Sum of a figure over the layers of the pipeline stage with the heaviest ones: groups tell how many layers are equal,
 *  not where they are. */
hr_checked64 hr_sum_of_stage(const hr_model *model, const hr_checked64 *of_group, int64_t stages);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the activations and of the KV cache on one device. `shard` holds the sizes of `workload`. */
#ifndef HR_MODEL_MEMORY_ACTIVATION_MEMORY_H
#define HR_MODEL_MEMORY_ACTIVATION_MEMORY_H

#include "model/layers/layer_kinds.h"

/** Saved by one layer for its backward pass, per microbatch. context->layer is the device's share. */
hr_checked64 hr_saved_by_layer(const hr_layer_context *context);

/** Held beside while the backward pass of this layer runs: what is computed again for it, and K and V that
 *  context-parallel devices gather. */
hr_checked64 hr_working_bytes(const hr_layer_context *context);

/** Saved before the first layer, and after the last layer. */
hr_checked64 hr_saved_by_embedding(const hr_model *model, const hr_workload *workload, const hr_shard *shard);
hr_checked64 hr_saved_by_head(const hr_model *model, const hr_workload *workload, const hr_shard *shard);

/** The largest total of live activations when nothing is saved for a backward pass. */
hr_checked64 hr_peak_activation_bytes(const hr_model *model, const hr_workload *workload, const hr_shard *shard);

/** What one layer keeps of a sequence of `tokens` for decoding. `layer` is the device's share. */
hr_checked64 hr_layer_cache_elements(const hr_layer_group *layer, int64_t tokens);

/** Bytes that one more token keeps for decoding in all layers of all devices. */
hr_checked64 hr_cache_bytes_per_token(const hr_model *model, const hr_workload *workload);

/** What it keeps of a sequence whatever its length. */
hr_checked64 hr_layer_state_bytes(const hr_layer_group *layer, const hr_workload *workload);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the activations and of the KV cache on one device. `shard` holds the sizes of `workload`. */
#ifndef HR_ANALYSIS_MODEL_ACTIVATION_MEMORY_H
#define HR_ANALYSIS_MODEL_ACTIVATION_MEMORY_H

#include "analysis/model/shard.h"
#include "base/checked.h"

/** Saved by one layer for its backward pass, per microbatch. */
hr_checked64 hr_saved_by_layer(const hr_model *model, const hr_workload *workload, const hr_shard *shard);

/** Saved before the first layer, and after the last layer. */
hr_checked64 hr_saved_by_embedding(const hr_model *model, const hr_workload *workload, const hr_shard *shard);
hr_checked64 hr_saved_by_head(const hr_model *model, const hr_workload *workload, const hr_shard *shard);

/** The largest total of live activations when nothing is saved for a backward pass. */
hr_checked64 hr_peak_activation_bytes(const hr_model *model, const hr_workload *workload, const hr_shard *shard);

/** The KV cache of the whole batch for `stage_layers` layers with `tokens` per sequence (at most `window` in a layer
 *  with one). */
hr_checked64 hr_kv_cache_bytes(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                               int64_t stage_layers, int64_t tokens);

#endif

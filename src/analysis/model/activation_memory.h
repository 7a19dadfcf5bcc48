/* Bytes of activations on one device, and of the KV cache. The split is that of the workload. */
#ifndef HR_ANALYSIS_MODEL_ACTIVATION_MEMORY_H
#define HR_ANALYSIS_MODEL_ACTIVATION_MEMORY_H

#include "analysis/model/shard.h"
#include "base/checked.h"

/** Kept by one layer for its backward pass, for one microbatch. */
hr_checked64 hr_saved_by_layer(const hr_model *model, const hr_workload *workload, const hr_shard *shard);

/** Kept before the first layer, and after the last. */
hr_checked64 hr_saved_by_embedding(const hr_model *model, const hr_workload *workload, const hr_shard *shard);
hr_checked64 hr_saved_by_head(const hr_model *model, const hr_workload *workload, const hr_shard *shard);

/** The most that lives at once when nothing is kept. */
hr_checked64 hr_peak_activation_bytes(const hr_model *model, const hr_workload *workload, const hr_shard *shard);

/** The cache of the whole batch for `stage_layers` layers, `tokens` a sequence (a window keeps at most its own). */
hr_checked64 hr_kv_cache_bytes(const hr_model *model, const hr_workload *workload, const hr_shard *shard,
                               int64_t stage_layers, int64_t tokens);

#endif

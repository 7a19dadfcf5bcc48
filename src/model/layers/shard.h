/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes on one device of a tensor-parallel group that all layers share; what the device has of a layer:
 * model/layers/layer_kinds.h. */
#ifndef HR_MODEL_LAYERS_SHARD_H
#define HR_MODEL_LAYERS_SHARD_H

#include <headroom/model.h>
#include <headroom/workload.h>

/** Sizes on the most loaded device of a tensor-parallel group; divisions by t round up. The hidden size of activations
 *  is never split. Source: Anthony et al. 2024, Table II (the t in its sizes). */
typedef struct hr_shard {
  int64_t rows;              /* rows of the linear layers: b·s/cp, or b in decode */
  int64_t stream_rows;       /* rows of norms, residuals and dropout: as above, over t with sequence parallelism */
  int64_t logit_rows;        /* rows of the logits: as `rows`, but b in prefill */
  int64_t logit_stream_rows; /* rows of the norm before them */
  int64_t q_len;             /* s/cp, or 1 in decode */
  int64_t kv_len;            /* of a layer without window: s, or the context in decode */
  int64_t vocabulary;        /* rows of the token embedding */
  int64_t outputs;           /* columns of the logits, or the classes; 0 without a head */
  int64_t embedding_dim;     /* width of the token embedding, not split */
} hr_shard;

/** Fills *shard. The model and the workload have been checked. HR_ERROR_OVERFLOW if b·s does not fit. */
hr_status hr_shard_sizes(const hr_model *model, const hr_workload *workload, hr_shard *shard, hr_error *error);

/** Parts of a stage's layers: at least 1. */
static inline int64_t hr_virtual_stages(const hr_workload *workload)
{
  return workload->virtual_stages > 1 ? workload->virtual_stages : 1;
}

/** Devices with the same part of the weights. */
typedef struct hr_replicas {
  int64_t devices; /* dp · cp: context-parallel devices differ in their tokens, not in their weights */
  int64_t
      devices_of_experts; /* of routed experts, which e devices share: dp · cp · t / e, at least 1; e = 1: dp · cp */
} hr_replicas;

/** Fills *replicas. The workload has been checked. HR_ERROR_OVERFLOW if dp · cp does not fit into 63 bits. */
hr_status hr_count_replicas(const hr_workload *workload, hr_replicas *replicas, hr_error *error);

/** The smallest divisor of q_heads that is at least `heads` (1 ≤ heads ≤ q_heads). */
int64_t hr_divisor_at_min(int64_t q_heads, int64_t heads);

#endif

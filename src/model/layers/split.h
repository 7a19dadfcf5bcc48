/* SPDX-License-Identifier: Apache-2.0 */
/* Whether devices get whole parts of a model: heads, columns, experts, and groups or blocks of quantized weights.
 * Servers refuse a degree that does not give them, or pad. Thread safety: pure functions. */
#ifndef HR_MODEL_LAYERS_SPLIT_H
#define HR_MODEL_LAYERS_SPLIT_H

#include <headroom/workload.h>

typedef struct hr_split {
  bool whole;
  char words[160]; /* why not, or what is padded to make it so: "experts padded from 360 to 384"; else "" */
} hr_split;

/** Attention's heads with its linear layers, recurrent mixers, feed-forward networks, the embedding, or all. */
typedef enum hr_split_parts {
  HR_SPLIT_HEADS = 1,
  HR_SPLIT_SCANS = 2,
  HR_SPLIT_FFN = 4,
  HR_SPLIT_VOCABULARY = 8,
  HR_SPLIT_ALL = HR_SPLIT_HEADS | HR_SPLIT_SCANS | HR_SPLIT_FFN | HR_SPLIT_VOCABULARY
} hr_split_parts;

/** Whether t divides the query heads, and the K and V heads, which may also be fewer and copied evenly. */
bool hr_layer_heads_split(const hr_layer_group *layer, int64_t tensor_parallel);

/** How these parts split over the tensor-parallel devices and those that share experts. `words` names the first part
 *  that does not. A vocabulary that t does not divide is padded. */
hr_split hr_split_of(const hr_model *model, int64_t tensor_parallel, int64_t expert_parallel, unsigned parts);

/** Returns the split of a step. A training step splits the heads alone: its weights are not quantized, and frameworks
 *  pad widths. */
hr_split hr_split_of_workload(const hr_model *model, const hr_workload *workload);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What servers ask of a device's part of quantized weights, by method. Thread safety: pure functions. */
#ifndef HR_MODEL_LAYERS_SPLIT_RULES_H
#define HR_MODEL_LAYERS_SPLIT_RULES_H

#include <headroom/model.h>

/** What a method does with a device's part of a matrix. In all others the part is whole groups or blocks along both
 *  sides, or the weights are not loaded: row-parallel layers (o_proj, down_proj) split inputs, column-parallel ones
 *  outputs, and of Q, K, V, gate and up each one's. */
typedef struct hr_split_rule {
  const char *method, *format; /* NULL: any */
  bool flat;                   /* blocks run along the flattened matrix and are cut anew */
  bool packs_outputs;          /* neighbouring outputs share an int32 */
  int64_t expert_granule;      /* each device's part of an expert is padded to a multiple; 0: it is not */
} hr_split_rule;

/** The rule for weights of this format. */
hr_split_rule hr_split_rule_of(const hr_model *model, const hr_weight_format *format);

/** The width of a routed expert on a device that has `width` of it: padded where the method does that. */
int64_t hr_padded_expert_width(const hr_model *model, const hr_layer_group *layer, int64_t width);

#endif

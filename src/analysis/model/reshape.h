/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a model's shape together with the sizes that depend on the change. */
#ifndef HR_ANALYSIS_MODEL_RESHAPE_H
#define HR_ANALYSIS_MODEL_RESHAPE_H

#include <headroom/model.h>

/** The model with another hidden size and number of query heads.
 *
 *  These ratios are kept: q_heads · qk_dim to hidden, v_dim to qk_dim, K and V heads to query heads (a single K or V
 *  head stays single), rotary_dim to qk_dim (rounded down to an even number), q_rank to hidden (rounded to a multiple
 *  of 64). Layers and MLP width stay. Returns false and leaves *changed untouched if a head size or head count would
 *  not be an integer. `hidden` and `q_heads` are positive. */
bool hr_reshape_heads(const hr_model *model, int64_t hidden, int64_t q_heads, hr_model *changed);

/** The model with another number of layers. The share of layers with a window is kept, rounded. */
hr_model hr_reshape_layers(const hr_model *model, int64_t layers);

#endif

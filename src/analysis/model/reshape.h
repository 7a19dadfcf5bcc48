/* Changing a model's shape so that everything that hangs on the change follows. */
#ifndef HR_ANALYSIS_MODEL_RESHAPE_H
#define HR_ANALYSIS_MODEL_RESHAPE_H

#include <headroom/model.h>

/** The model with another hidden size and number of query heads, the rest as it is.
 *
 *  Kept: the ratio of all query heads' width (q_heads · qk_dim) to hidden, of v_dim to qk_dim, of K and V heads to
 *  query heads (a single K or V head stays single), of rotary_dim to qk_dim (rounded down to an even number) and of
 *  q_rank to hidden (rounded to a multiple of 64). Layers and MLP width stay. Returns false, and leaves *changed as it
 *  was, where a head size or a head count would not be an integer. `hidden` and `q_heads` are positive. */
bool hr_reshape_heads(const hr_model *model, int64_t hidden, int64_t q_heads, hr_model *changed);

/** The model with another number of layers; those with a window keep their share, rounded. */
hr_model hr_reshape_layers(const hr_model *model, int64_t layers);

#endif

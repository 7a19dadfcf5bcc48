/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of weights by role. Thread safety: pure functions. */
#ifndef HR_MODEL_LAYERS_WEIGHT_SHAPES_H
#define HR_MODEL_LAYERS_WEIGHT_SHAPES_H

#include "model/layers/weight_roles.h"

#include <headroom/model.h>

/** A weight: `count` matrices, of experts, of which there is one elsewhere. A bias or the weight of a norm has one row.
 *  `rows` or `columns` is 0 of a weight that the model does not have. */
typedef struct hr_weight_shape {
  int64_t count, rows, columns;
} hr_weight_shape;

typedef struct hr_weight_shapes {
  hr_weight_shape of[HR_WEIGHT_ROLE_COUNT]; /* by role */
} hr_weight_shapes;

/** The weights of a layer, or with `layer` NULL those outside of layers. The model has been checked. */
void hr_list_weights(const hr_model *model, const hr_layer_group *layer, hr_weight_shapes *shapes);

/** Whether the weight is there. */
static inline bool hr_has_weight(const hr_weight_shapes *shapes, int role)
{
  return shapes->of[role].rows > 0 && shapes->of[role].columns > 0;
}

#endif

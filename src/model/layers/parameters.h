/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter counts of a model whose sizes have been checked. */
#ifndef HR_MODEL_LAYERS_PARAMETERS_H
#define HR_MODEL_LAYERS_PARAMETERS_H

#include "base/checked.h"

#include <headroom/model.h>

/** hr_model_parameters() without checking the sizes; HR_ERROR_OVERFLOW if a count does not fit into 63 bits. */
hr_status hr_count_parameters(const hr_model *model, hr_parameters *parameters, hr_error *error);

/** Parameters of one layer, `layer->count` left out. */
hr_checked64 hr_count_layer(const hr_model *model, const hr_layer_group *layer);

/** Parameters of the layer's routed experts. */
hr_checked64 hr_count_routed(const hr_model *model, const hr_layer_group *layer);

/** Parameters of the weights by which several residual streams are summed before the final norm. */
hr_checked64 hr_final_connection(const hr_model *model);

#endif

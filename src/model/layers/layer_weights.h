/* SPDX-License-Identifier: Apache-2.0 */
/* The linear layers of a layer of all its kinds, and the bytes of their weights. Thread safety: pure functions. */
#ifndef HR_MODEL_LAYERS_LAYER_WEIGHTS_H
#define HR_MODEL_LAYERS_LAYER_WEIGHTS_H

#include "model/layers/linears.h"

/** All linear layers of a layer that may be quantized. */
void hr_list_linears(const hr_model *model, const hr_layer_group *layer, hr_linears *linears);

/** Bytes of a layer and of the logits' weights, less those that they would have in the workload's format: negative
 *  where quantization saves memory. */
hr_checked64 hr_layer_bytes_added(const hr_model *model, const hr_layer_group *layer, const hr_workload *workload);
hr_checked64 hr_logit_bytes_added(const hr_model *model, const hr_workload *workload); /* see hr_layer_bytes_added() */

/** HR_ERROR_INVALID naming the member if a format is out of range or a layer has one that does not exist. */
hr_status hr_check_quantization(const hr_model *model, hr_error *error);

#endif

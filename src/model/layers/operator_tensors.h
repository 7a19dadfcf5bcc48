/* SPDX-License-Identifier: Apache-2.0 */
/* Each operator names the tensors and weights that it works on. Thread safety: pure functions of the builder. */
#ifndef HR_MODEL_LAYERS_OPERATOR_TENSORS_H
#define HR_MODEL_LAYERS_OPERATOR_TENSORS_H

#include "model/layers/operator_builder.h"

/** builder->layer begins or, if it is NULL, what is outside of layers: of what was written, only what goes from layer
 *  to layer may be read. */
void hr_begin_tensors(hr_operator_builder *builder);

/** Sets reads, writes and weights of a forward operator, whose id is set. */
void hr_name_tensors(hr_operator_builder *builder, hr_operator *op);

/** Sets those of the last operator, a norm in place whose id has several weights. */
void hr_name_norm(hr_operator_builder *builder, hr_step_tensor tensor, int role, int bias);

/** Whether two operators have the same reads, writes and weights. */
bool hr_same_tensors(const hr_operator *a, const hr_operator *b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_MODEL_LAYERS_MIXER_SCAN_OPERATORS_H
#define HR_MODEL_LAYERS_MIXER_SCAN_OPERATORS_H

#include "model/layers/operator_builder.h"

/** Appends the operators of the scan of builder->layer. */
void hr_scan_operators(hr_operator_builder *builder);

#endif

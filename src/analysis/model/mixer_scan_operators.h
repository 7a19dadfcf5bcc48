/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_ANALYSIS_MODEL_MIXER_SCAN_OPERATORS_H
#define HR_ANALYSIS_MODEL_MIXER_SCAN_OPERATORS_H

#include "analysis/model/operator_builder.h"

/** Appends the operators of the scan of builder->layer. */
void hr_scan_operators(hr_operator_builder *builder);

#endif

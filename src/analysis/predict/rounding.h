/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_ANALYSIS_PREDICT_ROUNDING_H
#define HR_ANALYSIS_PREDICT_ROUNDING_H

#include <headroom/predict.h>

/** Whether it is a plain GEMM whose activations are rounded by a kernel of its own: in eager mode, by inference
 *  servers, and by this library for more than eight rows. torch.compile rounds in the norm or activation before. */
bool hr_rounds_alone(const hr_hardware *hardware, const hr_operator *op);

/** Whether a kernel before the GEMM rounds its activations: as hr_rounds_alone(), and before grouped GEMMs. Two GEMMs
 *  of one input share it. */
bool hr_has_rounding(const hr_hardware *hardware, const hr_operator *op);

/** Adds to the prediction of a GEMM what rounding its first operand takes (hr_rounding_cost), if the operator has a
 *  kernel for that. A block rounds a row, so that few rows leave multiprocessors idle. */
void hr_add_rounding(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction);

#endif

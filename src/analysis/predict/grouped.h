/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_ANALYSIS_PREDICT_GROUPED_H
#define HR_ANALYSIS_PREDICT_GROUPED_H

#include <headroom/predict.h>

/** Whether an operator of routed experts runs in kernels whose cost the device's file has (hr_expert_cost). */
bool hr_has_expert_cost(const hr_hardware *hardware, const hr_operator *op);

/** A grouped GEMM by these kernels. `gemm` is op->gemm in the format that the matrix units multiply. */
hr_status hr_predict_grouped(const hr_hardware *hardware, const hr_operator *op, const hr_gemm *gemm,
                             hr_prediction *prediction, hr_error *error);

#endif

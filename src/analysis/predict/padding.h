/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs that torch.compile pads. */
#ifndef HR_ANALYSIS_PREDICT_PADDING_H
#define HR_ANALYSIS_PREDICT_PADDING_H

#include <headroom/predict.h>

/** Replaces the prediction of a compiled step's GEMM by that of the padded one and of the copies of its operands, where
 *  torch.compile takes that one; prediction->padding_ns is then positive. `gemm` is what the matrix units multiply. */
hr_status hr_predict_padded(const hr_hardware *hardware, const hr_operator *op, const hr_gemm *gemm,
                            double loaded_bytes, hr_prediction *prediction, hr_error *error);

#endif

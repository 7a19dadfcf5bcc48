/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for aligned GEMMs of 16 bits on Hopper (hr_tiling_problem.tma): wide tiles in clusters, loaded by TMA. */
#ifndef HR_ANALYSIS_PREDICT_GEMM_WIDE_H
#define HR_ANALYSIS_PREDICT_GEMM_WIDE_H

#include "analysis/predict/gemm_tiling.h"

/** The fastest tiling by the kernels that the library has for the layout. */
hr_tiling hr_best_tma_tiling(const hr_tiling_problem *problem);

#endif

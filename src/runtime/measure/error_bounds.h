/* SPDX-License-Identifier: Apache-2.0 */
/* Largest rounding error of a correct kernel. docs/notes/measuring-derivations.md has the formulas and their
 * derivation. */
#ifndef HR_RUNTIME_MEASURE_ERROR_BOUNDS_H
#define HR_RUNTIME_MEASURE_ERROR_BOUNDS_H

#include "runtime/device/plan.h"
#include "runtime/reference/reference.h"

/** Returns the bound for one element of a GEMM. `reference` is the exact value, `norm` is from hr_reference_gemm_row(),
 *  `summation` from the plan. */
double hr_gemm_error_bound(hr_dtype dtype, int64_t k, const hr_summation *summation, double reference, double norm);

/** Returns the bound for one element of O in attention and decode, whose format is `output`; `query` is from
 *  hr_reference_attention_row() or hr_reference_decode_row(). */
double hr_attention_error_bound(hr_dtype dtype, hr_dtype output, int64_t qk_dim, const hr_reference_query *query,
                                int64_t column);

/** Returns the bound for a score of that query. */
double hr_attention_score_error_bound(hr_dtype dtype, int64_t qk_dim, const hr_reference_query *query);

/** Returns the bound for the log-sum-exp, where that is finite. */
double hr_attention_lse_error_bound(hr_dtype dtype, int64_t qk_dim, const hr_reference_query *query);

/** Returns the bound for one element of dQ, dK, dV or d_sinks; `query` is from hr_reference_backward_dq() and its
 *  siblings. */
double hr_gradient_error_bound(const hr_attention *forward, const hr_reference_query *query, int64_t column);

/** Returns the bound for one element of an output of a row-wise operation; `norm` is from hr_reference_rowwise(). */
double hr_rowwise_error_bound(const hr_rowwise *rows, int output, double reference, double norm);

#endif

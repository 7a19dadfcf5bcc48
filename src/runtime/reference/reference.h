/* SPDX-License-Identifier: Apache-2.0 */
/* The reference that kernels are checked against: GEMM, attention, its gradients and row-wise
 * operations in float64, row by row.
 *
 * It is simple rather than fast. No term is skipped: infinities and NaN propagate as IEEE 754 defines. */
#ifndef HR_RUNTIME_REFERENCE_H
#define HR_RUNTIME_REFERENCE_H

#include "shape/attention_backward.h"

#include <headroom/decode.h>
#include <stddef.h>

/** Chooses the k largest of `count` scores, 1 ≤ k ≤ count: NaN before +inf, the earlier of equal ones. places[0] …
 *  places[k − 1] are their indices, ascending; there is room for `count`. Returns the k-th largest. */
double hr_reference_choose(const double *scores, int64_t count, int64_t k, double *places);

/** Size of a row's scratch memory, in doubles. */
size_t hr_reference_gemm_scratch(const hr_gemm *gemm);
size_t hr_reference_attention_scratch(const hr_attention *attention);
size_t hr_reference_rowwise_scratch(const hr_rowwise *rows);
size_t hr_reference_decode_scratch(const hr_decode *decode);
size_t hr_reference_backward_scratch(const hr_attention *forward);

/** Row `row` of batch `batch` of a GEMM: out[n] and, unless `norm` is NULL, norm[j] = sqrt(Σ_p (A[row,p] · B[p,j])²),
 *  to which rounding errors are proportional. `a` and `b` point to batch 0. */
void hr_reference_gemm_row(const hr_gemm *gemm, const void *a, const void *b, int64_t batch, int64_t row,
                           double *scratch, double *out, double *norm);

/** Adds elements first … first + n − 1 of a bias to a row of n, and to the size of its terms; norm may be NULL. */
void hr_reference_gemm_bias(const hr_gemm *gemm, const void *bias, int64_t first, double *out, double *norm);

/** The reference for one query of one head. */
typedef struct hr_reference_query {
  double *out;       /* [v_dim] */
  double *norm;      /* [v_dim], Σ p · |V[., j]|, to which rounding errors are proportional; NULL: not wanted */
  double lse;        /* log-sum-exp; NaN if a visible score is NaN, +inf if one is +inf */
  double largest;    /* largest |score| of visible keys, −inf excluded; 0 if none */
  double score_norm; /* largest |scale| · sqrt(Σ_d (q[d] · k[d])²), to which errors of scores are proportional */
  int output;        /* of a row-wise operation: which */
} hr_reference_query;

/** Query `query` of head `head` of sequence `batch`. Sets the members of *row; norm only if it is not NULL. Masked keys
 *  are not read, so that NaN there has no effect. A query that sees no key gives zeros and −inf. A query whose visible
 *  scores include NaN or +inf, or are all −inf, gives NaN, as the formula does. */
void hr_reference_attention_row(const hr_attention *t, const hr_attention_arguments *arguments, int64_t batch,
                                int64_t query, int64_t head, double *scratch, hr_reference_query *row);

/** Query `query` of head `head` of sequence `sequence` of a decode call; otherwise as hr_reference_attention_row().
 *  With top_k the log-sum-exp and the norm are those of the chosen keys, `largest` and `score_norm` of all visible
 *  ones. */
void hr_reference_decode_row(const hr_decode *d, const hr_decode_arguments *arguments, int64_t sequence, int64_t query,
                             int64_t head, double *scratch, hr_reference_query *row);

/** Writes swapped[v_dim]: how much each element of O may change because scores are off by up to `score_error` and top_k
 *  therefore chooses other keys. All are 0 without top_k, or if no choice is that close. `lse` is the row's. */
void hr_reference_decode_swaps(const hr_decode *d, const hr_decode_arguments *arguments, int64_t sequence,
                               int64_t query, int64_t head, double score_error, double lse, double *scratch,
                               double *swapped);

/** A row of a gradient of attention: of which sequence, query or key, and head. */
typedef struct hr_gradient_row {
  int64_t batch, token, head;
} hr_gradient_row;

/** Writes a row of dQ, of dK, of dV, out[qk_dim] or out[v_dim], or out[0], a head's d_sinks, for which `head` alone is
 *  read. If norm is not NULL, its elements are the sums of P · (norms of dO · V and dO · O) · |K| and so on, to which
 *  rounding errors are proportional; `largest` is of scores and log-sum-exps. Keys that a query does not see are not
 *  read for it. */
void hr_reference_backward_dq(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                              double *scratch, hr_reference_query *row);
void hr_reference_backward_dk(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                              double *scratch, hr_reference_query *row);
void hr_reference_backward_dv(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                              double *scratch, hr_reference_query *row);
void hr_reference_backward_d_sinks(const hr_backward *b, const hr_attention_backward_arguments *x, hr_gradient_row at,
                                   double *scratch, hr_reference_query *row);

/** Row `row` of an output of a row-wise operation. */
typedef struct hr_rowwise_output_row {
  int output;
  int64_t row;
  double clip;  /* hr_reference_clip(), if the caller has it for all rows; 0: it is computed */
  int64_t step; /* of AdamW; 0: that of the problem */
} hr_rowwise_output_row;

/** What AdamW scales the gradient by. A NaN stays one. */
double hr_reference_clip(const hr_rowwise *r, const void *const *inputs, double *scratch);

/** The same from the sum of the gradient's squares. */
double hr_reference_clip_by(const hr_rowwise *r, double squares);

/** Elements of a row of an output, its rows, the first element of one, and its format: weights' gradients have one row,
 *  losses rows of one. */
int64_t hr_rowwise_output_length(const hr_rowwise *r, int output);
int64_t hr_rowwise_output_rows(const hr_rowwise *r, int output);
int64_t hr_rowwise_output_at(const hr_rowwise *r, int output, int64_t row);
hr_dtype hr_rowwise_output_dtype(const hr_rowwise *r, int output);

/** Writes that row to out[hr_rowwise_output_length()], and to `norm` as many numbers, to which rounding errors are
 *  proportional. A softmax whose visible columns include NaN or +inf, or are all −inf, gives NaN, as the formula
 *  does. */
void hr_reference_rowwise(const hr_rowwise *r, const void *const *inputs, hr_rowwise_output_row at, double *scratch,
                          double *out, double *norm);

/** The same of an operation that trains. */
void hr_reference_rowwise_gradient(const hr_rowwise *r, const void *const *inputs, hr_rowwise_output_row at,
                                   double *scratch, double *out, double *norm);

#endif

/* The truth that kernels are held against: products, attention and operations on rows in float64, one row at a time.
 *
 * Slow and plain on purpose. Nothing is skipped: infinities and NaN go through the sums as IEEE 754 has them. */
#ifndef HR_RUNTIME_REFERENCE_H
#define HR_RUNTIME_REFERENCE_H

#include <headroom/plan.h>
#include <stddef.h>

/** Doubles of scratch that a row needs. */
size_t hr_reference_gemm_scratch(const hr_gemm *gemm);
size_t hr_reference_attention_scratch(const hr_attention *attention);
size_t hr_reference_rowwise_scratch(const hr_rowwise *rows);

/** Row `row` of product `batch`: out[n], and where `norm` is not NULL norm[j] = sqrt(Σ_p (A[row,p] · B[p,j])²), which
 *  rounding errors are in proportion to. `a`, `b` are all batches, as the product's strides say. */
void hr_reference_gemm_row(const hr_gemm *gemm, const void *a, const void *b, int64_t batch, int64_t row,
                           double *scratch, double *out, double *norm);

/** What the reference says of one query. */
typedef struct hr_reference_query {
  double *out;       /* [v_dim] */
  double *norm;      /* [v_dim], Σ p · |V[., j]|, which rounding errors are in proportion to; NULL: not wanted */
  double lse;        /* log-sum-exp; NaN where a visible score is NaN, +inf where one is +inf */
  double largest;    /* largest |score| that is visible, −inf left out; 0 without any */
  double score_norm; /* largest |scale| · sqrt(Σ_d (q[d] · k[d])²), which errors of scores are in proportion to */
} hr_reference_query;

/** Query `query` of head `head` of sequence `batch`; fills row->out and what else is wanted. Masked keys are not looked
 *  at, so that a NaN there does no harm; a query that sees no key gives zeros and −inf. A query whose visible scores
 *  hold a NaN, a +inf, or nothing but −inf gives NaN, as the formula does. */
void hr_reference_attention_row(const hr_attention *t, const hr_attention_arguments *arguments, int64_t batch,
                                int64_t query, int64_t head, double *scratch, hr_reference_query *row);

/** Row `row` of an operation on rows: out[columns] and norm[columns], the sizes that rounding errors are in proportion
 *  to. A softmax whose seen columns hold a NaN, a +inf, or nothing but −inf gives NaN, as the formula does. */
void hr_reference_rowwise_row(const hr_rowwise *r, const void *const *inputs, int64_t row, double *scratch, double *out,
                              double *norm);

#endif

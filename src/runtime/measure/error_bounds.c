/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/error_bounds.h"

#include "base/checked.h"
#include "shape/number.h"

#include <math.h>

#define DEVIATIONS 8   /* a random error never exceeds this many standard deviations */
#define CUT_DRIFT 0.42 /* 0.72 / √3, see below */
#define FP8_SUM_ROUNDING 0x1p-14

/* Error of a sum of k random products. Its standard deviation is given in units of norm·u; partial sum i is about
 * norm·√(i/k).
 *
 * Rounding to nearest changes a partial sum by up to u of itself in either direction. In any order these errors add up
 * like a random walk, to about √(k/2). The 4 covers the start, where the walk is short.
 *
 * Truncation loses half of the last place on average, 0.72·u of the partial sum: the mean of 1/mantissa over [1, 2).
 * The losses have the sign of the sum, so that they add up to 0.72·u·Σ partial sums. Over T truncations that sum has a
 * standard deviation of norm·T/√3, as the integral of a random walk has. With split-K in p parts, each part has T/p
 * truncations on sums of norm/√p; p such errors together have the deviation of one sum with T/p truncations. */
static double accumulation_error(double rounding, int64_t terms, const hr_summation *s, double norm)
{
  int64_t chain = hr_ceil_div(terms, hr_max64(1, hr_min64(s->parts, terms)));
  double cuts = s->cut_every > 0 ? (double)hr_ceil_div(chain, s->cut_every) : 0;
  return DEVIATIONS * rounding * (sqrt((double)terms) + 4 + CUT_DRIFT * cuts) * norm;
}

/* Tensor Cores accumulate products of fp8 with about 14 bits (DeepSeek-V3, arXiv 2412.19437, 3.3.2, on Hopper). Each
 * sum of `narrow` products has that error relative to its own norm; together they have it relative to the total
 * norm. */
static double narrow_error(int64_t terms, const hr_summation *s, double norm)
{
  int64_t narrow = s->narrow > 0 ? hr_min64(s->narrow, terms) : terms;
  return DEVIATIONS * FP8_SUM_ROUNDING * (sqrt((double)narrow) + 4) * norm;
}

/* Split-K: p partial sums of about norm/√p are each rounded with a relative error of u, together at most u·norm·√p for
 * random parts. */
static double parts_error(hr_dtype dtype, int64_t parts, double norm)
{
  return DEVIATIONS * hr_dtype_rounding(dtype) * sqrt((double)parts) * norm;
}

double hr_gemm_error_bound(hr_dtype dtype, int64_t k, const hr_summation *summation, double reference, double norm)
{
  double sum_rounding = hr_dtype_rounding(dtype == HR_FP64 ? HR_FP64 : HR_FP32);
  double bound = accumulation_error(sum_rounding, k, summation, norm);
  bound += parts_error(dtype, hr_min64(summation->rounded_parts, k), norm);
  if (dtype == HR_FP8_E4M3)
    bound += narrow_error(k, summation, norm);
  if (dtype == HR_TF32)
    bound += DEVIATIONS * 0x1p-11 * norm; /* both factors are rounded or truncated to 10 bits */
  return bound + hr_dtype_rounding_error(dtype, fabs(reference) + bound);
}

static double attention_sum_rounding(hr_dtype dtype)
{
  return dtype == HR_FP8_E4M3 ? FP8_SUM_ROUNDING : hr_dtype_rounding(dtype == HR_FP64 ? HR_FP64 : HR_FP32);
}

/* Error of a score: of its dot product, and of scale, soft cap and ALiBi slope. It is the relative error of the score's
 * exponential, and that of the softmax denominator. */
double hr_attention_score_error_bound(hr_dtype dtype, int64_t qk_dim, const hr_reference_query *query)
{
  const hr_summation rounded = {0};
  double rounding = attention_sum_rounding(dtype);
  double error = accumulation_error(rounding, qk_dim, &rounded, query->score_norm) + 4 * rounding * query->largest;
  if (dtype == HR_TF32)
    error += DEVIATIONS * 0x1p-11 * query->score_norm; /* as in a GEMM */
  return error;
}

/* Softmax weights may be rounded to the dtype before P·V, and the output once more. Exponentials in fp32 are assumed to
 * be accurate to 64 roundings. */
double hr_attention_error_bound(hr_dtype dtype, hr_dtype output, int64_t qk_dim, const hr_reference_query *query,
                                int64_t column)
{
  double relative = 2 * hr_dtype_rounding(dtype) + 64 * attention_sum_rounding(dtype) +
                    2 * hr_attention_score_error_bound(dtype, qk_dim, query);
  if (dtype == HR_TF32)
    relative += 2 * 0x1p-10; /* weights and V are truncated to 10 bits */
  return relative * query->norm[column] + hr_dtype_rounding_error(output, query->out[column]);
}

double hr_attention_lse_error_bound(hr_dtype dtype, int64_t qk_dim, const hr_reference_query *query)
{
  double rounding = dtype == HR_FP8_E4M3 ? FP8_SUM_ROUNDING : hr_dtype_rounding(HR_FP32); /* it is fp32 */
  return 64 * rounding * (1 + fabs(query->lse)) + hr_attention_score_error_bound(dtype, qk_dim, query);
}

/* Weights and score gradients may be rounded to the dtype before they are multiplied, and the result once more. The
 * exponential's errors are those of a score and a log-sum-exp; sums over keys or queries are in fp32, in any order. */
double hr_gradient_error_bound(const hr_attention *forward, const hr_reference_query *query, int64_t column)
{
  const hr_dtype dtype = forward->dtype;
  const double sums = sqrt((double)hr_max64(forward->q_len, forward->kv_len)) + sqrt((double)forward->v_dim);
  double relative = 2 * hr_dtype_rounding(dtype) + (64 + DEVIATIONS * sums) * attention_sum_rounding(dtype) +
                    2 * hr_attention_score_error_bound(dtype, forward->qk_dim, query);
  if (dtype == HR_TF32)
    relative += DEVIATIONS * 0x1p-10; /* all factors are cut to 10 bits */
  const double bound = relative * query->norm[column];
  return bound + hr_dtype_rounding_error(dtype, fabs(query->out[column]) + bound);
}

/* Functions in fp32 are assumed to be accurate to 64 roundings; sums over a row, or over all rows, are as in a GEMM. */
double hr_rowwise_error_bound(const hr_rowwise *rows, int output, double reference, double norm)
{
  const hr_dtype dtype = hr_rowwise_output_dtype(rows, output);
  const bool summed = hr_rowwise_output_rows(rows, output) < rows->rows;
  const double terms = (double)(summed ? hr_max64(rows->rows, rows->columns) : rows->columns);
  double rounding = dtype == HR_FP64 ? hr_dtype_rounding(HR_FP64) : hr_dtype_rounding(HR_FP32);
  double bound = (64 + 2 * sqrt(terms)) * rounding * norm;
  return bound + hr_dtype_rounding_error(dtype, fabs(reference) + bound);
}

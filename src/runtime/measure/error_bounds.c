/* What right kernels may be off by. docs/measuring.md has the formulas and their reasons. */
#include "runtime/measure/error_bounds.h"

#include "base/checked.h"
#include "runtime/device/number.h"

#include <math.h>

#define DEVIATIONS 8   /* of a random error that do not happen */
#define CUT_DRIFT 0.42 /* 0.72 / √3, see below */
#define FP8_SUM_ROUNDING 0x1p-14

/* Errors of a sum of k random products, as their deviation over norm and u. Partial sums are about norm·√(i/k).
 *
 * Rounded to nearest, each is off by up to u of itself either way, which in whatever order adds up like a random walk:
 * about √(k/2). The 4 covers the start, where the walk is short.
 *
 * Cut towards zero, each loses half of its last place on average, 0.72·u of itself: the mean of 1/mantissa over [1, 2).
 * The losses have the sign of the sum, so that they add up to 0.72·u·Σ partial sums, and that sum over T cuts has a
 * deviation of norm·T/√3, as the integral of a random walk has. Where k is split into p parts, each has a p-th of the
 * cuts on sums of norm/√p, and p such errors together have again the deviation of one with T/p cuts. */
static double accumulation_error(double rounding, int64_t terms, const hr_summation *s, double norm)
{
  int64_t chain = hr_ceil_div(terms, hr_max64(1, hr_min64(s->parts, terms)));
  double cuts = s->cut_every > 0 ? (double)hr_ceil_div(chain, s->cut_every) : 0;
  return DEVIATIONS * rounding * (sqrt((double)terms) + 4 + CUT_DRIFT * cuts) * norm;
}

/* Matrix units add products of fp8 with some 14 bits (DeepSeek-V3, arXiv 2412.19437, 3.3.2, of Hopper). The sums of
 * `narrow` products that are added up so are off by that much of their own norm each, and together by that much of the
 * norm of all. */
static double narrow_error(int64_t terms, const hr_summation *s, double norm)
{
  int64_t narrow = s->narrow > 0 ? hr_min64(s->narrow, terms) : terms;
  return DEVIATIONS * FP8_SUM_ROUNDING * (sqrt((double)narrow) + 4) * norm;
}

/* p parts of a sum are each about norm/√p, and each is rounded by u: together by u·norm·√p at most while the parts stay
 * what random ones are. */
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
    bound += DEVIATIONS * 0x1p-11 * norm; /* both factors of each product were rounded or cut to 10 bits */
  return bound + hr_dtype_rounding_error(dtype, fabs(reference) + bound);
}

static double attention_sum_rounding(hr_dtype dtype)
{
  return dtype == HR_FP8_E4M3 ? FP8_SUM_ROUNDING : hr_dtype_rounding(dtype == HR_FP64 ? HR_FP64 : HR_FP32);
}

/* What a score may be off by: its sum of products, and the roundings of what is done with it (scale, cap, slope). An
 * exponential is off relatively by what its exponent is off by, and so is the sum of all that it is divided by. */
static double score_error(const hr_attention *a, const hr_reference_query *query)
{
  const hr_summation rounded = {0};
  double rounding = attention_sum_rounding(a->dtype);
  double error = accumulation_error(rounding, a->qk_dim, &rounded, query->score_norm) + 4 * rounding * query->largest;
  if (a->dtype == HR_TF32)
    error += DEVIATIONS * 0x1p-11 * query->score_norm; /* as in a product */
  return error;
}

/* Weights may be rounded to the format before they multiply V, and once more as results. Exponentials in fp32 are
 * taken to be good to 64 roundings. */
double hr_attention_error_bound(const hr_attention *a, const hr_reference_query *query, int64_t column)
{
  double relative = 2 * hr_dtype_rounding(a->dtype) + 64 * attention_sum_rounding(a->dtype) + 2 * score_error(a, query);
  if (a->dtype == HR_TF32)
    relative += 2 * 0x1p-10; /* weights and values are cut to 10 bits */
  return relative * query->norm[column] + hr_dtype_rounding_error(a->dtype, query->out[column]);
}

double hr_attention_lse_error_bound(const hr_attention *a, const hr_reference_query *query)
{
  double rounding = a->dtype == HR_FP8_E4M3 ? FP8_SUM_ROUNDING : hr_dtype_rounding(HR_FP32); /* it is fp32 */
  return 64 * rounding * (1 + fabs(query->lse)) + score_error(a, query);
}

/* Functions in fp32 are taken to be good to 64 roundings, sums over a row as in a product. */
double hr_rowwise_error_bound(hr_dtype dtype, int64_t columns, double reference, double norm)
{
  double rounding = dtype == HR_FP64 ? hr_dtype_rounding(HR_FP64) : hr_dtype_rounding(HR_FP32);
  double bound = (64 + 2 * sqrt((double)columns)) * rounding * norm;
  return bound + hr_dtype_rounding_error(dtype, fabs(reference) + bound);
}

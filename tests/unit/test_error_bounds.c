/* SPDX-License-Identifier: Apache-2.0 */
/* The error bound of the check against simulated Tensor Core sums: accumulated in fp32 and truncated after every
 * step. */
#include "test.h"

#include "runtime/measure/error_bounds.h"
#include "shape/number.h"

#include <math.h>
#include <stdlib.h>

#define STEP 16             /* terms per step */
#define TILE 64             /* terms that a kernel loads together, and may lose together */
#ifdef __SANITIZE_ADDRESS__ /* where a term takes several times as long */
#define ELEMENTS 16
#else
#define ELEMENTS 64
#endif

/* Over the sums of one length: how many exceed the bound, and the largest share of the bound. */
typedef struct outcome {
  int beyond;
  double share;
} outcome;

typedef struct sums {
  int64_t k, parts, step;  /* step 0: every term is added separately and rounded */
  int64_t lost_from, lost; /* terms that are left out */
  hr_summation said;       /* passed to the bound */
} sums;

static float cut(double sum)
{
  float nearest = (float)sum;
  return fabs((double)nearest) > fabs(sum) ? nextafterf(nearest, 0) : nearest;
}

static bool is_lost(const sums *s, int64_t p)
{
  return p >= s->lost_from && p < s->lost_from + s->lost;
}

/* Adds terms first to last of one element. */
static float add_up(const sums *s, const float *a, const float *b, int64_t first, int64_t last)
{
  float sum = 0;
  for (int64_t p = first; p < last;) {
    double of_step = 0;
    int64_t end = p + (s->step > 0 ? s->step : 1);
    for (; p < end && p < last; p++)
      of_step += is_lost(s, p) ? 0 : (double)a[p] * (double)b[p];
    sum = s->step > 0 ? cut((double)sum + of_step) : (float)((double)sum + of_step);
  }
  return sum;
}

static float element(const sums *s, const float *a, const float *b)
{
  float sum = 0;
  for (int64_t part = 0; part < s->parts; part++)
    sum += add_up(s, a, b, part * s->k / s->parts, (part + 1) * s->k / s->parts);
  return sum;
}

static void exactly(const sums *s, const float *a, const float *b, double *exact, double *norm)
{
  double sum = 0, squares = 0;
  for (int64_t p = 0; p < s->k; p++) {
    double product = (double)a[p] * (double)b[p];
    sum += product;
    squares += product * product;
  }
  *exact = sum;
  *norm = sqrt(squares);
}

static outcome try_sums(const sums *s)
{
  outcome result = {0, 0};
  float *a = malloc((size_t)s->k * sizeof *a), *b = malloc((size_t)s->k * sizeof *b);
  assert_non_null(a);
  assert_non_null(b);
  hr_numbers_uniform(HR_FP32, 1, 0, (size_t)s->k, a);
  for (int i = 0; i < ELEMENTS; i++) {
    double exact, norm;
    hr_numbers_uniform(HR_FP32, 2, (size_t)i * (size_t)s->k, (size_t)s->k, b);
    exactly(s, a, b, &exact, &norm);
    double share = fabs((double)element(s, a, b) - exact) / hr_gemm_error_bound(HR_FP32, s->k, &s->said, exact, norm);
    result.beyond += share > 1;
    result.share = fmax(result.share, share);
  }
  free(a);
  free(b);
  return result;
}

static sums cut_sums(int64_t k)
{
  return (sums){.k = k, .parts = 1, .step = STEP, .said = {.parts = 1, .cut_every = STEP}};
}

static void truncated_sums_pass_at_every_length(void **state)
{
  (void)state;
  for (int64_t k = 1 << 8; k <= 1 << 20; k *= 4) {
    sums s = cut_sums(k);
    outcome found = try_sums(&s);
    assert_int_equal(found.beyond, 0);
    assert_true(found.share < 0.6);
  }
}

/* 2^20 terms with 65536 truncations: the drift's deviation is 0.42 · 65536 = 27500 of u·norm, whereas a random walk of
 * so many roundings stays below 8 · (1024 + 4) = 8200. */
static void truncated_sums_exceed_the_bound_for_rounded_ones(void **state)
{
  (void)state;
  sums s = cut_sums(1 << 20);
  s.said.cut_every = 0;
  assert_true(try_sums(&s).beyond > ELEMENTS / 4);
  s.step = 0; /* rounded sums stay within the bound */
  outcome found = try_sums(&s);
  assert_int_equal(found.beyond, 0);
  assert_true(found.share < 0.3);
}

/* With 16 split-K parts the chains are 16 times shorter, and so is the drift. */
static void split_k_sums_pass_their_narrower_bound(void **state)
{
  (void)state;
  sums s = {.k = 1 << 20, .parts = 16, .step = STEP, .said = {.parts = 16, .cut_every = STEP}};
  hr_summation whole = {.parts = 1, .cut_every = STEP};
  assert_true(hr_gemm_error_bound(HR_FP32, s.k, &s.said, 0, 1) < hr_gemm_error_bound(HR_FP32, s.k, &whole, 0, 1) / 10);
  outcome found = try_sums(&s);
  assert_int_equal(found.beyond, 0);
  s.parts = 1; /* a kernel without split-K exceeds it */
  assert_true(try_sums(&s).beyond > 0);
}

/* 8 · 2⁻²⁴ · (√k + 4 + 0.42 k/16) · √k/3, where √k/3 is the norm of k products of uniform values: 0.080 for k = 65536,
 * where a term is 1/4 on average. */
static void one_lost_term_is_detected_up_to_k_of_65536(void **state)
{
  (void)state;
  for (int64_t k = 1 << 8; k <= 1 << 16; k *= 4) {
    const int64_t lost[] = {0, k / 2, k - 1};
    for (int i = 0; i < 3; i++) {
      sums s = cut_sums(k);
      s.lost_from = lost[i], s.lost = 1;
      assert_true(try_sums(&s).beyond > ELEMENTS / 4);
    }
  }
}

/* 64 terms have a variance of 64 / 9, a deviation of 2.7; the bound for k = 2^20 is 4.6, which about one element in
 * twelve exceeds. */
static void a_lost_tile_is_detected_up_to_k_of_a_million(void **state)
{
  (void)state;
  for (int64_t k = 1 << 10; k <= 1 << 20; k *= 4) {
    sums s = cut_sums(k);
    s.lost_from = k - TILE, s.lost = TILE;
    assert_true(try_sums(&s).beyond > (k < 1 << 18 ? ELEMENTS / 2 : 0));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(truncated_sums_pass_at_every_length),
      cmocka_unit_test(truncated_sums_exceed_the_bound_for_rounded_ones),
      cmocka_unit_test(split_k_sums_pass_their_narrower_bound),
      cmocka_unit_test(one_lost_term_is_detected_up_to_k_of_65536),
      cmocka_unit_test(a_lost_tile_is_detected_up_to_k_of_a_million),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

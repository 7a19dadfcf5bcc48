/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted GEMMs over the space of their sizes: no cliffs and no gains from more work without a measured reason. */
#include "test.h"
#include "unit/devices.h"

#include <headroom/predict.h>
#include <inttypes.h>

/* Aligned sizes: doubling one of them takes at least as long, but for the choice of a split, and at most twice as long,
 * but for waves of tiles. */
#define LEAST_RATIO 0.89
#define MOST_RATIO 3.0
#define MEASURED_K 65536    /* the longest k in data/results/published */
#define MOST_RATIO_LONG 2.3 /* as k doubles beyond it: the tiles stay the same */
#define SIZE_MAX_OF_MATRIX ((int64_t)1 << 40)

typedef int64_t sizes[3];

static double predicted_ns(const hr_hardware *hardware, hr_dtype dtype, const sizes s)
{
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  gemm.m = s[0], gemm.n = s[1], gemm.k = s[2], gemm.dtype = dtype, gemm.transpose_b = true;
  assert_ok(hr_predict_gemm(hardware, &gemm, &p, &error), error);
  assert_true(p.low_ns <= p.time_ns && p.time_ns <= p.high_ns);
  return p.time_ns;
}

static bool fits(const sizes s)
{
  return s[0] * s[1] <= SIZE_MAX_OF_MATRIX && s[0] * s[2] <= SIZE_MAX_OF_MATRIX && s[1] * s[2] <= SIZE_MAX_OF_MATRIX;
}

/* Some devices leave k of small GEMMs whole (split_gemm_size), as measured: larger ones are faster there. */
static bool is_small(const hr_hardware *hardware, const sizes s)
{
  return s[2] <= MEASURED_K && (double)s[0] * (double)s[1] * (double)s[2] <= (double)hardware->split_gemm_size;
}

static void expect_smooth(const char *name, const hr_hardware *hardware, hr_dtype dtype, const sizes s, int axis)
{
  sizes twice = {s[0], s[1], s[2]};
  twice[axis] *= 2;
  if (!fits(twice) || is_small(hardware, s))
    return;
  double most = axis == 2 && s[2] >= MEASURED_K ? MOST_RATIO_LONG : MOST_RATIO;
  double ratio = predicted_ns(hardware, dtype, twice) / predicted_ns(hardware, dtype, s);
  if (!(ratio >= LEAST_RATIO && ratio <= most))
    fail_msg("%s, %s: %" PRId64 " × %" PRId64 " × %" PRId64 ", %c doubled: %.2f times as long", name,
             hr_dtype_name(dtype), s[0], s[1], s[2], "mnk"[axis], ratio);
}

/* m from `first`; n and k are multiples of 64. */
static void sweep(const char *name, hr_dtype dtype, int64_t first)
{
  const hr_hardware hardware = device(name);
  for (int64_t m = first; m <= (int64_t)1 << 26; m *= 4) {
    for (int64_t n = 64; n <= (int64_t)1 << 26; n *= 4) {
      for (int64_t k = 64; k <= (int64_t)1 << 26; k *= 4) {
        for (int axis = 0; axis < 3 && fits((sizes){m, n, k}); axis++)
          expect_smooth(name, &hardware, dtype, (sizes){m, n, k}, axis);
      }
    }
  }
}

static void doubling_a_size_of_an_aligned_gemm_is_neither_free_nor_a_cliff(void **state)
{
  (void)state;
  static const char *const names[] = {"h200",   "h100-sxm", "h100-pcie", "a100-sxm4-80gb", "l40s", "b200",
                                      "mi300x", "b300",     "gb200",     "rtx-pro-6000",   "b60"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    sweep(names[i], HR_BF16, 2); /* one row is another kernel */
    sweep(names[i], HR_BF16, 64);
  }
}

static void the_same_holds_for_fp32(void **state)
{
  (void)state;
  static const char *const names[] = {"h200", "a100-sxm4-80gb", "v100-sxm2-32gb", "mi210"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    sweep(names[i], HR_FP32, 2);
}

/* The alignment of few rows and columns stays the same as k doubles. */
static void a_longer_k_is_neither_free_nor_a_cliff_for_few_rows_and_columns(void **state)
{
  (void)state;
  static const char *const names[] = {"h200",   "h100-sxm", "a100-sxm4-80gb", "l40s",         "b200",
                                      "mi300x", "b300",     "gb200",          "rtx-pro-6000", "b60"};
  static const int64_t few[] = {1, 2, 3, 4, 7, 8, 16, 33, 100};
  enum { FEW = sizeof few / sizeof *few };
  for (size_t i = 0; i < FEW * FEW * (sizeof names / sizeof *names); i++) {
    const char *name = names[i / (FEW * FEW)];
    const hr_hardware hardware = device(name);
    for (int64_t k = 64; k <= (int64_t)1 << 27; k *= 2)
      expect_smooth(name, &hardware, HR_BF16, (sizes){few[i / FEW % FEW], few[i % FEW], k}, 2);
  }
}

/* Seen by others on an A100: 780 ms; n = 2, of another alignment, 5.7 ms. */
static void an_a100_leaves_k_of_gemms_of_odd_rows_whole(void **state)
{
  (void)state;
  const hr_hardware hardware = device("a100-sxm4-80gb");
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  gemm.m = 16, gemm.n = 3, gemm.k = 30000000, gemm.dtype = HR_BF16;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.splits == 1 && p.time_ns > 780e6 / 1.5 && p.time_ns < 780e6 * 1.5);
  gemm.n = 2;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.splits > 1 && p.time_ns < 10e6);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(doubling_a_size_of_an_aligned_gemm_is_neither_free_nor_a_cliff),
      cmocka_unit_test(the_same_holds_for_fp32),
      cmocka_unit_test(a_longer_k_is_neither_free_nor_a_cliff_for_few_rows_and_columns),
      cmocka_unit_test(an_a100_leaves_k_of_gemms_of_odd_rows_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

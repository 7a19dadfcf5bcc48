/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax between the GEMMs of attention: its exponential, and its results for a row. */
#include "test.h"

#include "runtime/cpu/onednn/scores.h"
#include "shape/number.h"

#include <math.h>
#include <string.h>

#if defined(__aarch64__)
static const char *const versions[] = {"portable", "neon"};
#else
static const char *const versions[] = {"portable", "avx2", "avx512"};
#endif

/* The versions up to this one that the processor can run. */
static const hr_scores_version *version_of(const char *last)
{
  hr_attention a = hr_attention_default();
  hr_error error;
  hr_isa isa;
  assert_ok(hr_isa_read(&isa, &error), error);
  assert_ok(hr_isa_mask(&isa, last, &error), error);
  return hr_scores_make(&a, &isa).version;
}

/* Every 251st float from −0 to −87: about 4.4 million. */
static void exponentials_have_at_most_four_rounding_errors(void **state)
{
  (void)state;
  for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
    const hr_scores_version *version = version_of(versions[v]);
    double worst = 0;
    uint32_t bits = 0x80000000u, last;
    float end = -87.0F, row[64], from[64];
    memcpy(&last, &end, sizeof last);
    while (bits < last) {
      for (int i = 0; i < 64; i++, bits += 251)
        memcpy(&from[i], bits < last ? &bits : &last, sizeof *from);
      memcpy(row, from, sizeof row);
      version->exponentials(row, 64, 0, 0);
      for (int i = 0; i < 64; i++)
        worst = fmax(worst, fabs((double)row[i] / exp((double)from[i]) - 1));
    }
    print_message("%s: %.3g\n", versions[v], worst);
    assert_true(worst < 2.5e-7);
  }
}

static void exponentials_of_infinity_and_nan_are_right(void **state)
{
  (void)state;
  for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
    const hr_scores_version *version = version_of(versions[v]);
    float row[20] = {-INFINITY, NAN, 0, -88, -1e30F}, sum = version->exponentials(row, 20, 0, 0);
    assert_true(row[0] == 0 && isnan(row[1]) && row[2] == 1 && row[3] == 0 && row[4] == 0 && isnan(sum));
  }
}

/* Scores log 1, log 3 between masked keys: weights 1/3 and 1, or a quarter and three quarters. */
static void masked_keys_have_weight_zero(void **state)
{
  (void)state;
  for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
    const hr_scores_version *version = version_of(versions[v]);
    const hr_score_row how = {.seen = {2, 4}, .scale = 1};
    float row[6] = {NAN, 5, 0, logf(3), INFINITY, 7};
    hr_score_sum sum = version->softmax(&how, row, 6, true);
    const float expected[] = {0, 0, 0.25F, 0.75F, 0, 0};
    for (int i = 0; i < 6; i++)
      assert_true(fabsf(row[i] - expected[i]) < 1e-6F);
    assert_true(fabsf(sum.sum - 4.0F / 3) < 1e-6F && fabsf(sum.lse - logf(4)) < 1e-6F);
    const hr_score_row nothing = {.seen = {3, 3}, .scale = 1};
    sum = version->softmax(&nothing, row, 6, true);
    assert_true(sum.sum == 0 && sum.lse == -INFINITY && row[3] == 0);
  }
}

static bool same_number(hr_dtype dtype, const void *a, const void *b, size_t i)
{
  double x = hr_number_load(dtype, a, i), y = hr_number_load(dtype, b, i);
  return x == y || (isnan(x) && isnan(y));
}

/* All 65536 values of a format are widened and narrowed, at counts that end within a vector; and the midpoints between
 * two values. */
static void widening_and_narrowing_keeps_every_value(void **state)
{
  (void)state;
  static uint16_t all[65536], back[65536];
  static float floats[65536];
  const hr_dtype dtypes[] = {HR_FP16, HR_BF16};
  for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
    for (size_t d = 0; d < 2; d++) {
      const hr_scores_version *version = version_of(versions[v]);
      for (size_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
      for (int64_t at = 0, count = 1; at < 65536; at += count, count = count % 61 + 1) {
        count = at + count > 65536 ? 65536 - at : count;
        memset(floats + at, 0x55, (size_t)count * sizeof *floats);
        version->widen(dtypes[d], all + at, count, floats + at);
        version->narrow(dtypes[d], floats + at, 1, count, back + at);
      }
      for (size_t i = 0; i < 65536; i++) {
        double number = hr_number_load(dtypes[d], all, i);
        assert_true((double)floats[i] == number || (isnan(floats[i]) && isnan(number)));
        assert_true(same_number(dtypes[d], all, back, i));
      }
    }
}

/* Floats of all exponents with random significands, converted in place as a row's weights are, against
 * hr_number_store(). */
static void numbers_are_rounded_to_nearest_in_place(void **state)
{
  (void)state;
  const hr_dtype dtypes[] = {HR_FP16, HR_BF16};
  for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
    for (size_t d = 0; d < 2; d++) {
      const hr_scores_version *version = version_of(versions[v]);
      uint64_t random = 7;
      for (int64_t round = 0; round < 4000; round++) {
        float row[45];
        uint16_t expected[45];
        for (int i = 0; i < 45; i++) {
          random = random * 6364136223846793005u + 1442695040888963407u;
          uint32_t bits = (uint32_t)(random >> 32) & (i % 3 ? 0xFFFFFFFFu : 0xFFFFF000u); /* ties too */
          memcpy(&row[i], &bits, sizeof bits);
          hr_number_store(dtypes[d], expected, (size_t)i, (double)(row[i] * 0.5F));
        }
        version->narrow(dtypes[d], row, 0.5F, 45, row);
        for (size_t i = 0; i < 45; i++)
          assert_true(same_number(dtypes[d], row, expected, i));
      }
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exponentials_have_at_most_four_rounding_errors),
      cmocka_unit_test(exponentials_of_infinity_and_nan_are_right),
      cmocka_unit_test(masked_keys_have_weight_zero),
      cmocka_unit_test(widening_and_narrowing_keeps_every_value),
      cmocka_unit_test(numbers_are_rounded_to_nearest_in_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
